"""Keys do what the help says, on a live run, and say why not where a run can only be looked at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from textual import events
from textual.command import CommandList
from textual.css.query import NoMatches
from textual.geometry import Region, Size
from textual.pilot import Pilot
from textual.widgets import Button, Input
from textual.widgets._toast import Toast
from textual.worker import WorkerFailed

from engine import events as ev
from engine.model import Lane, Task, TaskState
from engine.task_view import TaskView
from tests.tui import moments, sample_run
from tests.tui.stage import Control
from tui.app import DashboardApp
from tui.order import Group, GroupHead, Order, group_of
from tui.screens.base import FrameScreen
from tui.screens.board import BoardScreen
from tui.screens.dialogs import ConfirmScreen, LinesScreen, NoticesScreen, PendingBatchesScreen
from tui.screens.help import HelpScreen, key_groups
from tui.screens.main import MainScreen
from tui.screens.palette import Palette
from tui.screens.task import TaskScreen
from tui.source import RecordedSource, ReplaySource
from tui.widgets.line_view import LineView
from tui.widgets.task_list import TaskList

WIDE = (120, 40)


def calls(source: RecordedSource) -> list[tuple[str, object]]:
    assert isinstance(source.control, Control)
    return source.control.calls


def shown(app: DashboardApp, selector: str) -> str:
    return "\n".join(
        "".join(text for text, _ in line) for line in app.screen.query_one(selector, LineView).lines
    )


async def until(condition: Callable[[], bool], seconds: float = 90.0) -> None:
    """Wait until the condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


async def ready(app: DashboardApp) -> TaskList:
    """Wait until the source has been started and the tasks are on the screen; gives their list."""
    await until(lambda: app._pulse.running)
    await until(lambda: bool(app.screen.query(TaskList)) and bool(app.screen.query_one(TaskList).shown))
    return app.screen.query_one(TaskList)


@asynccontextmanager
async def open_log(folder: Path, size: tuple[int, int] = WIDE) -> AsyncIterator[Pilot[None]]:
    """A task screen that shows `implement.log` of the folder."""
    app = DashboardApp(moments.logging(folder))
    async with app.run_test(size=size) as pilot:
        await ready(app)
        app.open_task("T2.10")
        await pilot.pause()
        await pilot.press("5")
        yield pilot


async def test_the_cursor_stays_on_its_task_when_the_order_changes() -> None:
    source = moments.running()
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("j", "j", "j")
        tasks = app.screen.query_one(TaskList)
        chosen = tasks.current
        assert chosen is not None
        below = tasks.shown[7]
        source.play(ev.TaskEnded(at=source.now(), task=below.id, state=TaskState.FAILED, reason="it broke"))
        await until(lambda: tasks.shown[0].id == below.id)
        assert tasks.current is not None
        assert tasks.current.id == chosen.id
        assert tasks.cursor == 4


async def test_an_untouched_cursor_stays_on_top() -> None:
    source = moments.running()
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.pause()
        tasks = app.screen.query_one(TaskList)
        last = tasks.shown[9]
        source.play(ev.TaskEnded(at=source.now(), task=last.id, state=TaskState.FAILED, reason="it broke"))
        await until(lambda: tasks.shown[0].id == last.id)
        assert tasks.cursor == 0


@pytest.mark.parametrize("key", ["r", "m", "x"])
async def test_the_cursor_stays_on_the_task_that_a_key_acted_on(key: str) -> None:
    source = moments.failed()
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        tasks = await ready(app)
        acted = tasks.current
        assert acted is not None
        await pilot.press(key)
        last = tasks.shown[-1]
        source.play(
            ev.TaskReopened(at=source.now(), task=acted.id),
            ev.TaskQueued(at=source.now(), task=acted.id),
            ev.TaskReopened(at=source.now(), task=last.id),
            ev.TaskEnded(at=source.now(), task=last.id, state=TaskState.FAILED, reason="it broke"),
        )
        await until(lambda: tasks.shown[0].id == last.id)
        assert tasks.current is not None
        assert tasks.current.id == acted.id


