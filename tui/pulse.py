"""What looks again and again whether anything has changed, for next to nothing while nothing has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Pulse:
    """Calls `beat` on the running event loop, every `every()` seconds, until it is stopped.

    A Textual timer costs twice as much a beat, which is most of what a dashboard does at rest.
    """

    def __init__(self, beat: Callable[[], None], every: Callable[[], float]) -> None:
        self._beat = beat
        self._every = every
        self._due = 0.0
        self._next: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin."""
        self._due = asyncio.get_running_loop().time()
        self._run()

    def stop(self) -> None:
        """End."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _run(self) -> None:
        loop = asyncio.get_running_loop()
        # What was late is not made up for by a burst, but the next beat comes no later for it.
        self._due = max(self._due + self._every(), loop.time())
        self._next = loop.call_at(self._due, self._run)
        self._beat()
