"""The panel of lessons: searched as somebody types, walked through, opened, and left again."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from engine import events as ev
from engine.store.lessons import LessonStore
from tests.tui import moments, sample_run
from tests.tui.moments import BEGIN, SIZES
from tests.tui.test_keys import WIDE, ready, shown, until
from tui.app import DashboardApp
from tui.marking import MARK
from tui.panels.lessons import LessonInput, LessonsPanel
from tui.screens.help import HelpScreen
from tui.screens.lesson import LessonScreen
from tui.screens.main import MainScreen
from tui.source import ReplaySource
from tui.source.protocol import Mode
from tui.widgets.key_bar import KeyBar
from tui.widgets.lesson_list import LessonList
from tui.widgets.task_list import TaskList


async def find_the_one(pilot: Pilot[None]) -> LessonList:
    """Search for the lesson about bankers' rounding; gives the hits, which are at the keys."""
    await pilot.press("4", *"bankers", "enter")
    hits = pilot.app.screen.query_one(LessonsPanel).hits
    await until(lambda: len(hits.entries) == 1 and hits.has_focus)
    return hits


async def test_lessons_are_searched_as_they_are_typed(tmp_path: Path) -> None:
    app = DashboardApp(moments.with_lessons(moments.running(), tmp_path))
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("4", *"cart", "space", *"fake")
        await until(lambda: "rounded twice" not in shown(app, "#lessons LessonList"))
        assert "the cart fixture sleeps\n  → use the fake clock" in shown(app, "#lessons LessonList")
        panel = app.screen.query_one(LessonsPanel)
        marks = [part for line in panel.hits.lines for part, tone in line if tone == MARK]
        assert marks == ["cart", "fake"]
        await pilot.press("escape")
        await until(lambda: "bankers" in shown(app, "#lessons LessonList"))


async def test_a_slash_typed_out_of_habit_is_no_part_of_the_search(tmp_path: Path) -> None:
    app = DashboardApp(moments.with_lessons(moments.running(), tmp_path))
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("4", "slash", *"bankers")
        panel = app.screen.query_one(LessonsPanel)
        await until(lambda: len(panel.hits.entries) == 1)
        assert panel.query_one(LessonInput).value == "bankers"


async def test_who_is_among_the_hits_stays_there_when_the_panel_is_shown_in_full(tmp_path: Path) -> None:
    app = DashboardApp(moments.with_lessons(moments.running(), tmp_path))
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        hits = await find_the_one(pilot)
        await pilot.press("plus")
        await until(lambda: not app.screen.query_one("#dispatch").display)
        await pilot.pause()
        assert app.focused is hits


@pytest.mark.parametrize("size", SIZES)
async def test_the_search_says_how_to_leave_it_and_escape_does(size: str, tmp_path: Path) -> None:
    app = DashboardApp(moments.with_lessons(moments.running(), tmp_path))
    async with app.run_test(size=SIZES[size]) as pilot:
        await ready(app)
        tasks = app.screen.query_one(TaskList)
        await pilot.press("space", "4")
        await until(lambda: isinstance(app.focused, LessonInput))
        assert "esc leaves" in str(app.screen.query_one(LessonInput).placeholder)
        bar = app.screen.query_one(KeyBar)
        await until(lambda: "esc clear, leave" in bar.render_line(0).text)
        assert bar.render_line(0).text.split()[:2] == ["enter", "hits"]
        assert not {"r", "x", "p", "e", "q", "/", "+"} & set(bar.render_line(0).text.split())
        await pilot.press("q", "escape")
        assert isinstance(app.focused, LessonInput)
        await pilot.press("escape")
        await until(lambda: tasks.has_focus)
        assert tasks.marked, "leaving the search takes no mark away"
        assert app.screen.query_one("#dispatch").display


