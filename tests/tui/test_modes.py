"""What the footer, the help and the palette offer works in the mode at hand, on every screen."""

from __future__ import annotations

import pytest

from engine import events as ev
from tests.tui import moments, sample_run
from tests.tui.test_keys import WIDE, ready, shown, until
from tui.app import DashboardApp
from tui.commands import DashboardCommands
from tui.modes import works_in
from tui.screens.help import HelpScreen, key_groups
from tui.screens.task import TaskScreen
from tui.source import Mode, ReplaySource, Source
from tui.widgets.key_bar import KeyBar

MODES: tuple[Mode, ...] = ("LIVE", "WATCH", "REPLAY")
STEERING = {"retry", "cancel", "pause", "drain", "lane", "land_now", "more"}
TAPE = {"play", "speed", "seek"}


def source_in(mode: Mode) -> Source:
    if mode == "REPLAY":
        clock = [100.0]
        return ReplaySource(sample_run.events(), monotonic=lambda: clock[0])
    return moments.running() if mode == "LIVE" else moments.stale()


def bar(app: DashboardApp) -> str:
    return "".join(segment.text for segment in app.screen.query_one(KeyBar).render_line(0))


def actions(app: DashboardApp) -> set[str]:
    """The actions, without their parameters, that a key would run on this screen."""
    active = app.screen.active_bindings.values()
    return {each.binding.action.partition("(")[0] for each in active if each.enabled}


@pytest.mark.parametrize("mode", MODES)
async def test_only_what_works_is_offered(mode: Mode) -> None:
    app = DashboardApp(source_in(mode))
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        if mode == "REPLAY":
            await pilot.press("right_square_bracket")
        await ready(app)
        for screen in ("main", "task"):
            if screen == "task":
                await pilot.press("enter")
                await until(lambda: isinstance(app.screen, TaskScreen))
                await pilot.pause()
            offered = actions(app)
            assert bool(offered & STEERING) == (mode == "LIVE")
            assert bool(offered & TAPE) == (mode == "REPLAY")
            assert ("retry" in bar(app)) == (mode == "LIVE")
            assert ("play" in bar(app)) == (mode == "REPLAY" and screen == "main")
        await pilot.press("question_mark")
        await until(lambda: isinstance(app.screen, HelpScreen) and "Everywhere" in shown(app, "LineView"))
        text = " ".join(shown(app, "LineView").split())
        listed = {words for _, rows in key_groups(mode) for _, words in rows}
        others = {words for each in MODES for _, rows in key_groups(each) for _, words in rows} - listed
        assert others
        assert [words for words in listed if words not in text] == []
        assert [words for words in others if words in text] == []


@pytest.mark.parametrize(
    ("keys", "first"),
    [
        ((), ["Tasks", "Dashboard", "Everywhere"]),
        (("5",), ["Runs", "Dashboard", "Everywhere"]),
        (("4",), ["Lessons", "Dashboard", "Everywhere"]),
        (("2",), ["Dashboard", "Any text", "Everywhere"]),
        (("enter",), ["Task screen", "Any text", "Everywhere"]),
    ],
)
async def test_the_help_begins_with_the_keys_of_where_one_is(keys: tuple[str, ...], first: list[str]) -> None:
    app = DashboardApp(moments.running())
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press(*keys)
        await pilot.pause()
        await pilot.press("question_mark")
        await until(lambda: isinstance(app.screen, HelpScreen) and "Everywhere" in shown(app, "LineView"))
        heads = [line for line in shown(app, "LineView").splitlines() if line and not line.startswith(" ")]
        assert heads[:3] == first
        assert len(heads) == len(set(heads)) == len(key_groups("LIVE"))


@pytest.mark.parametrize("mode", MODES)
async def test_a_key_of_another_mode_says_why_not(mode: Mode) -> None:
    refused = {"LIVE": ("right_square_bracket",), "WATCH": ("r", "L"), "REPLAY": ("x", "X")}[mode]
    words = {
        "LIVE": "that is for replays",
        "WATCH": "read-only: this run belongs to another process",
        "REPLAY": "read-only: this is a replay",
    }[mode]
    app = DashboardApp(source_in(mode))
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        for key in refused:
            app.clear_notifications()
            await pilot.press(key)
            await until(lambda: [n.message for n in app._notifications] == [words])


