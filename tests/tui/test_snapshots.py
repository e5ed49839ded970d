"""Every screen and state at three sizes, against pictures that were looked at. `--snapshot-update` accepts new ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.tui.moments import MOMENTS, SIZES, failed, hostile, running
from tui.app import DashboardApp
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


@pytest.mark.parametrize("section", ["1", "2", "6", "7"])
def test_task_screen_with_hostile_text(section: str, snap_compare: Compare) -> None:
    assert snap_compare(DashboardApp(hostile()), terminal_size=SIZES["normal"], press=["enter", section])


@pytest.mark.parametrize("size", ["narrow", "normal"])
@pytest.mark.parametrize("panel", ["2", "3", "4", "5"])
def test_panel_alone(panel: str, size: str, snap_compare: Compare) -> None:
    assert snap_compare(DashboardApp(running()), terminal_size=SIZES[size], press=[panel])


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