@pytest.mark.parametrize("way", ["enter", "tab"])
@pytest.mark.parametrize("size", SIZES)
async def test_escape_at_the_hits_clears_the_search_and_then_goes_back(
    size: str, way: str, tmp_path: Path
) -> None:
    app = DashboardApp(moments.with_lessons(moments.running(), tmp_path))
    async with app.run_test(size=SIZES[size]) as pilot:
        await ready(app)
        tasks = app.screen.query_one(TaskList)
        await pilot.press("4", *"bankers", way)
        hits = app.screen.query_one(LessonsPanel).hits
        await until(lambda: len(hits.entries) == 1 and hits.has_focus)
        await pilot.press("escape")
        await until(lambda: len(hits.entries) > 1)
        assert app.screen.query_one(LessonInput).value == ""
        assert hits.has_focus
        await pilot.press("escape")
        await until(lambda: tasks.has_focus)


@pytest.mark.parametrize("size", SIZES)
async def test_a_lesson_opens_in_whole_by_key_and_by_mouse(size: str, tmp_path: Path) -> None:
    app = DashboardApp(moments.with_lessons(moments.running(), tmp_path))
    async with app.run_test(size=SIZES[size]) as pilot:
        await ready(app)
        await pilot.press("4", *"cart", "enter")
        hits = app.screen.query_one(LessonsPanel).hits
        await until(lambda: len(hits.entries) == 2 and hits.has_focus)
        await pilot.press("j", "j", "enter")
        await until(lambda: isinstance(app.screen, LessonScreen) and shown(app, "LineView") != "")
        lines = shown(app, "LineView").splitlines()
        assert lines[:2] == ["What helped", "  use the fake clock"]
        assert {line.split()[0] for line in lines[6:]} >= {"task", "stage", "seen", "first", "last", "id"}
        await pilot.press("escape")
        await until(lambda: isinstance(app.screen, MainScreen))
        assert hits.has_focus
        assert hits.cursor == 1
        await pilot.click(LessonList, offset=(4, 1))
        assert hits.cursor == 0
        await pilot.click(LessonList, offset=(4, 1))
        await until(lambda: isinstance(app.screen, LessonScreen))
        assert isinstance(app.screen, LessonScreen)
        assert app.screen.lesson.failure_msg == "cart total is rounded twice"


@pytest.mark.parametrize("mode", ["LIVE", "WATCH", "REPLAY"])
async def test_lessons_open_whatever_is_looked_at(mode: Mode, tmp_path: Path) -> None:
    source = moments.with_lessons(moments.running(), tmp_path)
    source.mode = mode
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await find_the_one(pilot)
        await pilot.press("enter")
        await until(lambda: isinstance(app.screen, LessonScreen))


async def test_a_search_for_what_cannot_be_says_so(tmp_path: Path) -> None:
    app = DashboardApp(moments.with_lessons(moments.running(), tmp_path))
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("4", *"type:bogus")
        await until(lambda: "no lesson has type:bogus; there is" in shown(app, "LessonList"))


async def test_what_this_run_learned_opens_too_or_says_why_not(tmp_path: Path) -> None:
    source = moments.with_lessons(moments.running(), tmp_path)
    [known] = (await anext(source.lookups.search_lessons("bankers"))).lessons
    source.play(
        ev.LessonRecorded(at=source.now(), task="T2.01", lesson="Lgone", text="[/] gone"),
        ev.LessonRecorded(at=source.now(), task="T2.01", lesson=known.id, text="bankers' rounding"),
    )
    app = DashboardApp(source)
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await ready(app)
        hits = app.screen.query_one(LessonsPanel).hits
        await pilot.press("4", "enter")
        await until(lambda: len(hits.entries) > 4 and hits.has_focus)
        await pilot.press("enter")
        await until(lambda: isinstance(app.screen, LessonScreen))
        await pilot.press("escape", "j", "enter")
        await until(lambda: any("[/] gone (no more is known" in n.message for n in app._notifications))
        assert isinstance(app.screen, MainScreen)


async def test_a_lesson_opens_as_it_is_now_and_not_as_it_was_found(tmp_path: Path) -> None:
    app = DashboardApp(moments.with_lessons(moments.running(), tmp_path))
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        hits = await find_the_one(pilot)
        with LessonStore(tmp_path / "lessons.jsonl", tmp_path / "lessons.db") as other:
            other.resolve(hits.entries[0].id, "half to even")
        await pilot.press("enter")
        await until(lambda: isinstance(app.screen, LessonScreen) and shown(app, "LineView") != "")
        assert shown(app, "LineView").splitlines()[:2] == ["What helped", "  half to even"]


