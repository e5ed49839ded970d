"""What looks again and again whether anything has changed, for next to nothing while nothing has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

LIVELY = 1.0
"""Seconds for which beats come quickly after there was news, or somebody was at the keys."""


class Pulse:
    """Calls `beat` on the running event loop until it is stopped: `quick` times a second while there is news, `calm`
    times while there is none. `beat` says whether there was any.

    A Textual timer costs twice as much a beat, and beats are most of what a dashboard does while nothing happens.
    """

    def __init__(self, beat: Callable[[], bool], *, quick: float, calm: float) -> None:
        self._beat = beat
        self._quick = 1 / quick
        self._calm = 1 / calm
        self._lively_until = 0.0
        self._due = 0.0
        self._next: asyncio.TimerHandle | None = None

    @property
    def running(self) -> bool:
        """Whether it has been started, and not been stopped since."""
        return self._next is not None

    def start(self) -> None:
        """Begin."""
        self._due = asyncio.get_running_loop().time()
        self._run()

    def stop(self) -> None:
        """End."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def hurry(self) -> None:
        """Beat quickly for a while: somebody waits for an answer."""
        now = asyncio.get_running_loop().time()
        self._lively_until = now + LIVELY
        if self._next is not None and self._due > now + self._quick:
            self._next.cancel()
            self._schedule(now + self._quick)

    def _run(self) -> None:
        now = asyncio.get_running_loop().time()
        # What was late is not made up for by a burst, but the next beat comes no later for it.
        self._schedule(max(now, self._due + (self._quick if now < self._lively_until else self._calm)))
        if self._beat():
            self.hurry()

    def _schedule(self, due: float) -> None:
        self._due = due
        self._next = asyncio.get_running_loop().call_at(due, self._run)
