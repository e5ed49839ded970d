"""The runs of a repository: listed in the History panel, played again over the run at hand, and chosen to watch."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine import events as ev
from engine.model import TaskState
from engine.store.journal import Journal
from engine.store.journal_reader import JournalReader
from engine.store.owner import Owner
from engine.store.state_db import open_state
from tests.tui import moments, past, sample_run
from tests.tui.test_keys import WIDE, ready, shown, until
from tests.tui.test_modes import bar
from tui.app import DashboardApp
from tui.screens.main import MainScreen
from tui.screens.runs import RunsScreen
from tui.screens.task import TaskScreen
from tui.source import Lookups, RecordedSource, ReplaySource, WatchSource
from tui.widgets.key_bar import KeyBar
from tui.widgets.run_list import RunList

BEGIN = past.BEGIN


def live(folder: Path) -> RecordedSource:
    source = moments.running()
    source.lookups = past.three_runs(folder)
    return source


async def listed(app: DashboardApp, count: int = 3) -> RunList:
    """Wait until the runs are listed, with their progress; gives the list."""
    await until(lambda: bool(app.screen.query(RunList)))
    runs = app.screen.query_one(RunList)
    await until(lambda: len(runs.runs) == count and "/" in shown(app, "RunList"))
    return runs


async def test_the_history_lists_the_runs_and_how_each_stands(tmp_path: Path) -> None:
    app = DashboardApp(live(tmp_path))
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("5", "plus")
        await listed(app)
        await until(lambda: shown(app, "RunList").count("/24") == 3)
        rows = [line.split() for line in shown(app, "RunList").splitlines()]
        assert [row[:5] for row in rows] == [
            ["✗", "died", "10", "min", "ago"],
            ["✓", "all", "landed", "55", "min"],
            ["✗", "not", "all", "landed", "1"],
        ]
        far = [row[row.index("ago") + 1 :][:2] for row in rows]
        assert far == [["00:00", "5/24"], ["04:50", "18/24"], ["05:30", "23/24"]]
        assert "r-middle  pid 4242 on elsewhere" in shown(app, "RunList")


async def test_the_run_on_the_screen_is_as_far_in_the_list_as_in_the_header(tmp_path: Path) -> None:
    source = moments.running()
    past.record(tmp_path, sample_run.RUN, started=BEGIN - 95, seconds=5, owner=Owner.of_this_process())
    source.lookups = past.lookups(tmp_path)
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("5", "plus")
        runs = await listed(app, 1)
        read_at = runs._read_at
        snapshot = app.frame.snapshot
        far = f"{snapshot.count(TaskState.LANDED)}/{snapshot.total}"
        assert far in shown(app, "#header")
        assert far in shown(app, "RunList")
        source.play(sample_run.finished(source.now(), landed=24, failed=0, status="landed"))
        await until(lambda: "24/24" in shown(app, "RunList"))
        # Long before it is time to read again, and before the journal tells: the screen knows that it has ended.
        assert "✓ all landed" in shown(app, "RunList")
        assert runs._read_at > read_at


async def test_a_second_click_opens_a_run_however_late_it_comes(tmp_path: Path) -> None:
    app = DashboardApp(live(tmp_path))
    app.CLICK_CHAIN_TIME_THRESHOLD = -1.0  # type: ignore[misc]  # no click is near enough to another to make a double one
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("5", "plus")
        runs = await listed(app)
        await pilot.click(RunList, offset=(10, 1))
        await until(lambda: runs.cursor == 1)
        await pilot.press("up", "down")
        await pilot.click(RunList, offset=(10, 1))
        await pilot.pause()
        assert not app.replays.showing, "a key came between"
        await pilot.click(RunList, offset=(10, 1))
        await until(lambda: app.replays.showing)


async def test_a_run_is_counted_anew_once_it_has_ended_and_as_its_end_tells(tmp_path: Path) -> None:
    past.record(tmp_path, "r-now", started=BEGIN - 95, seconds=95, owner=Owner.of_this_process())
    source = moments.running()
    source.lookups = past.lookups(tmp_path)
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("5", "plus")
        runs = await listed(app, 1)
        assert shown(app, "RunList").split()[:1] == ["▶"]
        end = replace(sample_run.finished(BEGIN - 5, landed=24, failed=0, status="landed"), duration_s=61.0)
        database = open_state(tmp_path / "state.db")
        journal = Journal(database, tmp_path / "archive", clock=lambda: BEGIN)
        journal.append("r-now", [end], durable=True).result()
        journal.end_run("r-now", BEGIN, "landed").result()
        database.close()
        runs.on_focus()
        await until(lambda: "24/24" in shown(app, "RunList"))
        row = shown(app, "RunList").split()
    assert row[:3] == ["✓", "all", "landed"]
    assert "01:01" in row


async def test_a_past_run_plays_over_the_live_one_which_goes_on_behind_it(tmp_path: Path) -> None:
    source = live(tmp_path)
    app = DashboardApp(source)
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await ready(app)
        await pilot.press("5")
        await listed(app)
        await pilot.press("j", "enter")
        await until(lambda: app.frame.mode == "REPLAY")
        assert app.frame.snapshot.run.run == "r-middle"
        tape = app.source.playback
        assert tape is not None
        await pilot.press("p")
        assert not tape.playing
        await pilot.press("greater_than_sign", *["right_square_bracket"] * 9)
        assert tape.speed == 2.0
        assert 90 <= tape.position < 100
        await ready(app)
        await until(lambda: app.frame.snapshot.count(TaskState.LANDED) > 0)
        await pilot.press("enter")
        await until(lambda: isinstance(app.screen, TaskScreen))
        await pilot.press("escape")
        await until(lambda: isinstance(app.screen, MainScreen))

        source.play(
            ev.Noticed(at=source.now(), level="error", text="the disk is full"),
            sample_run.finished(source.now()),
        )
        await until(lambda: len(app._notifications) == 2)
        assert [n.message for n in app._notifications] == [
            "✗ the disk is full; esc goes back to the run",
            "the run behind this replay has ended: esc goes back to it",
        ]
        assert app.exit_status == 1
        assert app.frame.mode == "REPLAY"
        await pilot.press("escape")
        await until(lambda: app.frame.mode == "LIVE")
        assert app.frame.snapshot is source.latest()
        assert len(app.screen_stack) == 1
        await until(lambda: "some failed" in shown(app, "#header"))
        assert app.screen.query_one(RunList).has_focus


async def test_quitting_from_a_replay_asks_about_the_live_run_behind_it(tmp_path: Path) -> None:
    app = DashboardApp(live(tmp_path))
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        app.replays.open("r-oldest")
        await until(lambda: app.frame.mode == "REPLAY")
        await pilot.press("ctrl+c", "ctrl+c")
        await until(lambda: not app.is_running)
    assert app.return_value == 130


@pytest.mark.parametrize("size", moments.SIZES)
async def test_a_replay_over_a_run_says_how_to_leave_it(size: str, tmp_path: Path) -> None:
    app = DashboardApp(live(tmp_path))
    async with app.run_test(size=moments.SIZES[size], notifications=True) as pilot:
        await ready(app)
        app.replays.open("r-oldest")
        await until(lambda: app.frame.mode == "REPLAY" and bool(app.screen.query(KeyBar)))
        await until(lambda: bar(app).startswith(" esc leaves the replay "))
        assert bar(app).rstrip().endswith("q quit"), "what is kept fits"
        if size != "narrow":
            await until(lambda: "esc leaves the replay" in shown(app, "#tape"))
        await pilot.press("r")
        await until(lambda: [n.message for n in app._notifications] == ["read-only: this is a replay"])
        await pilot.press("escape")
        await until(lambda: app.frame.mode == "LIVE")
        assert "replay" not in bar(app)
        assert list(app._notifications) == []
        app.replays.open("r-oldest")
        await until(lambda: app.frame.mode == "REPLAY" and bool(app.screen.query(KeyBar)))
        await until(lambda: "leaves" in bar(app))
        await pilot.click(KeyBar, offset=(2, 0))
        await until(lambda: app.frame.mode == "LIVE")


async def test_another_run_is_opened_from_a_replay_in_its_place(tmp_path: Path) -> None:
    lookups = past.three_runs(tmp_path)
    app = DashboardApp(ReplaySource(sample_run.events(), lookups=lookups))
    async with app.run_test(size=WIDE) as pilot:
        for run in ("r-oldest", "r-newest"):
            app.replays.open(run)
            await until(lambda: app.frame.snapshot.run.run == run)  # noqa: B023
        assert len(app.screen_stack) == 2
        await pilot.press("escape")
        await until(lambda: app.source is app.behind)
        assert len(app.screen_stack) == 1


async def test_dismissed_notices_of_a_replay_are_not_those_of_the_run(tmp_path: Path) -> None:
    source = live(tmp_path)
    source.play(ev.Noticed(at=source.now(), level="error", text="look at me"))
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        app.replays.open("r-oldest")
        await until(lambda: app.frame.mode == "REPLAY")
        await pilot.press("n", "d")
        await pilot.press("escape")
        await until(lambda: app.frame.mode == "LIVE")
        assert app.frame.errors == 1


async def test_a_run_whose_events_are_gone_says_so(tmp_path: Path) -> None:
    past.record(tmp_path, "r-empty", started=BEGIN - 60, events=(), status="interrupted")
    source = moments.running()
    source.lookups = past.lookups(tmp_path)
    app = DashboardApp(source)
    async with app.run_test(size=WIDE, notifications=True):
        await ready(app)
        app.replays.open("r-empty")
        await until(lambda: len(app._notifications) == 1)
        told = next(iter(app._notifications)).message
    assert told.startswith("nothing is known of run r-empty")
    assert app.frame.mode == "LIVE"


async def test_without_a_journal_the_panel_still_shows_its_figures() -> None:
    source = moments.running()
    source.lookups = Lookups(runs=past.runs_of(Path("/nowhere")))
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("5", "plus")
        await until(lambda: "/nowhere/state.db" in shown(app, "RunList"))
        assert "869 of 1,000" in shown(app, "#figures")


async def test_eight_thousand_runs_are_listed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = open_state(tmp_path / "state.db")
    journal = Journal(database, tmp_path / "archive", clock=lambda: BEGIN)
    gone = Owner("elsewhere", 1)
    for number in range(8000):
        journal.begin_run(f"r{number:04}", "tasks/board.md", owner=gone, started=BEGIN - 8000 + number)
    database.close()
    runs = past.runs_of(tmp_path)
    with monkeypatch.context() as listing:
        listing.setattr(
            JournalReader, "poll", lambda *_: pytest.fail("the events of a run were read for the list")
        )
        assert len(runs.list().runs) == 8000
    runs.close()
    source = moments.running()
    source.lookups = past.lookups(tmp_path)
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("5", "plus")
        await listed(app, 8000)
        await pilot.press("G")
        picker = app.screen.query_one(RunList)
        assert picker.cursor == 7999
        await until(lambda: "r0000" in shown(app, "RunList"))
        assert picker.runs[picker.in_sight[-1]].run == "r0000"


async def test_the_cursor_stays_on_its_run_when_a_newer_one_begins(tmp_path: Path) -> None:
    source = live(tmp_path)
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("5", "plus")
        runs = await listed(app)
        await pilot.press("j")
        past.record(tmp_path, "r-now", started=BEGIN - 1)
        runs.on_focus()
        await until(lambda: len(runs.runs) == 4)
        await until(lambda: runs.cursor == 2)
        await pilot.press("enter")
        await until(lambda: app.frame.snapshot.run.run == "r-middle")


async def test_all_runs_to_choose_from_are_counted_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.widgets.run_list.READ_EVERY", 3600.0)
    source = live(tmp_path)
    source.mode, source.control = "WATCH", None
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        app.push_screen(RunsScreen())
        await until(lambda: isinstance(app.screen, RunsScreen))
        await listed(app)
        await until(lambda: shown(app, "RunList").count("/24") == 3)
        await pilot.press("escape")


async def test_a_watcher_chooses_among_runs_and_goes_to_another_later(tmp_path: Path) -> None:
    me = Owner.of_this_process()
    for run, seconds in (("r-older", 170), ("r-newer", 95)):
        past.record(tmp_path, run, started=time.time() - seconds, seconds=seconds, owner=me)
    lookups = Lookups(runs=past.runs_of(tmp_path, time.time()))
    source = WatchSource(tmp_path / "state.db", tmp_path / "archive", lookups=lookups)
    app = DashboardApp(source, choose=True)

    def watches(run: str, landed: int) -> bool:
        snapshot = app.frame.snapshot
        return snapshot.run.run == run and snapshot.count(TaskState.LANDED) == landed

    try:
        async with app.run_test(size=WIDE) as pilot:
            await until(lambda: isinstance(app.screen, RunsScreen))
            await listed(app, 2)
            assert shown(app, "RunList").count("▶ running") == 2
            await pilot.press("G", "enter")
            await until(lambda: watches("r-older", 5))
            assert app.frame.health.alive
            await pilot.press("w")
            await until(lambda: isinstance(app.screen, RunsScreen))
            await listed(app, 2)
            await pilot.press("g", "enter")
            await until(lambda: watches("r-newer", 5))
            await pilot.press("w")
            await until(lambda: isinstance(app.screen, RunsScreen))
            await pilot.press("escape")
            await until(lambda: isinstance(app.screen, MainScreen))
            assert watches("r-newer", 5)
    finally:
        await source.stop()
