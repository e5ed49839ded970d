"""What an edit of the board means to a run, by where the task stands; and any edits in any order lose no task."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from engine import events as ev
from engine.board import Board, parse_board
from engine.board.compare import compare
from engine.bus import Bus
from engine.course import Course
from engine.departures import Departures
from engine.dispatch import Dispatcher, Progress, Slot
from engine.model import BoardStatus, Task, TaskState
from engine.outcomes import Outcomes
from engine.rows import BoardChange, EditKind
from engine.schedule import Schedule
from engine.settings import Settings
from engine.store.cache import ResultCache
from engine.task_view import TaskView
from tests.board.boards import HEADER
from tests.samples import begun

ROW = Task("A", "one", command="true", line=3)
NEW_WORDS = replace(ROW, scope="two", line=9)


def kind(
    view: TaskView | None, row: Task | None, *, before: Task | None = ROW, busy: bool = False
) -> EditKind | None:
    """The kind of the only edit, or None when there is none."""
    edits = compare(
        {before.id: before} if before is not None else {},
        {row.id: row} if row is not None else {},
        refused=(),
        find=lambda _: view,
        busy=lambda _: busy,
    )
    assert len(edits) <= 1
    return edits[0].kind if edits else None


def view(state: TaskState, **fields: object) -> TaskView:
    return TaskView(task=ROW, state=state, **fields)  # type: ignore[arg-type]


def with_status(status: BoardStatus, row: Task = ROW) -> Task:
    return replace(row, status=status)


@pytest.mark.parametrize("state", TaskState)
def test_a_row_that_only_moved_is_no_edit(state: TaskState) -> None:
    assert kind(view(state), replace(ROW, line=70)) is None


@pytest.mark.parametrize(
    ("state", "busy", "means"),
    [
        (TaskState.WAITING, False, EditKind.CHANGED),
        (TaskState.QUEUED, False, EditKind.CHANGED),
        (TaskState.QUEUED, True, EditKind.LATER),
        (TaskState.RUNNING, True, EditKind.LATER),
        (TaskState.TO_LAND, True, EditKind.LATER),
        (TaskState.FAILED, False, EditKind.CHANGED),
        (TaskState.CANCELLED, False, EditKind.CHANGED),
        (TaskState.LANDED, False, EditKind.NEXT_RUN),
    ],
)
def test_other_words(state: TaskState, busy: bool, means: EditKind) -> None:
    assert kind(view(state), NEW_WORDS, busy=busy) is means


@pytest.mark.parametrize(
    ("state", "busy", "means"),
    [
        (TaskState.WAITING, False, EditKind.REMOVED),
        (TaskState.QUEUED, False, EditKind.REMOVED),
        (TaskState.RUNNING, True, EditKind.KEPT),
        (TaskState.TO_LAND, True, EditKind.KEPT),
        (TaskState.FAILED, False, None),
        (TaskState.CANCELLED, False, None),
        (TaskState.LANDED, False, None),
    ],
)
def test_a_row_that_is_gone(state: TaskState, busy: bool, means: EditKind | None) -> None:
    assert kind(view(state), None, busy=busy) is means


@pytest.mark.parametrize(
    ("state", "busy", "means"),
    [
        (TaskState.WAITING, False, EditKind.LANDED),
        (TaskState.RUNNING, True, EditKind.LANDED),
        (TaskState.FAILED, False, EditKind.LANDED),
        (TaskState.TO_LAND, True, None),
        (TaskState.LANDED, False, None),
    ],
)
def test_a_row_that_is_set_to_landed(state: TaskState, busy: bool, means: EditKind | None) -> None:
    assert kind(view(state), with_status(BoardStatus.LANDED), busy=busy) is means


@pytest.mark.parametrize(
    ("state", "busy", "means"),
    [
        (TaskState.WAITING, False, EditKind.GIVEN_UP),
        (TaskState.RUNNING, True, None),
        (TaskState.FAILED, False, None),
        (TaskState.LANDED, False, None),
    ],
)
def test_a_row_that_is_set_to_failed(state: TaskState, busy: bool, means: EditKind | None) -> None:
    assert kind(view(state), with_status(BoardStatus.FAILED), busy=busy) is means


@pytest.mark.parametrize(
    ("found", "means"),
    [
        (view(TaskState.FAILED), EditKind.RETRIED),
        (view(TaskState.CANCELLED), EditKind.RETRIED),
        (view(TaskState.LANDED), EditKind.RETRIED),  # said by the board alone
        (view(TaskState.LANDED, commit="c" * 40), None),  # landed by this run: the target's board knows
        (view(TaskState.RUNNING), None),
    ],
)
@pytest.mark.parametrize("before", [BoardStatus.FAILED, BoardStatus.LANDED])
def test_a_row_that_is_open_again(before: BoardStatus, found: TaskView, means: EditKind | None) -> None:
    assert kind(found, ROW, before=with_status(before), busy=found.state is TaskState.RUNNING) is means


def test_a_row_nobody_knew_is_added_and_one_marked_as_landed_only_counted() -> None:
    assert kind(None, ROW, before=None) is EditKind.ADDED
    assert kind(None, with_status(BoardStatus.LANDED), before=None) is EditKind.LANDED


def test_a_row_that_was_removed_and_put_back_is_tried_again() -> None:
    assert kind(view(TaskState.CANCELLED), ROW, before=None) is EditKind.RETRIED
    assert kind(view(TaskState.RUNNING), ROW, before=None, busy=True) is None


def test_a_row_with_a_mistake_is_neither_gone_nor_changed() -> None:
    found = compare(
        {"A": ROW}, {}, refused={"A"}, find=lambda _: view(TaskState.WAITING), busy=lambda _: False
    )
    assert found == ()


# Any edits in any order

NAMES = ("A", "B", "C", "D")
STATUSES = st.sampled_from(["[ ]", "[ ]", "[ ]", "[x]", "[!]", "nonsense"])
ROWS = st.dictionaries(
    st.sampled_from(NAMES),
    st.tuples(
        st.sampled_from(["one", "two"]),
        STATUSES,
        st.lists(st.sampled_from([*NAMES, "nobody"]), max_size=2),
    ),
)
STEPS = st.lists(
    st.one_of(ROWS, st.tuples(st.sampled_from(["land", "fail", "cancel", "retry"]), st.sampled_from(NAMES))),
    max_size=12,
)


def board(rows: Mapping[str, tuple[str, str, list[str]]]) -> Board:
    text = "".join(
        f"| {name} | {scope} | {status} | | `true` | {', '.join(after)} |\n"
        for name, (scope, status, after) in rows.items()
    )
    return parse_board((HEADER + text).encode(), Path("board.md"))


class Yard:
    """A run's state, its real dispatcher and its schedule, over a board that somebody edits."""

    def __init__(self, cache: ResultCache) -> None:
        self.bus = Bus(clock=lambda: 1.0)
        self.before: dict[str, Task] = {}
        self.gates: dict[str, asyncio.Future[None]] = {}
        self.early: list[tuple[str, str]] = []
        self.dispatcher: Dispatcher[None] = Dispatcher(self.work, max_concurrency=2)
        outcomes = Outcomes(
            cache, Settings(root=Path("/")), (), tree="t", prompts="p", tools="s", endpoint="e"
        )
        departures = Departures(self.bus, Course())
        self.schedule = Schedule(self.bus, self.dispatcher, departures, outcomes)

    async def work(self, task: Task, slot: Slot) -> None:
        view = self.bus.state.view(task.id)
        if view.state is TaskState.LANDED:
            return
        early = [name for name in view.task.after if self.bus.state.view(name).state is not TaskState.LANDED]
        self.early += [(task.id, name) for name in early]
        self.bus.emit(begun(task.id, at=1.0, attempt=view.attempt + 1))
        gate = self.gates[task.id] = asyncio.get_running_loop().create_future()
        try:
            await gate
        except asyncio.CancelledError:
            if self.bus.state.view(task.id).state is not TaskState.LANDED:
                self.end(task.id, TaskState.CANCELLED)
            raise
        except RuntimeError:
            self.end(task.id, TaskState.FAILED)
            raise
        self.bus.emit(ev.TaskLanded(at=1.0, task=task.id, commit="c" * 40, train=1))

    def end(self, name: str, state: TaskState) -> None:
        self.bus.emit(ev.TaskEnded(at=1.0, task=name, state=state, reason="so"))

    def busy(self, view: TaskView) -> bool:
        return view.state is TaskState.TO_LAND or self.schedule.runs(view.id)

    def compare(self, found: Board) -> BoardChange:
        landed = [task for task in found.tasks if task.status is BoardStatus.LANDED]
        rows = {task.id: task for task in (*landed, *found.runnable)}
        refused = {each.task for each in found.diagnostics if each.severity == "error"}
        return BoardChange(
            compare(self.before, rows, refused=refused, find=self.bus.state.find, busy=self.busy)
        )

    def edit(self, found: Board) -> None:
        change = self.compare(found)
        running = {name: self.bus.state.view(name).task for name in NAMES if self.schedule.runs(name)}
        self.bus.emit(ev.BoardTaken(at=1.0, change=change))
        self.schedule.take(change)
        for edit in change.edits:
            if edit.kind in (EditKind.REMOVED, EditKind.KEPT):
                self.before.pop(edit.row.id, None)
            else:
                self.before[edit.row.id] = edit.row
        assert not self.compare(found).edits, "what was taken in is not offered again"
        assert all(self.bus.state.find(task.id) is not None for task in found.runnable)
        for name, task in running.items():
            view = self.bus.state.view(name)
            assert view.task == task or view.state is TaskState.LANDED, "who has begun keeps its words"

    async def step(self, what: str, name: str) -> None:
        view = self.bus.state.find(name)
        gate = self.gates.get(name)
        if view is None:
            return
        if what == "retry" and view.state in (TaskState.FAILED, TaskState.CANCELLED):
            self.bus.emit(ev.TaskReopened(at=1.0, task=name))
            self.schedule.retry(name)
        elif what == "cancel" and self.schedule.runs(name):
            self.dispatcher.cancel(name)
        elif what in ("land", "fail") and gate is not None and not gate.done():
            gate.set_result(None) if what == "land" else gate.set_exception(RuntimeError("red"))

    def in_step(self) -> None:
        for view in self.bus.state.snapshot().tasks:
            if view.state in (TaskState.WAITING, TaskState.QUEUED, TaskState.RUNNING):
                progress = self.dispatcher.progress(view.id)
                assert progress in (Progress.WAITING, Progress.QUEUED, Progress.RUNNING), view
                assert (view.state is TaskState.RUNNING) == (progress is Progress.RUNNING)

    async def to_the_end(self) -> None:
        """Land whatever runs, until nothing more can."""
        while not self.dispatcher.idle:
            for gate in self.gates.values():
                if not gate.done():
                    gate.set_result(None)
            await settled()