async def test_filter_sort_and_problems() -> None:
    app = DashboardApp(moments.failed())
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        tasks = app.screen.query_one(TaskList)
        await pilot.press("slash", *"t2.1")
        await pilot.press("enter")
        assert {view.id[:4] for view in tasks.shown} == {"T2.1"}
        assert tasks.has_focus
        await pilot.press("escape")
        assert len(tasks.shown) == 24
        await pilot.press("s", "s")
        assert tasks.order is Order.BOARD
        assert [view.id for view in tasks.shown] == sorted(view.id for view in tasks.shown)
        await pilot.press("e")
        assert {view.id for view in tasks.shown} == {
            sample_run.FAILING,
            sample_run.REFUSED,
            sample_run.CLASHING,
        }
        await pilot.press("e")
        assert len(tasks.shown) == 24


def heads(tasks: TaskList) -> list[tuple[str, int, bool]]:
    return [(row.group, row.count, row.folded) for row in tasks.rows if isinstance(row, GroupHead)]


async def test_groups_by_state_are_counted_and_folded() -> None:
    app = DashboardApp(moments.failed())
    async with app.run_test(size=WIDE) as pilot:
        tasks = await ready(app)
        await pilot.press("s")
        assert heads(tasks) == [("need a person", 1, False), ("to land", 5, False), ("landed", 18, True)]
        assert tasks.current is not None
        assert tasks.current.id == sample_run.FAILING
        await pilot.press("G", "enter")
        assert heads(tasks)[-1] == ("landed", 18, False)
        assert len(tasks.shown) == 24
        await pilot.press("k", "left")
        assert heads(tasks)[1] == ("to land", 5, True)
        assert tasks.current is None
        await pilot.press("r", "space", "right")
        assert heads(tasks)[1] == ("to land", 5, False)
        await pilot.press("slash", *"T2.01", "enter")
        assert [view.id for view in tasks.shown] == ["T2.01"]


async def test_what_the_row_under_the_cursor_has_no_room_for_stands_below_the_list() -> None:
    source = moments.running()
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        tasks = await ready(app)
        view = tasks.shown[3]
        tasks.choose(view.id)
        await until(lambda: "› " in shown(app, "#whole"))
        reason = "the model answers with [b]many[/] words " * 5
        source.play(ev.Progressed(at=source.now(), task=view.id, text=reason))
        await until(lambda: "› the model answers with [b]many[/] words the" in shown(app, "#whole"))
        assert shown(app, "#whole").rstrip().endswith("…")
        assert len(shown(app, "#whole").splitlines()) == 2
        source.play(ev.Progressed(at=source.now(), task=view.id, text="short"))
        await until(lambda: view.task.scope in shown(app, "#whole"))
        await pilot.press("s", "g", "k")
        await until(lambda: tasks.current is None and shown(app, "#whole").strip() == "")


@pytest.mark.parametrize("size", moments.SIZES)
async def test_rows_that_cannot_run_are_told_below_the_tasks_and_at_the_end(size: str) -> None:
    source = moments.failed()
    rows = tuple(f"board.md, line {line}: it has no command" for line in (31, 32, 33))
    source.play(ev.RowsRefused(at=source.now(), rows=rows))
    source.play(*[ev.Noticed(at=source.now(), level="error", text=row, task="X") for row in rows])
    app = DashboardApp(source)
    async with app.run_test(size=moments.SIZES[size]) as pilot:
        await ready(app)
        await until(lambda: "! 3 rows not run: n says why" in shown(app, "#crew"))
        assert app.screen.query_one("#crew").size.height == 1
        if size == "wide":
            assert "✗ 1 failed  ! 4 errors" in shown(app, "#header")
        source.play(ev.RowsRefused(at=source.now(), rows=rows[:1]))
        await until(lambda: "! 1 row not run" in shown(app, "#crew"))
        source.play(replace(sample_run.finished(source.now()), not_run=1))
        if size == "wide":
            await until(lambda: "1 row not run" in shown(app, "#banner"))
            assert "n says why" in shown(app, "#banner")
        source.play(ev.RowsRefused(at=source.now(), rows=()))
        await until(lambda: app.screen.query_one("#crew").size.height == 0)
        await pilot.pause()


