"""A run of this process: the engine in its worker thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.snapshot import Snapshot
from tui.source.lookups import Lookups
from tui.source.protocol import Health, Mode

if TYPE_CHECKING:
    from engine.thread import Control, EngineThread

STOP_WITHIN = 5.0
"""Seconds the engine gets to end its children and write down where it stands."""


class LiveSource:
    """Shows and steers an `EngineThread`. `clock` must be the engine's."""

    mode: Mode = "LIVE"
    playback = None
    choice = None

    def __init__(
        self,
        engine: EngineThread,
        *,
        lookups: Lookups | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self.lookups = lookups or Lookups()

    @property
    def control(self) -> Control:
        """The commands."""
        return self._engine.control

    @property
    def error(self) -> BaseException | None:
        """What ended the engine, when it ended badly."""
        return self._engine.error

    def start(self) -> None:
        """Start the engine."""
        self._engine.start()

    async def stop(self) -> None:
        """End the run; what was done is kept."""
        await asyncio.to_thread(self._engine.stop, STOP_WITHIN)
        await self.lookups.close()

    def latest(self) -> Snapshot:
        """The newest state."""
        return self._engine.latest()

    def now(self) -> float:
        """The time."""
        return self._clock()

    def health(self) -> Health:
        """Alive until the engine's thread has ended."""
        return Health(alive=not self._engine.done, text="the engine has stopped" if self._engine.done else "")