async def settled() -> None:
    for _ in range(12):
        await asyncio.sleep(0)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> ResultCache:
    return ResultCache(tmp_path_factory.mktemp("cache") / "cache.db")


@settings(max_examples=150, deadline=None)
@given(first=ROWS, steps=STEPS)
async def test_no_edit_of_any_kind_breaks_the_run_or_loses_a_task(
    cache: ResultCache, first: dict[str, tuple[str, str, list[str]]], steps: list[object]
) -> None:
    yard = Yard(cache)
    found = board(first)
    yard.edit(found)
    await settled()
    for step in steps:
        if isinstance(step, dict):
            found = board(step)
            yard.edit(found)
        else:
            await yard.step(*step)  # type: ignore[misc]
        await settled()
        yard.in_step()
    await yard.to_the_end()
    assert yard.early == [], "none began before what it waits for"
    views = {view.id: view for view in yard.bus.state.snapshot().tasks}
    lost = {view.id for view in views.values() if view.state in (TaskState.FAILED, TaskState.CANCELLED)}
    for view in views.values():
        if not view.state.ended:
            # Only one that waits for what did not land, or for what still waits so, has not ended.
            waits = [name for name in view.task.after if views[name].state is not TaskState.LANDED]
            assert waits, view
            assert all(name in lost or not views[name].state.ended for name in waits)