async def test_a_replay_lists_no_lesson_of_its_future_but_finds_it(tmp_path: Path) -> None:
    lookups = moments.lessons(tmp_path)
    with LessonStore(tmp_path / "lessons.jsonl", tmp_path / "lessons.db", clock=lambda: BEGIN + 60) as later:
        later.add("fix_bug", "verify", "check_failed", "the cart forgets its coupon")
    source = ReplaySource(sample_run.events(), lookups=lookups, monotonic=lambda: 0.0)
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await until(lambda: app._pulse.running)
        source.playback.seek(100.0)
        await until(lambda: "forgets its coupon" in shown(app, "#lessons LessonList"))
        source.playback.seek(30.0)
        await until(lambda: "forgets its coupon" not in shown(app, "#lessons LessonList"))
        assert "the cart fixture sleeps" in shown(app, "#lessons LessonList"), "it was known before"
        await pilot.press("4", *"coupon")
        await until(lambda: "forgets its coupon" in shown(app, "#lessons LessonList"))


async def test_an_open_lesson_follows_the_store(tmp_path: Path) -> None:
    app = DashboardApp(moments.with_lessons(moments.running(), tmp_path))
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        hits = await find_the_one(pilot)
        await pilot.press("enter")
        await until(lambda: "ROUND_HALF_UP" in shown(app, "LineView"))
        with LessonStore(tmp_path / "lessons.jsonl", tmp_path / "lessons.db") as other:
            other.resolve(hits.entries[0].id, "half to even")
        await until(lambda: "half to even" in shown(app, "LineView"))


async def test_help_opens_over_a_lesson_and_leaves_it_open(tmp_path: Path) -> None:
    app = DashboardApp(moments.with_lessons(moments.running(), tmp_path))
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await find_the_one(pilot)
        await pilot.press("enter")
        await until(lambda: isinstance(app.screen, LessonScreen))
        await pilot.press("question_mark")
        await until(lambda: isinstance(app.screen, HelpScreen))
        await pilot.press("question_mark")
        await until(lambda: isinstance(app.screen, LessonScreen))


async def test_hits_say_how_many_more_there_are(tmp_path: Path) -> None:
    with LessonStore(tmp_path / "lessons.jsonl", tmp_path / "lessons.db") as store:
        for number in range(60):
            store.add("fix_bug", "verify", "timeout", f"no answer from {chr(97 + number % 26)}{'x' * number}")
    app = DashboardApp(moments.with_lessons(moments.running(), tmp_path))
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("4", *"answer", "enter")
        hits = app.screen.query_one(LessonsPanel).hits
        await until(lambda: len(hits.entries) == 50)
        await pilot.press("G")
        assert hits.cursor == 49
        assert shown(app, "#lessons LessonList").endswith("50 of 60: more words find fewer")
        row = len(hits.lines) - 1 - hits.scroll_offset.y
        assert row < hits.size.height, "the last line is in sight below the last hit"


async def test_the_marks_before_what_this_run_learned_are_explained(tmp_path: Path) -> None:
    app = DashboardApp(moments.with_lessons(moments.running(), tmp_path))
    legend = "✓ resolved, + not · 2×: seen twice"
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        panel = app.screen.query_one(LessonsPanel)
        assert app.frame.snapshot.lesson_notes
        await until(lambda: legend in str(panel.border_subtitle))
        await pilot.press("4", *"bankers")
        await until(lambda: "of " in str(panel.border_subtitle) and legend not in str(panel.border_subtitle))


async def test_a_replay_tells_the_lessons_of_then_from_those_of_today(tmp_path: Path) -> None:
    lookups = moments.with_lessons(moments.running(), tmp_path).lookups
    source = ReplaySource(sample_run.events_until(170), lookups=lookups, monotonic=lambda: 0.0)
    source.playback.seek(160)
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        panel = app.screen.query_one(LessonsPanel)
        total = app.frame.snapshot.lessons.total
        await until(lambda: str(panel.border_subtitle).endswith(f"{total:,} lessons then"))
        await pilot.press("4", *"bankers")
        await until(lambda: str(panel.border_subtitle).startswith("1 found today in "))