async def test_why_rows_cannot_run_is_still_told_once_the_notices_were_dismissed() -> None:
    source = moments.running()
    row = "board.md, line 31: it has no [b]command[/]"
    source.play(
        ev.RowsRefused(at=source.now(), rows=(row,)),
        ev.Noticed(at=source.now(), level="error", text=row, task="X"),
    )
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("n")
        await until(lambda: isinstance(app.screen, NoticesScreen) and row in shown(app, "LineView"))
        assert shown(app, "LineView").count(row) == 1
        await pilot.press("d")
        await until(lambda: isinstance(app.screen, MainScreen))
        assert "1 row not run: n says why" in shown(app, "#crew")
        await pilot.press("n")
        await until(lambda: isinstance(app.screen, NoticesScreen))
        await until(lambda: shown(app, "LineView").splitlines() == ["1 row not run", f"  {row}"])


async def test_every_state_has_its_group() -> None:
    app = DashboardApp(moments.shared())
    async with app.run_test(size=WIDE) as pilot:
        tasks = await ready(app)
        await pilot.press("s")
        await until(lambda: "elsewhere" in [group for group, _, _ in heads(tasks)])
    assert {group_of(TaskView(Task("T", "scope"), state)) for state in TaskState} == set(Group)


async def test_the_cursor_stays_on_its_task_when_it_goes_to_another_group() -> None:
    source = moments.running()
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        tasks = await ready(app)
        await pilot.press("s", "j", "j")
        chosen = tasks.current
        assert chosen is not None
        source.play(ev.TaskEnded(at=source.now(), task=chosen.id, state=TaskState.FAILED, reason="it broke"))
        await until(lambda: heads(tasks)[0][0] == "need a person")
        assert tasks.current is not None
        assert tasks.current.id == chosen.id


async def test_all_that_is_listed_is_marked_by_one_key() -> None:
    source = moments.failed()
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        tasks = await ready(app)
        await pilot.press("slash", *"verify", "enter", "a")
        assert tasks.marked == {view.id for view in tasks.shown}
        assert len(tasks.marked) == 6
        await pilot.press("x")
        await until(lambda: isinstance(app.screen, ConfirmScreen))
        await pilot.press("y")
        await until(lambda: len(calls(source)) == 1)
        name, cancelled = calls(source)[0]
        assert name == "cancel"
        assert isinstance(cancelled, tuple)
        assert sample_run.FAILING not in cancelled  # it has ended
        await pilot.press("a", "a")
        assert tasks.marked == frozenset()


async def test_what_is_told_in_passing_covers_no_panel() -> None:
    source = moments.running()
    app = DashboardApp(source)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await ready(app)
        source.play(ev.Noticed(at=source.now(), level="error", task="T2.10", text="a long story " * 20))
        await until(lambda: bool(app.screen.query(Toast)))
        (told,) = [n.message for n in app._notifications]
        assert told.startswith("✗ T2.10: a long story")
        assert told.endswith("; n lists all")
        assert len(told) <= 78
        app.tell("another")
        await until(lambda: len(app.screen.query(Toast)) == 2)
        await pilot.pause()
        assert {toast.region for toast in app.screen.query(Toast)} == {Region(0, 23, 80, 1)}
        top, _ = app.screen.get_widget_at(2, 23)
        assert isinstance(top, Toast)
        assert top._notification.message == "another"


async def test_what_was_told_before_anybody_looked_is_no_news() -> None:
    source = RecordedSource([], now=moments.BEGIN + 300)
    app = DashboardApp(source)
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await pilot.pause()
        source.play(*sample_run.events_until(290))
        await until(lambda: app.frame.errors > 0)
        assert [n.message for n in app._notifications] == []
        source.play(ev.Noticed(at=source.now(), level="error", task="T2.10", text="it broke"))
        await until(lambda: bool(app.screen.query(Toast)))
        assert [n.message for n in app._notifications] == ["✗ T2.10: it broke; n lists all"]


