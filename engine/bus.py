"""The one way events leave the engine: into the state, to the journal, to whoever listens, and as a `Snapshot`.

The bus lives on the engine's event loop. `latest` is a plain attribute that any thread may read; it is replaced at
most `PUBLISH_HZ` times a second, so five thousand events a second cost a screen no more than five.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from engine.events import Event, Noticed, NoticeLevel, storable
from engine.snapshot import Snapshot
from engine.state import RunState

PUBLISH_HZ = 20.0  # snapshots a second, at most: more often than a screen is drawn


class Sink(Protocol):
    """Where events are kept, in the order of the calls: the journal of one run."""

    def append(self, event: Event) -> None:
        """Keep the event soon."""

    def commit(self, event: Event) -> Awaitable[None]:
        """Keep the event at once; what is given back is done when it would survive a crash."""


class Bus:
    """Emit events with `emit`, or with `commit` what money or git depends on. `clock` gives seconds since the epoch.

    The state takes the events in the order in which the sink keeps them, so that whoever replays them gets this state.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.state = RunState()
        self.latest: Snapshot = self.state.snapshot()
        self._sink: Sink | None = None
        self._listeners: list[Callable[[Event], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._published = 0.0

    def attach(self, sink: Sink, state: RunState) -> None:
        """Keep all further events in `sink`, and go on from `state`."""
        self._sink = sink
        self.state = state
        self.publish()

    def subscribe(self, listener: Callable[[Event], None]) -> None:
        """Call `listener` with every event, on the engine's loop. It must not block."""
        self._listeners.append(listener)

    def emit(self, event: Event) -> None:
        """Apply, tell and keep the event; returns at once."""
        event = storable(event)
        if self._sink is not None:
            self._sink.append(event)
        self._spread(event)

    def notice(self, level: NoticeLevel, text: str, task: str = "") -> None:
        """Tell a person something, of a task or of the run."""
        self.emit(Noticed(at=self.clock(), level=level, text=text, task=task))

    async def commit(self, event: Event) -> None:
        """Apply, tell and keep the event; returns once it is kept for good. Raises StoreError when it cannot be."""
        event = storable(event)
        kept = self._sink.commit(event) if self._sink is not None else None
        self._spread(event)
        if kept is not None:
            await kept

    def _spread(self, event: Event) -> None:
        self.state.apply(event)
        for listener in self._listeners:
            listener(event)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            wait = max(0.0, self._published + 1.0 / PUBLISH_HZ - loop.time())
            self._timer = loop.call_later(wait, self.publish)

    def publish(self) -> None:
        """Make `latest` the state of now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._published = asyncio.get_running_loop().time()
        self.latest = self.state.snapshot()
