"""Every screen and state at three sizes, against pictures that were looked at. `--snapshot-update` accepts new ones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from engine.store.lessons import SearchResult
from tests.tui import moments, past, sample_run
from tests.tui.moments import MOMENTS, SIZES, failed, hostile, running
from tests.tui.test_keys import ready, shown, until
from tui.app import DashboardApp
from tui.cli.dashboard import LessonSearch
from tui.panels.lessons import LessonsPanel
from tui.screens.lesson import LessonScreen
from tui.source import RecordedSource, ReplaySource, Source
from tui.theme import LIGHT

Compare = Callable[..., bool]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("moment", MOMENTS)
def test_main_screen(moment: str, size: str, snap_compare: Compare) -> None:
    assert snap_compare(DashboardApp(MOMENTS[moment]()), terminal_size=SIZES[size])


@pytest.mark.parametrize("size", ["narrow", "wide"])
@pytest.mark.parametrize("section", ["1", "2", "3", "5", "6", "7", "8"])
def test_task_screen(section: str, size: str, snap_compare: Compare) -> None:
    assert snap_compare(DashboardApp(failed()), terminal_size=SIZES[size], press=["enter", section])


@pytest.mark.parametrize("size", SIZES)
def test_groups(size: str, snap_compare: Compare) -> None:
    assert snap_compare(DashboardApp(failed()), terminal_size=SIZES[size], press=["s"])


@pytest.mark.parametrize("size", SIZES)
def test_an_earlier_try(size: str, snap_compare: Compare) -> None:
    keys = ["e", "j", "enter", "less_than_sign", "slash", *"rounded", "enter"]
    assert snap_compare(DashboardApp(failed()), terminal_size=SIZES[size], press=keys)


@pytest.mark.parametrize("section", ["1", "2", "6", "7"])
def test_task_screen_with_hostile_text(section: str, snap_compare: Compare) -> None:
    assert snap_compare(DashboardApp(hostile()), terminal_size=SIZES["normal"], press=["enter", section])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("moment", ["edited", "hostile"])
def test_board_screen(moment: str, size: str, snap_compare: Compare) -> None:
    assert snap_compare(DashboardApp(MOMENTS[moment]()), terminal_size=SIZES[size], press=["b"])


@pytest.mark.parametrize("size", ["narrow", "normal"])
@pytest.mark.parametrize("panel", ["2", "3", "4", "5"])
def test_panel_alone(panel: str, size: str, snap_compare: Compare) -> None:
    assert snap_compare(DashboardApp(running()), terminal_size=SIZES[size], press=[panel])


class _Still(LessonSearch):
    """Takes always the same time."""

    async def search_typed(self, typed: str, limit: int) -> AsyncIterator[SearchResult]:
        async for result in super().search_typed(typed, limit):
            yield replace(result, took_s=0.001)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("keys", ["", "enter enter"], ids=["hits", "one"])
def test_lessons(
    keys: str, size: str, snap_compare: Compare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.cli.dashboard.LessonSearch", _Still)

    async def search(pilot: Any) -> None:
        app = pilot.app
        await ready(app)
        await pilot.press("4", *"round")
        hits = app.screen.query_one(LessonsPanel).hits
        await until(lambda: len(hits.entries) == 2)
        await pilot.press(*keys.split())
        if keys:
            await until(lambda: isinstance(app.screen, LessonScreen))
        await pilot.pause()

    app = DashboardApp(moments.with_lessons(running(), tmp_path))
    assert snap_compare(app, terminal_size=SIZES[size], run_before=search)


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("zoomed", ["3", "plus"]),
        ("filtered", ["slash", *"cart", "enter"]),
        ("no match", ["slash", *"zzz", "enter"]),
        ("problems", ["e"]),
        ("longest first", ["s", "s"]),
        ("marked", ["space", "space"]),
        ("keys", ["question_mark"]),
        ("notices", ["n"]),
        ("cancel", ["j", "j", "x"]),
        ("quit", ["q"]),
    ],
)
def test_after_keys(name: str, keys: list[str], snap_compare: Compare) -> None:
    assert snap_compare(DashboardApp(failed()), terminal_size=SIZES["wide"], press=keys)


async def _runs_are_listed(pilot: Any) -> None:
    await until(lambda: shown(pilot.app, "RunList").count("/24") == 3)


@pytest.mark.parametrize("size", SIZES)
def test_past_runs(size: str, snap_compare: Compare, tmp_path: Path) -> None:
    source = running()
    source.lookups = past.three_runs(tmp_path)

    async def before(pilot: Any) -> None:
        await pilot.press("5", *["plus"] * (size == "wide"))
        await _runs_are_listed(pilot)

    assert snap_compare(DashboardApp(source), terminal_size=SIZES[size], run_before=before)


@pytest.mark.parametrize("size", SIZES)
def test_which_run_to_watch(size: str, snap_compare: Compare, tmp_path: Path) -> None:
    watched = moments.stale()

    class Choice:
        def choose(self, run: str) -> None: ...

    source: Source = RecordedSource(
        sample_run.events_until(170),
        now=watched.now(),
        mode="WATCH",
        choice=Choice(),
        lookups=past.three_runs(tmp_path),
    )

    async def before(pilot: Any) -> None:
        await until(lambda: "5/24" in shown(pilot.app, "#header"))
        await pilot.pause()
        await pilot.press("w")
        await _runs_are_listed(pilot)

    assert snap_compare(DashboardApp(source), terminal_size=SIZES[size], run_before=before)


@pytest.mark.parametrize("size", SIZES)
def test_replay(size: str, snap_compare: Compare) -> None:
    source = ReplaySource(sample_run.events(), monotonic=lambda: 0.0)

    async def before(pilot: Any) -> None:
        await until(lambda: pilot.app.frame.snapshot.run.started is not None)
        await pilot.press(*["right_square_bracket"] * 17)
        await until(lambda: pilot.app.frame.elapsed > 169)
        await pilot.press("p")
        await pilot.pause()

    assert snap_compare(DashboardApp(source), terminal_size=SIZES[size], run_before=before)


def test_light_theme(snap_compare: Compare) -> None:
    def light(pilot: Any) -> None:
        pilot.app.theme = LIGHT.name

    async def before(pilot: Any) -> None:
        light(pilot)

    assert snap_compare(DashboardApp(failed()), terminal_size=SIZES["wide"], run_before=before)


def test_without_colour(snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(DashboardApp(failed()), terminal_size=SIZES["normal"])


def test_too_small(snap_compare: Compare) -> None:
    assert snap_compare(DashboardApp(running()), terminal_size=(20, 5))