async def test_cancel_asks_and_retry_takes_marked_tasks() -> None:
    source = moments.failed()
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("r")
        assert calls(source) == [("retry", (sample_run.FAILING,))]
        await pilot.press("j", "x")
        await until(lambda: isinstance(app.screen, ConfirmScreen))
        await pilot.press("n")
        assert len(calls(source)) == 1
        await pilot.press("space", "space", "x")
        await until(lambda: isinstance(app.screen, ConfirmScreen))
        await pilot.press("y")
        await until(lambda: len(calls(source)) == 2)
        name, chosen = calls(source)[1]
        assert name == "cancel"
        assert isinstance(chosen, tuple)
        assert len(chosen) == 2


@pytest.mark.parametrize(
    ("keys", "call"),
    [
        (["p"], ("pause", None)),
        (["L"], ("land_now", None)),
        (["greater_than_sign"], ("set_concurrency", sample_run.SLOTS + 1)),
        (["less_than_sign"], ("set_concurrency", sample_run.SLOTS - 1)),
        (["X", "y"], ("drain", None)),
    ],
)
async def test_commands_reach_the_run(keys: list[str], call: tuple[str, object]) -> None:
    source = moments.running()
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        for key in keys:
            await pilot.press(key)
            await pilot.pause()
        await until(lambda: calls(source) == [call])


async def test_after_the_end_there_is_nothing_to_pause_or_drain_and_what_was_left_goes_on() -> None:
    source = moments.finished()
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        told = await said(app, pilot, "p") + await said(app, pilot, "X")
        assert [words.split(":")[0] for words in told] == [
            "the run has finished",
            "the run has finished already",
        ]
        assert calls(source) == []
        source.play(
            ev.TaskReopened(at=source.now(), task="T2.01"), ev.TaskQueued(at=source.now(), task="T2.01")
        )
        await until(lambda: bool(app.frame.snapshot.count(TaskState.QUEUED)))
        await pilot.press("p")
        await until(lambda: calls(source) == [("resume", None)])


async def said(app: DashboardApp, pilot: Pilot[None], key: str) -> list[str]:
    """What was told in passing once the key was pressed, and nothing that was told before."""
    app.clear_notifications()
    await pilot.press(key)
    await pilot.pause()
    return [told.message for told in app._notifications]


async def test_what_waits_for_no_train_is_not_said_to_leave() -> None:
    source = moments.running()
    aboard = ev.TrainDeparted(at=source.now(), train=90, tasks=("T2.08", "T2.09"))
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        waiting = {view.id for view in app.frame.snapshot.tasks if view.state is TaskState.TO_LAND}
        assert waiting
        source.play(replace(aboard, tasks=tuple(waiting)))
        await until(lambda: any(train.number == 90 for train in app.frame.snapshot.trains))
        assert await said(app, pilot, "L") == ["nothing else waits for a train: the one on its way has all"]
        source.play(
            *[ev.TaskLanded(at=source.now(), task=name, commit="0" * 40, train=90) for name in waiting]
        )
        await until(lambda: not app.frame.snapshot.count(TaskState.TO_LAND))
        assert await said(app, pilot, "L") == ["nothing waits for a train"]
    assert calls(source) == []


async def test_no_task_goes_to_a_lane_where_nothing_gets_cheaper() -> None:
    begin, *rest = sample_run.events_until(170)
    assert isinstance(begin, ev.RunStarted)
    source = RecordedSource(
        [replace(begin, economy=False), *rest], now=moments.BEGIN + 170, control=Control()
    )
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        tasks = await ready(app)
        while tasks.current is None or tasks.current.task.lane is Lane.ECONOMY or tasks.current.state.ended:
            await pilot.press("j")
        [told] = await said(app, pilot, "m")
        assert told.startswith("the economy lane saves nothing here")
        assert calls(source) == []
        while tasks.current.task.lane is not Lane.ECONOMY or tasks.current.state.ended:
            await pilot.press("j")
        assert "to the fast lane" in (await said(app, pilot, "m"))[0]


async def test_a_drain_is_asked_for_once() -> None:
    source = moments.at(170, ev.DispatchChanged(at=moments.BEGIN + 170, mode="draining", max_concurrency=6))
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        assert await said(app, pilot, "X") == ["draining already: p takes it back"]
        assert isinstance(app.screen, MainScreen)
        await pilot.press("p")
        await until(lambda: calls(source) == [("resume", None)])


