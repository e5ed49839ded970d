"""What a screen draws from: the newest snapshot, the time it is drawn for, and how the source of it is."""

from __future__ import annotations

from dataclasses import dataclass

from engine.snapshot import Snapshot
from tui.source.protocol import Health, Mode


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One moment of the dashboard. `now` is in seconds since the epoch, by the source's clock.
    `dismissed` is the number of the last notice that somebody took note of; `tape` says of a replay whether it plays,
    and how fast; `over` whether the replay covers the run that the dashboard was started for."""

    snapshot: Snapshot
    now: float
    health: Health
    mode: Mode
    dismissed: int = 0
    tape: tuple[bool, float] | None = None
    over: bool = False

    @property
    def errors(self) -> int:
        """How many errors the process that works on the run has told, and nobody has dismissed yet."""
        seen = max(self.dismissed, self.snapshot.run.told_before)
        return sum(1 for n in self.snapshot.notices if n.level == "error" and n.number > seen)

    @property
    def elapsed(self) -> float:
        """Seconds that a process worked on the run, to its end or to now."""
        return self.snapshot.run.elapsed(self.until)

    @property
    def until(self) -> float:
        """The time up to which running things have lasted: a dead run stands still."""
        if self.snapshot.run.finished is not None:
            return self.snapshot.at
        if not self.health.alive:
            return max(self.snapshot.at, self.health.alive_until)
        return self.now

    @property
    def since(self) -> float:
        """From when on things are told over the run: when it would have started, had it been worked on ever since."""
        begun = self.snapshot.run.since
        return begun if begun is not None else self.until

    @property
    def moving(self) -> bool:
        """Whether time passes in the run: something may still happen."""
        return (
            self.snapshot.run.started is not None and self.snapshot.run.finished is None and self.health.alive
        )
