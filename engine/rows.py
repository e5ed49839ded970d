"""What somebody changed in the rows of a board while a run works on it."""

from __future__ import annotations

import hashlib
from enum import StrEnum

import msgspec

from engine.model import Task


class EditKind(StrEnum):
    """What the change of a row means to the run."""

    ADDED = "added"  # a new row: worked on
    CHANGED = "changed"  # not begun, or ended: the task takes the new words
    LATER = "later"  # begun: it keeps the words it began with, a retry takes the new ones
    REMOVED = "removed"  # gone before it began: cancelled
    KEPT = "kept"  # gone, but it has begun: it goes on
    LANDED = "landed"  # set to [x]: counts as landed, and is worked on no more
    GIVEN_UP = "given_up"  # set to [!] before it began: counts as failed
    RETRIED = "retried"  # set to [ ], or put back, after the task ended: tried again
    NEXT_RUN = "next_run"  # landed, and asks for something else now: the next run's, once it is committed


class RowEdit(msgspec.Struct, frozen=True):
    """One changed row. `row` is how it stands on the board (one that is gone: how it stood), `was` how it stood."""

    kind: EditKind
    row: Task
    was: Task | None = None

    @property
    def acts(self) -> bool:
        """Whether taking it in changes anything in the run."""
        return self.kind not in (EditKind.KEPT, EditKind.NEXT_RUN)

    @property
    def ends(self) -> bool:
        """Whether it says that nobody is to work on the task any more."""
        return self.kind in (EditKind.REMOVED, EditKind.LANDED, EditKind.GIVEN_UP)


class BoardChange(msgspec.Struct, frozen=True):
    """All that differs between the board and what the run works on.

    `problems` say by line why further changed rows cannot be taken in.
    """

    edits: tuple[RowEdit, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def acts(self) -> bool:
        """Whether taking it in changes anything in the run."""
        return any(edit.acts for edit in self.edits)


def asks(task: Task) -> tuple[str, str | None, str]:
    """What the row asks for: work that was done for other words is not its work."""
    return task.scope, task.command, task.acceptance


def words(task: Task) -> str:
    """A short digest of what the row asks for; the commit that does it carries it as its trailer Taskyard-Row."""
    return hashlib.sha256(msgspec.json.encode(asks(task))).hexdigest()[:16]
