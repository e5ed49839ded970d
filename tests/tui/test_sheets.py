"""The boxes over the dashboard: as high as what is in them, and no higher than there is room."""

from __future__ import annotations

from engine import events as ev
from tests.tui import moments
from tests.tui.test_keys import WIDE, ready, shown, until
from tui.app import DashboardApp
from tui.screens.help import HelpScreen
from tui.screens.main import MainScreen
from tui.widgets.line_view import LineView
from tui.widgets.sheet import BORDERS, Sheet


async def test_a_sheet_is_as_high_as_its_lines_and_grows_with_them() -> None:
    source = moments.told()
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("n")
        await until(lambda: bool(app.screen.query(Sheet)))
        sheet = app.screen.query_one(Sheet)
        view = sheet.query_one(LineView)
        await until(lambda: sheet.outer_size.height == len(view.lines) + BORDERS > 6)
        before = len(view.lines)
        source.play(ev.Noticed(at=source.now(), level="info", text="the disk has room again"))
        await until(lambda: sheet.outer_size.height == before + 1 + BORDERS)
        assert "the disk has room again" in shown(app, "LineView")


async def test_a_sheet_leaves_the_dashboard_in_sight_and_scrolls() -> None:
    app = DashboardApp(moments.running())
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("question_mark")
        await until(lambda: isinstance(app.screen, HelpScreen))
        sheet = app.screen.query_one(Sheet)
        view = sheet.query_one(LineView)
        await until(lambda: len(view.lines) > WIDE[1])
        await until(lambda: sheet.outer_size.height == WIDE[1] * 85 // 100)
        await pilot.press("G")
        await until(lambda: view.is_vertical_scroll_end)
        await pilot.press("escape")
        await until(lambda: isinstance(app.screen, MainScreen))


async def test_a_notice_names_its_task_once() -> None:
    app = DashboardApp(moments.told())
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("n")
        await until(lambda: "T2.19 has begun" in shown(app, "LineView"))
        assert "T2.19: T2.19" not in shown(app, "LineView")
        assert "T2.14: failed" in shown(app, "LineView")