@pytest.mark.parametrize(
    ("keys", "cancelled"), [(["y"], False), (["q"], False), (["c"], True), (["n"], None)]
)
async def test_quitting_with_batches_under_way_asks_what_becomes_of_them(
    keys: list[str], cancelled: bool | None
) -> None:
    source = moments.at(60)
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        assert any(batch.ended_at is None for batch in app.frame.snapshot.batches)
        await pilot.press("q")
        await until(lambda: isinstance(app.screen, PendingBatchesScreen))
        await pilot.press(*keys)
        if cancelled is None:
            await until(lambda: not isinstance(app.screen, PendingBatchesScreen))
            assert app.is_running
        else:
            await until(lambda: not app.is_running)
    assert calls(source) == ([("cancel_batches", None)] if cancelled else [])


@pytest.mark.parametrize("size", moments.SIZES)
async def test_a_question_says_which_keys_answer_it(size: str) -> None:
    source = moments.running()
    app = DashboardApp(source)
    async with app.run_test(size=moments.SIZES[size]) as pilot:
        await ready(app)
        await pilot.press("X")
        await until(lambda: isinstance(app.screen, ConfirmScreen))
        await until(lambda: bool(app.screen.query_one(".dialog").size))
        dialog = app.screen.query_one(".dialog").region
        foot = "".join(segment.text for segment in app.screen._compositor.render_strips()[dialog.bottom - 1])
        assert "answer first: y, n or esc" in foot
        await pilot.press("p", "greater_than_sign")
        assert calls(source) == []


@pytest.mark.parametrize("size", moments.SIZES)
@pytest.mark.parametrize("batches", [1, 1000])
async def test_the_answer_that_changes_nothing_is_always_in_view(batches: int, size: str) -> None:
    app = DashboardApp(moments.running())
    async with app.run_test(size=moments.SIZES[size]) as pilot:
        await ready(app)
        answers: list[str | None] = []
        app.ask(PendingBatchesScreen(batches, settled=lambda: False), answers.append)
        await until(lambda: bool(app.screen.query("#stay")) and bool(app.screen.query_one("#stay").size))
        dialog = app.screen.query_one(".dialog").content_region
        said = [(str(button.label), button.region) for button in app.screen.query(Button)]
        assert [words for words, _ in said] == [
            "Leave (y)",
            "Cancel the batch (c)" if batches == 1 else "Cancel the batches (c)",
            "Stay (n)",
        ]
        assert all(dialog.contains_region(region) for _, region in said), (dialog, said)
        await pilot.click("#stay")
        await until(lambda: answers == [""])


async def test_one_question_is_asked_at_a_time() -> None:
    source = moments.running()
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("X")
        await until(lambda: isinstance(app.screen, ConfirmScreen))
        await pilot.press("q")
        await pilot.pause()
        assert [type(screen) for screen in app.screen_stack] == [MainScreen, ConfirmScreen]
        await pilot.press("n")
        await until(lambda: isinstance(app.screen, MainScreen))
        assert calls(source) == []


@pytest.mark.parametrize("key", ["q", "X", "x"])
async def test_what_the_run_has_answered_is_not_asked_any_more(key: str) -> None:
    source = moments.running()
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        tasks = await ready(app)
        assert tasks.current is not None
        await pilot.press(key)
        await until(lambda: isinstance(app.screen, ConfirmScreen))
        source.play(
            ev.TaskEnded(at=source.now(), task=tasks.current.id, state=TaskState.FAILED, reason="it broke"),
            sample_run.finished(source.now()),
        )
        await until(lambda: isinstance(app.screen, MainScreen))
        assert app.is_running


async def test_notices_take_in_what_is_told_while_they_are_read() -> None:
    source = moments.running()
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("n")
        await until(lambda: isinstance(app.screen, NoticesScreen))
        source.play(ev.Noticed(at=source.now(), level="warning", text="the disk is nearly full"))
        await until(lambda: "the disk is nearly full" in shown(app, "LineView"))


