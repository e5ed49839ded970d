"""Edits of the board in words: which rows differ, how, and what taking them in does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from engine.model import Task, TaskState
from engine.rows import BoardChange, EditKind, RowEdit
from engine.snapshot import Snapshot
from tui.format import safe_text
from tui.plain import count

WORDS: dict[EditKind, tuple[str, str]] = {
    EditKind.ADDED: ("new", "is worked on"),
    EditKind.CHANGED: ("changed", "takes the new words"),
    EditKind.LATER: ("changed", "has begun: it keeps the old words, and a retry takes the new ones"),
    EditKind.REMOVED: ("removed", "has not begun, and is cancelled"),
    EditKind.KEPT: ("removed", "has begun, and goes on"),
    EditKind.LANDED: ("set to [x]", "counts as landed; an attempt that runs is stopped"),
    EditKind.GIVEN_UP: ("set to [!]", "has not begun, and counts as failed"),
    EditKind.RETRIED: ("open again", "is tried again"),
    EditKind.NEXT_RUN: ("changed", "has landed: commit and push the row, and the next run works on it anew"),
}
"""What was done to the row, and what becomes of the task."""

_WAITS: dict[EditKind, str] = {
    EditKind.LATER: "has begun: its new words wait for a retry",
    EditKind.KEPT: "has begun, and goes on",
    EditKind.NEXT_RUN: "has landed: its new words wait for the next run",
}
"""What becomes of edits that nothing is done about now, of one task or (see `taking`) of several."""

_COLUMNS = (
    ("Scope", "scope"),
    ("Verification", "command"),
    ("Acceptance", "acceptance"),
    ("After", "after"),
    ("Type", "type"),
    ("Lane", "lane"),
    ("Priority", "priority"),
    ("Branch", "branch"),
)


NOT_TRIED = "has ended without landing: r tries it again"
"""What is to be said of a task that takes new words, and is not worked on for that."""


def waits_for_retry(edit: RowEdit, snapshot: Snapshot) -> bool:
    """Whether the task takes new words, and stays failed or cancelled until somebody tries it again."""
    if edit.kind is not EditKind.CHANGED:
        return False
    view = snapshot.task(edit.row.id)
    return view is not None and view.state in (TaskState.FAILED, TaskState.CANCELLED)


def outcome(edit: RowEdit, snapshot: Snapshot) -> str:
    """What becomes of the task once the edit is taken in."""
    then = WORDS[edit.kind][1]
    return f"{then}; it {NOT_TRIED}" if waits_for_retry(edit, snapshot) else then


def summary(change: BoardChange) -> str:
    """How many rows of each kind: "2 new, 1 changed"."""
    kinds = Counter(WORDS[edit.kind][0] for edit in change.edits)
    parts = [f"{number} {word}" for word, number in kinds.items()]
    if change.problems:
        parts.append(count(len(change.problems), "mistake"))
    return ", ".join(parts)


def taking(change: BoardChange, snapshot: Snapshot) -> str:
    """What is done about the edits now, and what becomes of the rest: "taking in: 1 new; T3 has begun, and goes on"."""
    now = [edit for edit in change.edits if edit.kind not in _WAITS]
    parts = [f"taking in: {summary(BoardChange(tuple(now)))}"] if now else []
    later = [(words, [e for e in change.edits if e.kind is kind]) for kind, words in _WAITS.items()]
    later.append((NOT_TRIED, [e for e in change.edits if waits_for_retry(e, snapshot)]))
    for words, edits in later:
        names = [safe_text(edit.row.id, 40) for edit in edits]
        if len(names) == 1:
            parts.append(f"{names[0]} {words}")
        elif names:
            parts.append(f"{count(len(names), 'task')}: each {words}")
    return "; ".join(parts)


def taken(edit: RowEdit) -> str:
    """The row and what was done about it: "T3 changed", or what its edit waits for."""
    return f"{edit.row.id} {_WAITS.get(edit.kind) or WORDS[edit.kind][0]}"


def differences(edit: RowEdit) -> Iterator[tuple[str, str, str]]:
    """The column, its old text and its new text, of each that differs; all that say something of a new row."""
    was = edit.was or Task(id=edit.row.id, scope="")
    for column, name in _COLUMNS:
        old, new = _cell(was, name), _cell(edit.row, name)
        if old != new:
            yield column, old, new


def _cell(task: Task, name: str) -> str:
    value = getattr(task, name)
    return ", ".join(value) if isinstance(value, tuple) else "" if value is None else str(value)
