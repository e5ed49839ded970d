"""How many calls of one model class may be in flight, and when all of them must be silent.

    limiter = limiters.of("claude-opus-5-5")
    async with limiter.slot() as slot:          # waits for a free place, and for the end of a pause
        ...
        slot.accepted(exhausted)                # the answer begins; its headers tell of limits
        ...
        slot.answered()                         # or slot.failed(error)

The service counts its limits by model class over the whole account, so one limiter serves all tasks. A 429 pauses the
class: one refused call is enough to know that the others would be refused too. A 529 halves the number in flight,
once for all calls that were in flight together; answers raise it again, by one for each full round of them.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from engine.errors import LLMError, OverloadedError, RateLimitedError
from engine.figures import LimiterFigures


class Timer(Protocol):
    """What `call_later` returns."""

    def cancel(self) -> None:
        """Do not fire."""


CallLater = Callable[[float, Callable[[], None]], Timer]


def model_class(model: str) -> str:
    """Give the family and generation whose limits a model shares: `claude-opus-5-5` counts as `opus-5`."""
    found = re.search(r"(opus|sonnet|haiku|fable)-(\d{1,2})(?!\d)", model)
    if found:
        return found[0]
    old = re.match(r"claude-(\d+)(?:-\d+)?-(opus|sonnet|haiku)", model)
    return f"{old[2]}-{old[1]}" if old else model


class Slot:
    """One call's place among those in flight."""

    __slots__ = ("_limiter", "_round")

    def __init__(self, limiter: Limiter, round_: int) -> None:
        self._limiter = limiter
        self._round = round_

    def accepted(self, exhausted: tuple[float, str] | None) -> None:
        """Tell that the answer begins; `exhausted`: (seconds, name) of a limit that this call used up."""
        if exhausted is not None:
            seconds, name = exhausted
            self._limiter.pause(seconds, f"limit of {name} used up")

    def answered(self) -> None:
        """Tell that the answer is whole."""
        self._limiter._grow()

    def failed(self, error: LLMError) -> None:
        """Tell how the call failed."""
        if isinstance(error, RateLimitedError):
            self._limiter.pause(error.retry_after, "429")
        elif isinstance(error, OverloadedError):
            self._limiter._shrink(self._round)


class Limiter:
    """The limit of one model class. Times are seconds; `clock` is for the screen, `monotonic` for waiting."""

    def __init__(
        self,
        name: str,
        *,
        initial: int = 16,
        maximum: int = 64,
        pause_cap: float = 120.0,
        default_pause: float = 5.0,
        on_change: Callable[[LimiterFigures], None] | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        call_later: CallLater | None = None,
    ) -> None:
        self.name = name
        self._limit = float(min(initial, maximum))
        self._maximum = maximum
        self._pause_cap = pause_cap
        self._default_pause = default_pause
        self._on_change = on_change
        self._clock = clock
        self._monotonic = monotonic
        self._call_later = call_later
        self._in_flight = 0
        self._round = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._silent_until = float("-inf")
        self._reason = ""
        self._timer: Timer | None = None

    @property
    def figures(self) -> LimiterFigures:
        """The state as the dashboard shows it."""
        left = self._silent_until - self._monotonic()
        return LimiterFigures(
            model_class=self.name,
            limit=int(self._limit),
            in_flight=self._in_flight,
            waiting=sum(not place.done() for place in self._waiting),
            paused_until=self._clock() + left if left > 0 else None,
            reason=self._reason,
        )

    @property
    def pause_left(self) -> float:
        """Seconds until calls of this class may go out again; 0 when they may now."""
        return max(0.0, self._silent_until - self._monotonic())

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[Slot]:
        """Hold a place for one call, first come first served."""
        await self._enter(self._waiting.append)
        while self.pause_left > 0:  # it began in the moment between the place being given and being taken
            self._in_flight -= 1
            await self._enter(self._waiting.appendleft)
        try:
            yield Slot(self, self._round)
        finally:
            self._leave()

    async def _enter(self, queue: Callable[[asyncio.Future[None]], None]) -> None:
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue(place)
        self._admit()
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():
                self._leave()  # the place was given at the moment of the cancellation
            elif place in self._waiting:
                self._waiting.remove(place)
            raise

    def pause(self, seconds: float, reason: str) -> None:
        """Let no call of this class start for so long (capped); a pause never shortens one that is on."""
        seconds = min(seconds if seconds > 0 else self._default_pause, self._pause_cap)
        until = self._monotonic() + seconds
        if until > self._silent_until:
            self._silent_until = until
            self._reason = reason
            self._arm()
            self._changed()

    def close(self) -> None:
        """Stop the timer of a pause. Who waits is cancelled by its own task."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _leave(self) -> None:
        self._in_flight -= 1
        self._admit()

    def _admit(self) -> None:
        """Give free places to those who wait, in order, unless the class must be silent."""
        if self.pause_left > 0:
            self._arm()
            return
        while self._waiting and self._in_flight < int(self._limit):
            place = self._waiting.popleft()
            if not place.done():
                self._in_flight += 1
                place.set_result(None)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        call_later = self._call_later or asyncio.get_running_loop().call_later
        self._timer = call_later(self.pause_left, self._pause_over)

    def _pause_over(self) -> None:
        self._timer = None
        if self.pause_left > 0:  # timers may fire a tick early
            self._arm()
            return
        self._reason = ""
        self._changed()
        self._admit()

    def _grow(self) -> None:
        # Only a limit that is really used says anything about the next one.
        if self._in_flight >= int(self._limit) < self._maximum:
            before = int(self._limit)
            self._limit = min(float(self._maximum), self._limit + 1.0 / int(self._limit))
            if int(self._limit) != before:
                self._changed()

    def _shrink(self, round_: int) -> None:
        if round_ != self._round:
            return  # this call started before the last cut: its failure tells nothing new
        self._round += 1
        self._limit = max(1.0, self._limit / 2)
        self._reason = "529"
        self._changed()

    def _changed(self) -> None:
        if self._on_change is not None:
            self._on_change(self.figures)


class Limiters:
    """The limiters of all model classes in use, made when first asked for."""

    def __init__(self, make: Callable[[str], Limiter] = Limiter) -> None:
        self._make = make
        self._by_class: dict[str, Limiter] = {}

    def of(self, model: str) -> Limiter:
        """Give the limiter that a model shares with its class."""
        name = model_class(model)
        if name not in self._by_class:
            self._by_class[name] = self._make(name)
        return self._by_class[name]

    @property
    def figures(self) -> tuple[LimiterFigures, ...]:
        """The state of every class, by name."""
        return tuple(self._by_class[name].figures for name in sorted(self._by_class))

    def close(self) -> None:
        """Stop all timers."""
        for limiter in self._by_class.values():
            limiter.close()