async def test_two_presses_of_ctrl_c_quit_from_another_question_too() -> None:
    source = moments.running()
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("x")
        await until(lambda: isinstance(app.screen, ConfirmScreen))
        await pilot.press("ctrl+c", "ctrl+c")
        await until(lambda: not app.is_running)
    assert app.return_value == 130
    assert calls(source) == []


async def test_a_question_that_was_answered_no_is_asked_again() -> None:
    app = DashboardApp(moments.running())
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("q", "n")
        await until(lambda: isinstance(app.screen, MainScreen))
        await pilot.press("q")
        await until(lambda: isinstance(app.screen, ConfirmScreen))
        assert app.is_running


async def test_tasks_move_to_the_other_lane_by_key_and_by_palette() -> None:
    source = moments.running()
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        view = app.screen.query_one(TaskList).current
        assert view is not None
        other = Lane.FAST if view.task.lane is Lane.ECONOMY else Lane.ECONOMY
        await pilot.press("m")
        await until(lambda: calls(source) == [("set_lane", (view.id, other))])
        app.change_lane()
        assert calls(source)[1:] == [("set_lane", (view.id, other))]


async def test_a_watched_run_cannot_be_touched_and_says_so() -> None:
    app = DashboardApp(moments.stale())
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await ready(app)
        told = [words for key in "prx" for words in await said(app, pilot, key)]
        assert isinstance(app.screen, MainScreen)
        assert told == ["read-only: this run belongs to another process"] * 3
        await pilot.press("q")
    assert app.return_value == 0


async def test_panels_open_and_zoom() -> None:
    app = DashboardApp(moments.running())
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app)
        await pilot.press("3")
        await pilot.pause()
        assert app.screen.query_one("#batches").display
        assert not app.screen.query_one("#dispatch").display
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen.query_one("#dispatch").display
        await pilot.resize_terminal(120, 40)
        await pilot.pause()
        assert app.screen.query_one("#batches").display
        await pilot.press("2", "plus")
        await pilot.pause()
        assert not app.screen.query_one("#dispatch").display


async def test_errors_stay_in_the_list_until_dismissed() -> None:
    app = DashboardApp(moments.failed())
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("n")
        await until(
            lambda: (
                isinstance(app.screen, NoticesScreen) and "failed after 3 attempts" in shown(app, "LineView")
            )
        )
        await pilot.press("d")
        await pilot.press("n")
        await until(
            lambda: isinstance(app.screen, NoticesScreen) and "nothing to tell" in shown(app, "LineView")
        )


async def test_the_help_names_every_binding_of_its_mode() -> None:
    app = DashboardApp(moments.running())
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("question_mark")
        await until(lambda: isinstance(app.screen, HelpScreen) and "Drain" in shown(app, "LineView"))
        text = " ".join(shown(app, "LineView").split())
        assert all(words in text for _, rows in key_groups("LIVE") for _, words in rows)


@pytest.mark.parametrize("key", ["question_mark", "n", "b", "5"])
async def test_keys_come_as_fast_as_they_like(key: str) -> None:
    app = DashboardApp(moments.failed())
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        for _ in range(30):  # some of them before what the one ahead opened has been drawn
            app.post_message(events.Key(key, "?" if key == "question_mark" else key))
            app.post_message(events.Key("escape", None))
        await pressed_at_once(app)
        await pilot.pause()
        await until(lambda: isinstance(app.screen, MainScreen))


async def pressed_at_once(app: DashboardApp, *keys: str) -> None:
    """Have the keys handled, which were all pressed before the first of them had its effect."""
    for key in keys:
        app.post_message(events.Key(key, key if len(key) == 1 else None))
    handled = asyncio.Event()
    app.call_later(handled.set)
    await asyncio.wait_for(handled.wait(), 90)


@pytest.mark.parametrize("answers", [("y", "y", "y"), ("y", "escape", "escape")])
async def test_a_question_is_answered_once(answers: tuple[str, ...]) -> None:
    source = moments.running()
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("X")
        asked = app.screen
        assert isinstance(asked, ConfirmScreen)
        await pressed_at_once(app, *answers)
        asked.query_one("#yes", Button).press()  # the mouse was on it, too
        await until(lambda: isinstance(app.screen, MainScreen))
        await pilot.pause()
        assert calls(source) == [("drain", None)]
        assert isinstance(app.screen, MainScreen)


