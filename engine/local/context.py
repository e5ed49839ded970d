"""What every room of the activities is given of the run that it works for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from engine.bus import Bus
from engine.git.repository import Repository
from engine.local.logs import StageLogs
from engine.model import Task
from engine.process import child_environment
from engine.settings import Settings


class LandingSide(msgspec.Struct, frozen=True):
    """What the activities need of landing.

    `tip` gives the newest landed commit, `queue` keeps a task's commit for a train, `known_green` tells the train what
    passed already, and `paths` gives the files that each landed task touched. `confirm` raises LockLostError when the
    task is another orchestrator's by now.
    """

    tip: Callable[[], str]
    queue: Callable[[str, str], Awaitable[None]]
    known_green: Callable[[str, str], Awaitable[None]]
    paths: Callable[[], Mapping[str, tuple[str, ...]]]
    confirm: Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RunContext:
    """One run's surroundings: `run` is its id, `board` the board's path in the repository.

    `environ` is what the environment of children is made from; `new_id` gives unique ids.
    """

    run: str
    settings: Settings
    board: str
    repository: Repository
    bus: Bus
    logs: StageLogs
    environ: Mapping[str, str]
    landing: LandingSide
    new_id: Callable[[], str]

    def now(self) -> float:
        """Seconds since the epoch."""
        return self.bus.clock()

    def command(self, task: Task) -> str | None:
        """The task's verification command: its row's own, or that of all rows, or None."""
        return task.command or self.settings.verify.command or None

    def child_environment(self, keep: Sequence[str] = ()) -> dict[str, str]:
        """The environment of a child of this run; see `engine.process.child_environment`."""
        return child_environment(self.environ, self.run, keep)
