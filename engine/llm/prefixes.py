"""Write a shared prompt prefix into the service's cache once, and let everybody else read it.

    async with leader.turn(request.prefixes()) as turn:
        ...
        turn.streaming()        # the answer has begun: from now on the prefix can be read

A cache entry is readable only once the answer that wrote it begins. Sixteen tasks that start together would pay for
sixteen writes; so the first leads, and the others wait until its answer begins or it gives up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from engine.llm.messages import Prefix

_LIFE = {"5m": 300.0, "1h": 3600.0}
_REMEMBERED = 4096  # prefixes, the newest
_MINIMUM_BYTES = 2048  # the least any model keeps is 512 tokens; below that there is nothing to wait for


class Turn:
    """One call's turn at its prefixes. `expected`: the longest that the cache should hold when the call goes out."""

    __slots__ = ("_leader", "_led", "_prefixes", "_timer", "expected")

    def __init__(
        self,
        leader: PrefixLeader,
        prefixes: Sequence[Prefix],
        led: dict[str, asyncio.Event],
        expected: Prefix | None,
    ) -> None:
        self._leader = leader
        self._prefixes = prefixes
        self._led = led
        self._timer: asyncio.TimerHandle | None = None
        self.expected = expected

    def sent(self) -> None:
        """Tell that the call goes out now: its answer has to begin within the leader's patience."""
        if self._led:
            self._timer = asyncio.get_running_loop().call_later(self._leader.patience, self.over)

    def streaming(self) -> None:
        """Tell that the answer has begun: the prefixes are in the cache, and stay for a while from now."""
        self._leader._warm(self._prefixes)
        self.over()

    def over(self) -> None:
        """Stop leading. Of those who wait, one goes next when the prefix is not warm, and all when it is."""
        if self._timer is not None:
            self._timer.cancel()
        self._leader._let_go(self._led)


class PrefixLeader:
    """Who writes which prefix now, and which are warm. `patience`: seconds a leader's answer may take to begin."""

    def __init__(self, *, patience: float = 20.0, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.patience = patience
        self._monotonic = monotonic
        self._writing: dict[str, asyncio.Event] = {}
        self._warm_until: dict[str, float] = {}

    @asynccontextmanager
    async def turn(self, prefixes: Sequence[Prefix]) -> AsyncIterator[Turn]:
        """Wait while another call writes a prefix of this one; then lead what is not warm yet."""
        prefixes = [prefix for prefix in prefixes if prefix.size >= _MINIMUM_BYTES]
        while True:
            warm, cold = self._split(prefixes)
            written = next((self._writing[p.digest] for p in cold if p.digest in self._writing), None)
            if written is None:
                break
            await written.wait()
        led = {prefix.digest: asyncio.Event() for prefix in cold}
        self._writing.update(led)
        turn = Turn(self, prefixes, led, warm[-1] if warm else None)
        try:
            yield turn
        finally:
            turn.over()

    def _split(self, prefixes: Sequence[Prefix]) -> tuple[Sequence[Prefix], Sequence[Prefix]]:
        """Give the prefixes up to the longest warm one, and the rest, which this call would write."""
        now = self._monotonic()
        for count in range(len(prefixes), 0, -1):
            if self._warm_until.get(prefixes[count - 1].digest, 0.0) > now:
                return prefixes[:count], prefixes[count:]
        return (), prefixes

    def _warm(self, prefixes: Sequence[Prefix]) -> None:
        now = self._monotonic()
        for prefix in prefixes:
            self._warm_until.pop(prefix.digest, None)
            self._warm_until[prefix.digest] = now + _LIFE[prefix.ttl]
            # Its writer may be another call by now, when ours was slow to begin: who waits for that one need not.
            written = self._writing.pop(prefix.digest, None)
            if written is not None:
                written.set()
        while len(self._warm_until) > _REMEMBERED:
            del self._warm_until[next(iter(self._warm_until))]

    def _let_go(self, led: dict[str, asyncio.Event]) -> None:
        for digest, written in led.items():
            if self._writing.get(digest) is written:
                del self._writing[digest]
            written.set()
