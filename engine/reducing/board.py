"""The board while the run goes on: rows taken in, and the edits that a person is asked about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine import events as ev
from engine.model import BoardStatus, Task, TaskState
from engine.reducing.facts import Facts
from engine.reducing.motion import ended_at, reopened, rewritten, stopped
from engine.rows import EditKind, RowEdit
from engine.snapshot import BoardOffer
from engine.task_view import TaskView

_DONE = (TaskState.TO_LAND, TaskState.LANDED)
_NOT_BEGUN = (TaskState.WAITING, TaskState.QUEUED)


def _tasks_added(state: Facts, e: ev.TasksAdded) -> None:
    for task in e.tasks:
        view = state.tasks.get(task.id)
        if view is None or view.state in _DONE:
            continue
        state.change(task.id, task=task)
        if task.status is BoardStatus.LANDED:
            _landed(state, view, task, e.at)
    state.add_tasks(e.tasks)


def _board_offered(state: Facts, e: ev.BoardOffered) -> None:
    state.offer = BoardOffer(e.number, e.at, e.change) if e.change.edits else None


def _rows_refused(state: Facts, e: ev.RowsRefused) -> None:
    state.refused = e.rows


def _board_left(state: Facts, e: ev.BoardLeft) -> None:
    _answered(state, e.number)


def _board_taken(state: Facts, e: ev.BoardTaken) -> None:
    _answered(state, e.number)
    for edit in e.change.edits:
        view = state.tasks.get(edit.row.id)
        if view is None:
            if edit.kind in (EditKind.ADDED, EditKind.LANDED):
                state.add_tasks((edit.row,))
        elif edit.ends and view.state is TaskState.ELSEWHERE:
            state.change(view.id, put_off=edit)
        elif edit.acts:
            _EDITS[edit.kind](state, view, edit, e.at)


def _answered(state: Facts, number: int) -> None:
    if state.offer is not None and state.offer.number == number:
        state.offer = None


def _changed(state: Facts, view: TaskView, edit: RowEdit, at: float) -> None:
    if view.state not in _DONE:
        # It may wait for other tasks now: who dispatches it says when it waits for nothing.
        waits = {"state": TaskState.WAITING} if view.state in _NOT_BEGUN else {}
        state.change(view.id, put_off=None, **rewritten(view, edit.row), **waits)


def _later(state: Facts, view: TaskView, edit: RowEdit, at: float) -> None:
    state.change(view.id, revised=edit.row)


def _removed(state: Facts, view: TaskView, edit: RowEdit, at: float) -> None:
    if not view.state.ended:
        _end(state, view, TaskState.CANCELLED, "removed from the board", at)
        state.change(view.id, removed=True)


def _given_up(state: Facts, view: TaskView, edit: RowEdit, at: float) -> None:
    if not view.state.ended:
        _end(state, view, TaskState.FAILED, "given up on the board", at)


def _end(state: Facts, view: TaskView, end: TaskState, why: str, at: float) -> None:
    state.change(
        view.id,
        state=end,
        stage=None,
        stage_started=None,
        **ended_at(view, at),
        problem=why,
        last=why,
        put_off=None,
        **stopped(view, at, why),
    )


def _marked(state: Facts, view: TaskView, edit: RowEdit, at: float) -> None:
    if view.state not in _DONE:
        _landed(state, view, edit.row, at)


def _landed(state: Facts, view: TaskView, row: Task, at: float) -> None:
    state.change(
        view.id,
        task=row,
        revised=None,
        removed=False,
        state=TaskState.LANDED,
        stage=None,
        stage_started=None,
        **ended_at(view, at),
        problem="",
        put_off=None,
        last="landed, says the board",
        **stopped(view, at, "landed meanwhile"),
    )


def _retried(state: Facts, view: TaskView, edit: RowEdit, at: float) -> None:
    if view.state.ended:
        changed = state.change(view.id, **rewritten(view, edit.row))
        assert changed is not None
        state.change(view.id, **reopened(changed))


_EDITS: dict[EditKind, Callable[[Facts, TaskView, RowEdit, float], None]] = {
    EditKind.ADDED: _changed,
    EditKind.CHANGED: _changed,
    EditKind.LATER: _later,
    EditKind.REMOVED: _removed,
    EditKind.LANDED: _marked,
    EditKind.GIVEN_UP: _given_up,
    EditKind.RETRIED: _retried,
}

HANDLERS: dict[type[ev.Event], Callable[[Facts, Any], None]] = {
    ev.TasksAdded: _tasks_added,
    ev.BoardOffered: _board_offered,
    ev.BoardTaken: _board_taken,
    ev.BoardLeft: _board_left,
    ev.RowsRefused: _rows_refused,
}
