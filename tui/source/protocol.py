"""What a source of snapshots can do. A screen knows nothing else of a run.

Everything here is cheap and may be called from any thread, but for `stop`; what reads files or asks git is in
`Lookups`, and awaited.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from engine.model import Lane
from engine.snapshot import Snapshot
from tui.source.lookups import Lookups

Mode = Literal["LIVE", "WATCH", "REPLAY"]

STALE_AFTER = 10.0
"""Seconds of silence of a watched run after which its picture is called stale."""


@dataclass(frozen=True, slots=True)
class Health:
    """How the source is. `silent_for`: seconds since a sign of life. `text` is empty when all is well.

    `alive_until`: of a run whose process has gone, when it was last seen alive, in seconds since the epoch.
    """

    alive: bool = True
    silent_for: float = 0.0
    text: str = ""
    alive_until: float = 0.0

    @property
    def stale(self) -> bool:
        """Whether the picture may be older than it should be."""
        return self.alive and self.silent_for >= STALE_AFTER


class Control(Protocol):
    """What a person may do to a live run. Every method returns at once, from any thread."""

    def pause(self) -> None:
        """Start no more tasks."""

    def resume(self) -> None:
        """Start tasks again."""

    def drain(self) -> None:
        """Let what runs end, and then the run."""

    def cancel(self, task_ids: Iterable[str] | None = None) -> None:
        """Cancel these tasks, or all."""

    def retry(self, task_ids: Iterable[str]) -> None:
        """Try these tasks again."""

    def set_concurrency(self, limit: int) -> None:
        """Change how many tasks may run at once."""

    def set_lane(self, task_id: str, lane: Lane) -> None:
        """Move a task to another lane."""

    def land_now(self) -> None:
        """Let the train leave."""

    def take_board(self, number: int) -> None:
        """Take in the edits of the board that were offered by this number."""

    def leave_board(self, number: int) -> None:
        """Leave the edits of the board that were offered by this number to the next run."""

    def cancel_batches(self) -> None:
        """Cancel the batches at the model service when the run stops, instead of leaving them to the next run."""


class Playback(Protocol):
    """What a person may do to a replay. Times are seconds of the run."""

    @property
    def playing(self) -> bool:
        """Whether it moves."""

    @property
    def speed(self) -> float:
        """Seconds of the run for one second here."""

    @property
    def position(self) -> float:
        """Seconds into the run."""

    @property
    def length(self) -> float:
        """Seconds the run took."""

    def toggle(self) -> None:
        """Play or pause; from the end it begins anew."""

    def set_speed(self, speed: float) -> None:
        """Go faster or slower."""

    def seek(self, position: float) -> None:
        """Go to a moment of the run."""


class Choice(Protocol):
    """What a person may do when the source can show one run or another."""

    def choose(self, run: str) -> None:
        """Show this run from now on."""


class Source(Protocol):
    """A run to look at.

    `control` is None for one that can only be looked at, `playback` for one that is not past, `choice` where there is
    but one run to show.
    """

    @property
    def mode(self) -> Mode:
        """What kind of run this is."""

    @property
    def control(self) -> Control | None:
        """The commands, if there are any."""

    @property
    def playback(self) -> Playback | None:
        """The tape, if it is one."""

    @property
    def choice(self) -> Choice | None:
        """The way to another run, if there is one."""

    @property
    def lookups(self) -> Lookups:
        """What is looked up beside the snapshot."""

    @property
    def error(self) -> BaseException | None:
        """What ended the engine, when it ended badly."""

    def start(self) -> None:
        """Begin; returns at once."""

    async def stop(self) -> None:
        """End it within 5 s, and leave no thread, process or file open."""

    def latest(self) -> Snapshot:
        """The newest state; a new object means something changed."""

    def now(self) -> float:
        """The time by the run's own clock, in seconds since the epoch."""

    def health(self) -> Health:
        """How the source is."""