@pytest.mark.parametrize("size", [WIDE, (40, 12), (10, 3)])
async def test_the_palette_takes_keys_before_it_is_drawn(size: tuple[int, int]) -> None:
    app = DashboardApp(moments.running())
    async with app.run_test(size=size) as pilot:
        await until(lambda: app._pulse.running)
        for _ in range(5):
            await pressed_at_once(app, "ctrl+p", "down", "pagedown", "pageup", "end", "escape", "escape")
            await pressed_at_once(app, "ctrl+p", "pagedown")
            await pilot.pause(0.05)
            await pilot.press("down", "pagedown", "pageup", "escape")
            await pressed_at_once(app, "escape", "escape")
        await pilot.pause()
        assert any(isinstance(screen, MainScreen) for screen in app.screen_stack)


async def test_the_palette_takes_no_megabyte() -> None:
    app = DashboardApp(moments.running())
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("ctrl+p")
        field = app.screen.query_one(Input)
        app.post_message(events.Paste("世" * 1_000_000))
        await pilot.pause()
        await pilot.press("x")
        assert len(field.value) <= 200


async def test_a_click_beyond_the_window_closes_the_palette() -> None:
    app = DashboardApp(moments.running())
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("ctrl+p")
        palette = app.screen
        assert isinstance(palette, Palette)
        x, y = 500, 300  # on the screen until the window shrank
        palette.post_message(events.Click(palette, x, y, 0, 0, 1, False, False, False, x, y))
        await until(lambda: isinstance(app.screen, MainScreen))


async def test_a_frame_may_come_before_a_screen_has_its_parts() -> None:
    app = DashboardApp(moments.running())
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        for screen in (MainScreen(), TaskScreen("T2.10"), NoticesScreen()):
            app.push_screen(screen)
            app.show_frame()
            await pilot.pause()
            assert app.screen is screen
        await until(lambda: "nothing to tell" in shown(app, "LineView"))


async def ended_slowly(
    opened: str | None,
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: Callable[[DashboardApp], Awaitable[None]],
    after: Callable[[FrameScreen], None] = lambda screen: None,
) -> DashboardApp:
    """An app that has ended, by its main screen, the one of the task `opened`, or the palette.

    `meanwhile` comes between the removal of the screen's parts and that of the screen, as messages do, `after` then.
    """
    app = DashboardApp(moments.running())
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        if opened == "palette":
            app.action_command_palette()
        elif opened:
            app.open_task(opened)
        await pilot.pause()
        end = app._close_all

        async def end_slowly() -> None:
            screen = app.screen
            await screen.remove_children()
            await meanwhile(app)
            await end()
            if isinstance(screen, FrameScreen):
                after(screen)

        monkeypatch.setattr(app, "_close_all", end_slowly)
    return app


