"""A fixed moment of a run, on a fixed clock: what tests and pictures are made from."""

from __future__ import annotations

from collections.abc import Iterable

from engine.events import Event
from engine.snapshot import Snapshot
from engine.state import RunState
from tui.source.lookups import Lookups
from tui.source.protocol import Choice, Control, Health, Mode, Playback


class RecordedSource:
    """Shows the state after `events`, at the time `now` (by default, that of the last event)."""

    def __init__(
        self,
        events: Iterable[Event],
        *,
        now: float | None = None,
        mode: Mode = "LIVE",
        health: Health | None = None,
        control: Control | None = None,
        playback: Playback | None = None,
        choice: Choice | None = None,
        lookups: Lookups | None = None,
    ) -> None:
        self._state = RunState().apply_all(events)
        self._snapshot = self._state.snapshot()
        self._now = self._snapshot.at if now is None else now
        self._health = health or Health()
        self.mode = mode
        self.control = control
        self.playback = playback
        self.choice = choice
        self.lookups = lookups or Lookups()
        self.error: BaseException | None = None

    def play(self, *events: Event) -> None:
        """Let these events happen too; the clock goes on to the last of them."""
        self._state.apply_all(events)
        self._snapshot = self._state.snapshot()
        self._now = max(self._now, self._snapshot.at)

    def set_health(self, health: Health) -> None:
        """Let the source be well, or not."""
        self._health = health

    def start(self) -> None:
        """Nothing to start."""

    async def stop(self) -> None:
        """Close what was looked up."""
        await self.lookups.close()

    def latest(self) -> Snapshot:
        """The state."""
        return self._snapshot

    def now(self) -> float:
        """The fixed time."""
        return self._now

    def health(self) -> Health:
        """As it was set."""
        return self._health
