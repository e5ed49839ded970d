"""What a train carries, and what it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from engine.model import BoardStatus


class Cargo(msgspec.Struct, frozen=True):
    """One verified commit. `command` is what verified it; `paths` are the files it touches."""

    task_id: str
    scope: str
    commit: str
    command: str
    paths: tuple[str, ...] = ()


class Landed(msgspec.Struct, frozen=True):
    """The task's commit is in the target."""

    task_id: str
    commit: str


class Returned(msgspec.Struct, frozen=True):
    """The task's commit does not fit: `feedback` is for its Implementer, `other` the task it clashes with (if known).

    It clashes in `paths`, or, where there are none, makes the check fail, which says `output`.
    """

    task_id: str
    reason: str
    feedback: str
    other: str = ""
    paths: tuple[str, ...] = ()
    output: str = ""


class BoardFile(msgspec.Struct, frozen=True):
    """The board as a file of the tree: its path, and what can be done with its bytes.

    `mark` puts states into them, `combine` takes together what two sides (ours, theirs) have changed since the first,
    which may be missing.
    """

    path: str
    mark: Callable[[bytes, Mapping[str, BoardStatus]], bytes]
    combine: Callable[[bytes | None, bytes, bytes], bytes]


class TrainResult(msgspec.Struct, frozen=True):
    """How a train ended. `tip` is the target's tip; `problem` says why the rest stays queued, if it does.

    `verifications` counts the combinations that were run; whether the target is green by itself, which is asked at
    most once a run, is not among them. `flaky` tells how a check failed that passed over the same tree when it was run
    once more, `notice` what a person should do now; both may be empty.
    """

    landed: tuple[Landed, ...] = ()
    returned: tuple[Returned, ...] = ()
    pushed: bool = False
    tip: str = ""
    problem: str = ""
    verifications: int = 0
    flaky: tuple[str, ...] = ()
    notice: str = ""


class Checked(msgspec.Struct, frozen=True):
    """How the combined tree's verification ended; `output` is for a person or a model."""

    passed: bool
    reason: str = ""
    output: str = ""


Verify = Callable[[Path, Sequence[str]], Awaitable[Checked]]
"""Run the commands in the folder, one after the other."""

OnStep = Callable[[str, str], None]
"""Told each stage (combine, conflict, verify, bisect, board, push, landed) with a few words."""
