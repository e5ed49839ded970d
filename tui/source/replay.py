"""A past run as it went: a tape that plays, pauses, goes faster and jumps.

Its clock is that of the run: the time in which no process worked on it is not on the tape.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable, Sequence

from engine.events import Event, RunFinished, RunResumed
from engine.snapshot import Snapshot
from engine.state import RunState
from tui.source.lookups import Lookups
from tui.source.protocol import Health, Mode

KEEP_EVERY = 2000
"""Events between two kept states: jumping back costs no more than applying so many."""

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # seconds of the run in one second


class Tape:
    """The position in a run of `length` seconds, which moves while it plays. `monotonic` gives seconds."""

    def __init__(self, length: float, speed: float, monotonic: Callable[[], float]) -> None:
        self.length = length
        self._monotonic = monotonic
        self._speed = speed
        self._playing = False
        self._from = 0.0
        self._since = monotonic()

    @property
    def playing(self) -> bool:
        """Whether it moves."""
        return self._playing and self.position < self.length

    @property
    def speed(self) -> float:
        """Seconds of the run for one second here."""
        return self._speed

    @property
    def position(self) -> float:
        """Seconds into the run."""
        moved = (self._monotonic() - self._since) * self._speed if self._playing else 0.0
        return min(self.length, self._from + moved)

    def play(self) -> None:
        """Go on from where it stands."""
        self._place(self.position, playing=True)

    def toggle(self) -> None:
        """Play or pause; at the end it begins anew."""
        if self.position >= self.length:
            self._place(0.0, playing=True)
        else:
            self._place(self.position, playing=not self._playing)

    def set_speed(self, speed: float) -> None:
        """Go on at another speed."""
        self._place(self.position, playing=self._playing)
        self._speed = speed

    def seek(self, position: float) -> None:
        """Go to a moment of the run."""
        self._place(min(self.length, max(0.0, position)), playing=self._playing)

    def _place(self, position: float, *, playing: bool) -> None:
        self._from, self._since, self._playing = position, self._monotonic(), playing


class ReplaySource:
    """Plays `events`, which are in the order of their times, `speed` times as fast as they happened."""

    mode: Mode = "REPLAY"
    control = None
    choice = None
    error: BaseException | None = None

    def __init__(
        self,
        events: Sequence[Event],
        *,
        speed: float = 1.0,
        lookups: Lookups | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._events = events
        self._begin = events[0].at if events else 0.0
        self._places: list[float] = []  # of each event on the tape
        self._idle: list[float] = []  # seconds that are not on it, up to each event
        at, idle, rests = self._begin, 0.0, False
        for event in events:
            # An event of another thread may carry a time a little before its neighbour's.
            before, at = at, max(event.at, at)
            if rests or isinstance(event, RunResumed):
                idle += at - before
            # What a dashboard tells while it stays open over a finished run belongs to its end.
            rests = isinstance(event, RunFinished) or (rests and not isinstance(event, RunResumed))
            self._places.append(at - self._begin - idle)
            self._idle.append(idle)
        self._applied = 0
        self._state = RunState()
        self._kept: dict[int, Snapshot] = {0: self._state.snapshot()}
        self._snapshot = self._kept[0]
        self.lookups = lookups or Lookups()
        self.playback = Tape(self._places[-1] if self._places else 0.0, speed, monotonic)

    def start(self) -> None:
        """Begin to play."""
        self.playback.play()

    async def stop(self) -> None:
        """Close what was looked up."""
        await self.lookups.close()

    def latest(self) -> Snapshot:
        """The state at the tape's position."""
        wanted = self._passed()
        if wanted < self._applied:
            self._applied = max(number for number in self._kept if number <= wanted)
            self._state = RunState(self._kept[self._applied])
            self._snapshot = self._kept[self._applied]
        if wanted > self._applied:
            self._go_to(wanted)
            self._snapshot = self._state.snapshot()
        return self._snapshot

    def _go_to(self, wanted: int) -> None:
        for number in range(self._applied, wanted):
            self._state.apply(self._events[number])
            if (number + 1) % KEEP_EVERY == 0:
                self._kept.setdefault(number + 1, self._state.snapshot())
        self._applied = wanted

    def now(self) -> float:
        """The time of the run at the tape's position."""
        passed = self._passed()
        return self._begin + self.playback.position + (self._idle[passed - 1] if passed else 0.0)

    def _passed(self) -> int:
        """How many events lie before the tape's position."""
        return bisect.bisect_right(self._places, self.playback.position + 1e-6)

    def health(self) -> Health:
        """A tape is always well."""
        return Health()
