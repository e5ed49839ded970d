"""Tell what edits of a board mean to a run that works on it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from msgspec.structs import replace

from engine.model import BoardStatus, Task, TaskState
from engine.rows import EditKind, RowEdit, asks
from engine.task_view import TaskView

_UNSUCCESSFUL = (TaskState.FAILED, TaskState.CANCELLED)


def compare(
    before: Mapping[str, Task],
    rows: Mapping[str, Task],
    *,
    refused: Collection[str],
    find: Callable[[str], TaskView | None],
    busy: Callable[[TaskView], bool],
) -> tuple[RowEdit, ...]:
    """Give the edits between the rows that the run knows and those of the board, in the order of the board.

    `refused` are ids of rows with a mistake: their tasks stay as they are. `find` gives a task's view, and `busy`
    says whether it is being worked on or has been verified. What ends a task that another orchestrator works on counts
    like for one that has not begun: it is put off until nobody does.
    """
    edits = [edit for row in rows.values() if (edit := _edit(before, row, find(row.id), busy))]
    gone = [row for row in before.values() if row.id not in rows and row.id not in refused]
    return (*edits, *_gone(gone, find, busy))


def _edit(
    before: Mapping[str, Task], row: Task, view: TaskView | None, busy: Callable[[TaskView], bool]
) -> RowEdit | None:
    if view is None:
        landed = row.status is BoardStatus.LANDED
        return RowEdit(EditKind.LANDED if landed else EditKind.ADDED, row)
    was = before.get(row.id, view.task)
    put_back = row.id not in before and view.state in _UNSUCCESSFUL and row.status is BoardStatus.OPEN
    again_asked_for = view.put_off is not None and row.status is BoardStatus.OPEN
    kind = (
        EditKind.RETRIED
        if put_back
        else EditKind.CHANGED
        if again_asked_for
        else _status_kind(was, row, view, busy) or _text_kind(was, row, view, busy)
    )
    return RowEdit(kind, row, was) if kind is not None else None


def _status_kind(was: Task, row: Task, view: TaskView, busy: Callable[[TaskView], bool]) -> EditKind | None:
    """What another state of the row means; None when it says nothing new."""
    if was.status is row.status:
        return None
    if row.status is BoardStatus.LANDED:
        done = view.state in (TaskState.TO_LAND, TaskState.LANDED)
        return None if done else EditKind.LANDED
    if row.status is BoardStatus.FAILED:
        return None if view.state.ended or _begun(view, busy) else EditKind.GIVEN_UP
    # What this run has landed is done, whatever the checkout's board says: the target's board knows.
    by_hand = view.state is TaskState.LANDED and not view.commit
    return EditKind.RETRIED if view.state in _UNSUCCESSFUL or by_hand else None


def _text_kind(was: Task, row: Task, view: TaskView, busy: Callable[[TaskView], bool]) -> EditKind | None:
    """What other words of the row mean; None when nothing but its state and place has changed."""
    if replace(was, status=row.status, line=row.line) == row:
        return None
    if view.state is TaskState.LANDED:
        return EditKind.NEXT_RUN if row.status is BoardStatus.OPEN and asks(was) != asks(row) else None
    return EditKind.LATER if busy(view) else EditKind.CHANGED


def _begun(view: TaskView, busy: Callable[[TaskView], bool]) -> bool:
    return busy(view) and view.state is not TaskState.ELSEWHERE


def _gone(
    rows: Collection[Task], find: Callable[[str], TaskView | None], busy: Callable[[TaskView], bool]
) -> Iterator[RowEdit]:
    for row in rows:
        view = find(row.id)
        if view is not None and not view.state.ended:
            yield RowEdit(EditKind.KEPT if _begun(view, busy) else EditKind.REMOVED, row)
