"""What a newcomer is told: once, until it is hidden, and never where nobody asked for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tui import moments
from tests.tui.test_keys import ready, shown, until
from tui.app import DashboardApp
from tui.hints import Hints
from tui.source import RecordedSource


async def test_the_first_steps_are_told_once_and_hidden_by_a_key(tmp_path: Path) -> None:
    file = tmp_path / "state" / "hints"
    source = moments.running()
    app = DashboardApp(source, hints=Hints(file))
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(app)
        await until(lambda: "new here?" in shown(app, "#banner"))
        await pilot.press("escape")
        await until(lambda: not app.screen.query_one("#banner").display)
    assert file.read_text().split() == ["start"]
    again = DashboardApp(moments.failed(), hints=Hints(file))
    async with again.run_test(size=(120, 40), notifications=True) as pilot:
        await ready(again)
        await until(lambda: "a task failed: e lists" in shown(again, "#banner"))
        await pilot.press("enter")
        await until(lambda: any("go through attempts" in n.message for n in again._notifications))
    assert file.read_text().split() == ["failed", "start", "task"]
    last = DashboardApp(moments.failed(), hints=Hints(file))
    async with last.run_test(size=(120, 40)):
        await ready(last)
        assert not last.screen.query_one("#banner").display


@pytest.mark.parametrize("size", moments.SIZES.values())
@pytest.mark.parametrize("moment", [moments.running, moments.failed])
async def test_a_hint_is_never_cut(
    moment: Callable[[], RecordedSource], size: tuple[int, int], tmp_path: Path
) -> None:
    app = DashboardApp(moment(), hints=Hints(tmp_path / "hints"))
    async with app.run_test(size=size):
        await ready(app)
        await until(lambda: "esc hides" in shown(app, "#banner"))
        assert "…" not in shown(app, "#banner")


def test_where_nothing_can_be_written_it_still_tells(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where a folder should be")
    hints = Hints(tmp_path / "state" / "hints")
    assert hints.first_time("start")
    assert not hints.first_time("start")


def test_without_a_file_there_are_no_hints() -> None:
    assert not Hints().first_time("start")