async def test_once_all_has_landed_the_footer_offers_what_can_still_be_done() -> None:
    source = moments.finished()
    app = DashboardApp(source)
    async with app.run_test(size=(80, 24)) as pilot:
        tasks = await ready(app)
        await until(lambda: "4 lessons" in bar(app))
        assert "r retry" in bar(app), "one has failed"
        source.play(
            ev.TaskLanded(at=source.now(), task=sample_run.FAILING, commit="0" * 40, train=9),
            sample_run.finished(source.now(), landed=24, failed=0, status="landed"),
        )
        await until(lambda: "retry" not in bar(app))
        words = bar(app).split()
        assert not {"r", "x", "p", "cancel", "pause"} & set(words)
        assert {"enter", "4", "lessons", "5", "history", "help", "quit"} <= set(words)
        tasks.choose(sample_run.FAILING)
        await pilot.press("enter")
        await until(lambda: isinstance(app.screen, TaskScreen) and "back" in bar(app))
        assert not {"retry", "cancel"} & set(bar(app).split())


async def test_escape_says_how_to_leave_a_replay_that_nothing_lies_behind() -> None:
    app = DashboardApp(source_in("REPLAY"))
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await pilot.press("right_square_bracket")
        await ready(app)
        await pilot.press("5", "escape")
        assert [n.message for n in app._notifications] == [], "it led back to the tasks"
        await pilot.press("escape")
        await until(lambda: [n.message for n in app._notifications] == ["q leaves the replay"])


async def test_a_key_says_which_mode_it_is_for() -> None:
    live = DashboardApp(source_in("LIVE"))
    async with live.run_test(size=WIDE, notifications=True) as pilot:
        await pilot.press("w")
        await until(lambda: ["taskyard watch" in n.message for n in live._notifications] == [True])
    watched = DashboardApp(source_in("WATCH"))
    async with watched.run_test(size=WIDE, notifications=True) as pilot:
        await pilot.press("right_square_bracket")
        await until(lambda: [n.message for n in watched._notifications] == ["that is for replays"])


@pytest.mark.parametrize("mode", MODES)
async def test_the_palette_offers_what_works(mode: Mode) -> None:
    app = DashboardApp(source_in(mode))
    async with app.run_test(size=WIDE):
        names = {str(hit.text) async for hit in DashboardCommands(app.screen).discover()}
    assert ("Drain" in names) == (mode == "LIVE")
    assert ("Play or pause" in names) == (mode == "REPLAY")


def test_what_no_table_names_works_everywhere() -> None:
    assert all(works_in("app.help", mode) and works_in("panel(1)", mode) for mode in MODES)
    assert [mode for mode in MODES if works_in("more(1)", mode)] == ["LIVE"]


async def test_what_a_key_was_told_goes_at_the_next_key_and_at_a_click() -> None:
    app = DashboardApp(source_in("LIVE"))
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await ready(app)
        await pilot.press("right_square_bracket")
        await until(lambda: [n.message for n in app._notifications] == ["that is for replays"])
        await pilot.press("j")
        assert list(app._notifications) == []
        await pilot.press("right_square_bracket")
        await until(lambda: len(app._notifications) == 1)
        await pilot.click("#header")
        assert list(app._notifications) == []
        app.tell("it broke", "error")
        await pilot.press("j")
        assert [n.message for n in app._notifications] == ["it broke"], "this was no answer to a key"


@pytest.mark.parametrize("size", moments.SIZES)
async def test_a_panel_in_full_offers_the_way_back_and_a_click_takes_it(size: str) -> None:
    app = DashboardApp(source_in("LIVE"))
    async with app.run_test(size=moments.SIZES[size]) as pilot:
        await ready(app)
        assert "esc" not in bar(app)
        await pilot.press("3")
        if size == "wide":
            await pilot.press("plus")
        await until(lambda: bar(app).startswith(" esc back "))
        assert "zoom" not in bar(app)
        assert not app.screen.query_one("#dispatch").display
        await pilot.click(KeyBar, offset=(2, 0))
        await until(lambda: app.screen.query_one("#dispatch").display)
        assert "esc" not in bar(app)
