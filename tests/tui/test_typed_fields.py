"""Fields to type in: every key counts in the order in which it was pressed, however fast."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from textual import events
from textual.widgets import Input

from tests.tui import moments
from tests.tui.test_keys import WIDE, ready, shown, until
from tui.app import DashboardApp
from tui.panels.lessons import LessonInput, LessonsPanel
from tui.screens.lesson import LessonScreen
from tui.screens.main import MainScreen
from tui.screens.task import TaskScreen
from tui.widgets.key_bar import KeyBar
from tui.widgets.search_field import SearchField
from tui.widgets.typed_field import TypedField


def burst(app: DashboardApp, *keys: str) -> None:
    """All the keys at once, as a terminal sends what was typed while the dashboard was busy."""
    for key in keys:
        app.post_message(events.Key(key, key if len(key) == 1 else None))


@pytest.mark.parametrize("opened", ["/", "4", "enter /"])
async def test_a_burst_of_letters_and_editing_keys_counts_in_its_order(opened: str, tmp_path: Path) -> None:
    app = DashboardApp(moments.with_lessons(moments.running(), tmp_path))
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        for key in opened.split():
            await pilot.press("slash" if key == "/" else key)
        await until(lambda: isinstance(app.focused, TypedField))
        field = app.focused
        assert isinstance(field, TypedField)
        burst(app, *"rou", *["backspace"] * 3, *"clash", "left", "left", "x", "home", "y", "end", "z")
        await until(lambda: field.value.endswith("z"))
        assert field.value == "yclaxshz"
        burst(app, "ctrl+u", *"fake", "escape", *"q")
        await until(lambda: "fake" not in field.value and field.value != "yclaxshz")
        assert field.value in ("", "q")
        assert isinstance(app.screen, (MainScreen, TaskScreen))


async def test_what_follows_the_key_that_opens_a_field_is_edited_there_too(tmp_path: Path) -> None:
    app = DashboardApp(moments.with_lessons(moments.running(), tmp_path))
    async with app.run_test(size=WIDE):
        await ready(app)
        burst(app, "slash", *"fix", "backspace", "backspace", *"ab")
        field = app.screen.query_one("#dispatch SearchField", SearchField)
        await until(lambda: field.value.endswith("b"))
        assert field.value == "fab"


@pytest.mark.parametrize("size", [WIDE, (80, 24), (40, 12)])
async def test_letters_in_one_burst_with_the_digit_of_the_lessons_go_to_their_search(
    size: tuple[int, int], tmp_path: Path
) -> None:
    app = DashboardApp(moments.with_lessons(moments.running(), tmp_path))
    async with app.run_test(size=size):
        await ready(app)
        burst(app, "4", *"fix x")
        field = app.screen.query_one(LessonInput)
        await until(lambda: field.value.endswith("x") and len(field.value) > 3)
        assert field.value == "fix x"
        assert isinstance(app.screen, MainScreen)


async def test_letters_that_come_before_the_focus_stay(tmp_path: Path) -> None:
    app = DashboardApp(moments.with_lessons(moments.running(), tmp_path))
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        field = app.screen.query_one("#dispatch SearchField", SearchField)
        field.open()
        await field.take(events.Key("t", "t"))
        await pilot.press("2")
        assert field.value == "t2"
        await pilot.press("enter", "slash", "x")
        assert field.value == "x", "what was typed last time is replaced"


async def test_what_is_pasted_with_the_key_that_opens_a_field_goes_there(tmp_path: Path) -> None:
    app = DashboardApp(moments.with_lessons(moments.running(), tmp_path))
    async with app.run_test(size=WIDE):
        await ready(app)
        burst(app, "slash")
        app.post_message(events.Paste("needle\nhay"))
        field = app.screen.query_one("#dispatch SearchField", SearchField)
        await until(lambda: field.value == "needle")


async def test_the_filter_says_what_leaves_it(tmp_path: Path) -> None:
    app = DashboardApp(moments.with_lessons(moments.running(), tmp_path))
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("slash")
        bar = app.screen.query_one(KeyBar)
        await until(lambda: "esc clear, leave" in bar.render_line(0).text)
        assert "q" not in bar.render_line(0).text.split()


@pytest.mark.parametrize("opened", ["slash", "4", "enter slash", "ctrl+p"])
@pytest.mark.parametrize(
    ("pasted", "kept"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("a\x00\x07\x9b2Jb", "a b"),
        ("a\tb\u202ec", "a b\ufffdc"),
        ("\x1b]0;title\x07x\ny", "x"),
        (" two  blanks ", " two  blanks "),
    ],
)
async def test_nothing_pasted_steers_the_terminal(
    opened: str, pasted: str, kept: str, tmp_path: Path
) -> None:
    app = DashboardApp(moments.with_lessons(moments.running(), tmp_path))
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press(*opened.split())
        await until(lambda: isinstance(app.focused, Input))
        field = app.focused
        assert isinstance(field, Input)
        app.post_message(events.Paste(pasted))
        await until(lambda: field.value != "")
        assert field.value == kept


async def test_a_lesson_shows_what_was_found_before_the_store_answers(tmp_path: Path) -> None:
    source = moments.with_lessons(moments.running(), tmp_path)
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("4", *"bankers", "enter")
        hits = app.screen.query_one(LessonsPanel).hits
        await until(lambda: len(hits.entries) == 1 and hits.has_focus)

        async def never(_: str) -> None:
            await asyncio.Event().wait()

        source.lookups.lesson = never  # type: ignore[method-assign,assignment]
        hits.action_open()
        await until(lambda: isinstance(app.screen, LessonScreen))
        assert isinstance(app.screen, LessonScreen)
        assert app.screen.lesson.failure_msg == "bankers' rounding"
        await until(lambda: "ROUND_HALF_UP" in shown(app, "LineView"))