@pytest.mark.parametrize("opened", [None, "T2.10"])
async def test_a_frame_that_comes_as_the_app_ends_is_not_shown(
    opened: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def frame(app: DashboardApp) -> None:
        app.show_frame()
        app.screen.catch_up()

    app = await ended_slowly(opened, monkeypatch, frame, FrameScreen.catch_up)
    assert not app.screen_stack


@pytest.mark.parametrize("opened", [None, "T2.10"])
async def test_a_screen_that_comes_up_as_the_app_ends_may_lack_its_parts(
    opened: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: list[NoMatches] = []

    async def mount(app: DashboardApp) -> None:
        try:
            await app.screen._dispatch_message(events.Mount())
        except NoMatches as error:  # which the loop of the screen hands to the app
            met.append(error)
            app._handle_exception(error)

    app = await ended_slowly(opened, monkeypatch, mount)
    assert met
    assert app.crash is None


async def test_commands_that_are_looked_for_as_the_app_ends_have_no_list_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def search(app: DashboardApp) -> None:
        assert isinstance(app.screen, Palette)
        with pytest.raises(WorkerFailed, match="CommandList"):
            await app.screen._gather_commands("x").wait()

    app = await ended_slowly("palette", monkeypatch, search)
    assert app.crash is None


@pytest.mark.parametrize("kind", [HelpScreen, NoticesScreen, BoardScreen])
async def test_a_box_that_is_closed_is_not_drawn(kind: type[LinesScreen]) -> None:
    app = DashboardApp(moments.running())
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        app.push_screen(box := kind())
        await pilot.pause()
        await app.pop_screen()
        box.draw()


async def test_what_is_typed_on_after_a_quit_does_nothing() -> None:
    app = DashboardApp(moments.failed())
    async with app.run_test(size=WIDE):
        await ready(app)
    assert not app.screen_stack
    for event in (events.Key("q", "q"), events.Paste("words"), events.Key("escape", None)):
        await app.on_event(event)


async def test_a_replay_plays_pauses_and_jumps() -> None:
    clock = [0.0]
    source = ReplaySource(sample_run.events(), monotonic=lambda: clock[0])
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        clock[0] = 30.0
        await until(lambda: app.frame.elapsed > 29)
        await pilot.press("right_square_bracket")
        await until(lambda: app.frame.elapsed > 39)
        await pilot.press("p")
        await until(lambda: shown(app, "#tape").startswith(" ‖ 00:40 "))
        clock[0] = 300.0
        assert source.playback.position == pytest.approx(40.0)
        await pilot.press("greater_than_sign", "left_square_bracket", "left_square_bracket")
        assert source.playback.speed == 2.0
        await until(lambda: "×2 " in shown(app, "#tape"))
        await until(lambda: app.frame.elapsed < 21)
        await pilot.press("q")
    assert app.return_value == 0


async def test_ten_thousand_tasks_are_walked_through() -> None:
    app = DashboardApp(moments.many())
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        tasks = app.screen.query_one(TaskList)
        await pilot.press("G")
        assert tasks.current is not None
        assert tasks.current.id == "T09999"
        await pilot.press("pageup", "g")
        assert tasks.cursor == 0


async def test_a_click_moves_the_cursor_and_a_double_click_opens() -> None:
    app = DashboardApp(moments.running())
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.click(TaskList, offset=(10, 4))
        tasks = app.screen.query_one(TaskList)
        assert tasks.cursor == 4
        await pilot.click(TaskList, offset=(10, 5), times=2)
        await until(lambda: isinstance(app.screen, TaskScreen))


async def test_a_second_click_opens_however_late_it_comes_unless_a_key_came_between() -> None:
    app = DashboardApp(moments.running())
    app.CLICK_CHAIN_TIME_THRESHOLD = -1.0  # type: ignore[misc]  # no click is near enough to another to make a double one
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.click(TaskList, offset=(10, 4))
        await pilot.press("down", "up")
        await pilot.click(TaskList, offset=(10, 4))
        await pilot.pause()
        assert isinstance(app.screen, MainScreen)
        await pilot.click(TaskList, offset=(10, 4))
        await until(lambda: isinstance(app.screen, TaskScreen))


async def test_the_palette_finds_a_task() -> None:
    app = DashboardApp(moments.running())
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("ctrl+p")
        await pilot.pause()
        await pilot.press(*"T2.14")
        found = app.screen.query_one(CommandList)
        await until(lambda: found.option_count == 1 and "T2.14" in str(found.get_option_at_index(0).prompt))
        await pilot.press("enter")
        await until(lambda: isinstance(app.screen, TaskScreen))
        assert isinstance(app.screen, TaskScreen)
        assert app.screen.task_id == "T2.14"


async def test_a_size_that_has_passed_is_not_laid_out() -> None:
    """Laid out, it would make Textual send another event of that size: two in flight chase each other for ever."""
    app = DashboardApp(moments.running())
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.pause()
        before = app.screen.query_one("#dispatch").region
        app.screen.post_message(events.Resize(Size(80, 24), Size(80, 24)))
        await pilot.pause()
        assert app.screen.query_one("#dispatch").region == before
        await pilot.resize_terminal(80, 24)
        await until(lambda: app.screen.query_one("#dispatch").region.width == 80)
