"""What the dashboard shows of the others on the same board, and of the locks they share."""

from __future__ import annotations

import pytest

from engine import events as ev
from engine.figures import PeerFigures
from tests.tui import moments, sample_run
from tests.tui.moments import SIZES
from tests.tui.test_keys import WIDE, calls, ready, shown, until
from tui.app import DashboardApp
from tui.screens.dialogs import ConfirmScreen


async def test_a_task_of_another_orchestrator_is_cancelled_there() -> None:
    source = moments.shared()
    app = DashboardApp(source)
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        tasks = await ready(app)
        tasks.choose("T2.21")
        await pilot.press("x")
        await until(lambda: len(app._notifications) == 1)
        [said] = app._notifications
        assert said.message == "T2.21 is worked on at build-02, process 917: cancel it there"
        assert not isinstance(app.screen, ConfirmScreen)
        # Beside one of this run's own the question is about that one; of the other the engine says the same.
        tasks.choose("T2.19")
        await pilot.press("space")
        tasks.choose("T2.21")
        await pilot.press("space", "x")
        await until(lambda: isinstance(app.screen, ConfirmScreen))
        assert "Cancel T2.19?" in str(app.screen.query_one(".question").visual)
        await pilot.press("y")
        await until(lambda: calls(source) == [("cancel", ("T2.19", "T2.21"))])


@pytest.mark.parametrize(("width", "height"), SIZES.values())
async def test_who_shares_the_board_goes_when_nobody_does(width: int, height: int) -> None:
    source = moments.shared()
    app = DashboardApp(source)
    async with app.run_test(size=(width, height)):
        tasks = await ready(app)
        await until(lambda: "2 orchestrators" in shown(app, "#crew"))
        await until(lambda: app.screen.query_one("#crew").size.height > 0)
        beside = tasks.size.height
        source.play(ev.Measured(at=source.now(), peers=()))
        await until(lambda: tasks.size.height > beside)
        assert shown(app, "#crew") == ""
        assert "orchestrator" not in shown(app, "#header")


async def test_many_orchestrators_take_no_more_than_their_share() -> None:
    source = moments.shared()
    peers = tuple(
        PeerFigures(f"host{n}", n, f"r{n}", moments.BEGIN + n, working=1, present=n % 2 == 0, usd=0.5)
        for n in range(40)
    )
    source.play(ev.Measured(at=source.now(), peers=peers))
    app = DashboardApp(source)
    async with app.run_test(size=(80, 24)):
        await ready(app)
        await until(lambda: "with" in shown(app, "#crew"))
        title, *rows, whole = shown(app, "#crew").splitlines()
        assert "20 orchestrators, 20 gone" in title
        assert [row.split(",")[0].strip() for row in rows] == ["host0", "host2", "host4"]
        assert whole.split() == ["all,", "with", "37", "not", "shown", "20", "0", "0", "$20.00"]


async def test_a_dashboard_that_stays_open_after_its_end_is_not_at_work() -> None:
    source = moments.shared()
    other = PeerFigures("build-02", 917, "r2", moments.BEGIN, finished=True, landed=3)
    source.play(ev.Measured(at=source.now(), peers=(other,)))
    app = DashboardApp(source)
    async with app.run_test(size=WIDE):
        await ready(app)
        await until(lambda: "0 orchestrators, 1 finished" in shown(app, "#crew"))
        assert "build-02, process 917, finished" in shown(app, "#crew")


async def test_what_has_finished_is_at_work_on_nothing() -> None:
    source = moments.shared()
    source.play(sample_run.finished(source.now(), landed=24, failed=0, status="landed"))
    app = DashboardApp(source)
    async with app.run_test(size=WIDE):
        await ready(app)
        await until(lambda: "all landed" in shown(app, "#header"))
        await until(lambda: "this one" in shown(app, "#crew"))
        [mine] = [line for line in shown(app, "#crew").splitlines() if "this one" in line]
        assert mine.split("this one")[1].split()[0] == "0", "the last figures that it told were older"


async def test_the_banner_says_what_waits_while_the_locks_are_away() -> None:
    source = moments.locks_away()
    app = DashboardApp(source)
    async with app.run_test(size=WIDE):
        await ready(app)
        await until(lambda: "locks away" in shown(app, "#header"))
        assert "nothing lands: the lock server redis://locks:6379/0 does not answer" in shown(app, "#banner")
        source.play(ev.LocksChanged(at=source.now()))
        await until(lambda: "● running" in shown(app, "#header") and not shown(app, "#banner").strip())


@pytest.mark.parametrize(
    ("event", "says"),
    [
        (ev.TaskElsewhere(at=moments.BEGIN + 171, task="T2.24", host="bea[/]", pid=9), "bea[/], process 9"),
        (ev.TaskLanded(at=moments.BEGIN + 171, task="T2.22", commit="7" * 40, train=0, by="b:9"), "by b:9"),
    ],
)
async def test_the_task_screen_says_where_it_is_done(event: ev.AnyEvent, says: str) -> None:
    source = moments.running()
    source.play(event)
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        tasks = await ready(app)
        tasks.choose(getattr(event, "task", ""))
        await pilot.press("enter")
        await until(lambda: says in shown(app, "#body"))
        body = shown(app, "#body")
        assert "not started" not in body
        assert "train 0" not in body
