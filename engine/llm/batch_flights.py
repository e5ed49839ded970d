"""One batch on its way: created exactly once, polled with growing waits, its results handed over one by one.

A creation that got no answer leaves open whether the batch exists. The service lists batches by age and size only, so
the batch that fits is followed, and its results say whether it was ours: their custom ids are our requests' digests.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

import msgspec

from engine.errors import LLMError, RateLimitedError
from engine.llm.batch_calls import BatchCalls, BatchState, ItemFailure, ItemResult
from engine.llm.messages import ModelRequest
from engine.llm.retries import Retries, RetryPolicy
from engine.model import Role

_T = TypeVar("_T")
_WORRYING = 5  # polls that fail in a row before a person hears of it


@dataclass(frozen=True, slots=True)
class PollPolicy:
    """Waits in seconds. The service lists and finds a batch only a moment after it was created."""

    first: float = 2.0
    growth: float = 1.5
    longest: float = 60.0
    grace: float = 60.0
    listing: tuple[float, ...] = (0.0, 2.0, 4.0, 8.0)
    clock_skew: float = 120.0
    """How far the service's clock and ours may be apart."""


class Manifest(msgspec.Struct, frozen=True):
    """What a batch holds: the journal keeps it, so that a restart can find the batch again.

    `batch` is the service's id, or empty as long as the creation was not answered. `custom_ids` and `tasks` belong
    together by position. `created_at`: seconds since the epoch, when the creation began.
    """

    token: str
    role: Role
    model: str
    custom_ids: tuple[str, ...]
    tasks: tuple[str, ...]
    created_at: float
    batch: str = ""


class BatchHooks(Protocol):
    """Who hears of batches. What `creating` and `submitted` are told must be on disk when they return."""

    async def creating(self, manifest: Manifest) -> None:
        """A batch is about to be created."""

    async def submitted(self, manifest: Manifest) -> None:
        """The service gave the batch its id."""

    def polled(self, batch: str, state: BatchState, next_poll_at: float | None) -> None:
        """The service told how far a batch is; `next_poll_at` in seconds since the epoch."""

    def ended(self, batch: str, succeeded: int, errored: int) -> None:
        """All results of a batch were handed over, and its answers are kept elsewhere: nobody needs it again."""

    def notice(self, text: str) -> None:
        """Something a person should know."""


class Flights:
    """Creates and follows batches. `deliver(batch, custom_id, result)` is called for each result, ours or not."""

    def __init__(
        self,
        calls: BatchCalls,
        hooks: BatchHooks,
        deliver: Callable[[str, str, ItemResult], None],
        *,
        poll: PollPolicy,
        retry: RetryPolicy,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._calls = calls
        self._hooks = hooks
        self._deliver = deliver
        self._poll = poll
        self._retry = retry
        self._clock = clock
        self._monotonic = monotonic
        self._jitter = jitter
        self._claimed: set[str] = set()
        self._nudges: dict[str, asyncio.Event] = {}
        # One creation at a time: of the batches on the list, at most one is then of unknown origin.
        self._creating = asyncio.Lock()

    @property
    def in_motion(self) -> tuple[str, ...]:
        """The ids of the batches that are on their way."""
        return tuple(self._nudges)

    async def create(self, manifest: Manifest, requests: Mapping[str, ModelRequest]) -> Manifest:
        """Create the batch, once whatever happens on the way; gives the manifest with the batch's id.

        Raises the LLMError with which the service refused it, or the last one when the retries are used up.
        """
        retries = Retries(self._retry, monotonic=self._monotonic, jitter=self._jitter)
        told = False
        async with self._creating:
            await self._hooks.creating(manifest)
            while True:
                try:
                    state = await self._calls.create(requests)
                except LLMError as error:
                    if not surely_not_created(error):
                        found = await self._find_after(error, manifest)
                        if found is not None:
                            return await self._submitted(manifest, found)
                    wait = retries.wait_after(error, _asked(error))
                    if wait is None:
                        raise
                    if not told:
                        told = True
                        self._hooks.notice(f"a batch cannot be created and is tried again: {error}")
                    await asyncio.sleep(wait)
                else:
                    return await self._submitted(manifest, state)

    async def adopt(self, manifest: Manifest) -> Manifest | None:
        """Find the batch of a creation that an earlier process left unanswered; None when there is none."""
        async with self._creating:
            found = await self._find(manifest)
            return await self._submitted(manifest, found) if found is not None else None

    async def follow(self, manifest: Manifest) -> int | None:
        """Poll the batch to its end and deliver its results; gives how many succeeded, None if it is somebody else's.

        Each of the manifest's custom ids is delivered: with its result, or as missing. Raises the LLMError of a
        failure that asking again does not mend (a refused key).
        """
        batch = manifest.batch
        self._claimed.add(batch)
        nudge = self._nudges.setdefault(batch, asyncio.Event())
        seen: set[str] = set()
        succeeded = 0

        def take(custom_id: str, result: ItemResult) -> None:
            nonlocal succeeded
            if custom_id not in seen:  # reading goes on from the start after a broken connection
                seen.add(custom_id)
                succeeded += not isinstance(result, ItemFailure)
                self._deliver(batch, custom_id, result)

        try:
            if await self._until_ended(manifest, nudge):
                await self._persist(lambda: self._calls.results(batch, take), new=manifest)
        finally:
            del self._nudges[batch]
        if seen and seen.isdisjoint(manifest.custom_ids):
            return None
        for custom_id in manifest.custom_ids:
            if custom_id not in seen:
                self._deliver(
                    batch, custom_id, ItemFailure("missing", "the batch ended without a result for it")
                )
        return succeeded

    async def cancel(self, batch: str) -> None:
        """Ask the service to end a batch early, and look soon what became of it. What is answered already stays."""
        await self._calls.cancel(batch)
        if batch in self._nudges:
            self._nudges[batch].set()

    async def _until_ended(self, manifest: Manifest, nudge: asyncio.Event) -> bool:
        """Poll until the batch has ended; False when the service does not know it, and had time to."""
        batch, poll = manifest.batch, self._poll
        wait = poll.first
        failures = 0
        rest = 0.0 if self._age(manifest) > poll.first else poll.first
        if rest > 0:  # so that a new batch shows at once when it is asked for
            new = BatchState(batch, "in_progress", manifest.created_at, processing=len(manifest.custom_ids))
            self._hooks.polled(batch, new, self._clock() + rest)
        while True:
            if await _rest(nudge, rest):
                wait = poll.first
            try:
                state = await self._calls.retrieve(batch)
            except LLMError as error:
                if error.status == 404:
                    if self._age(manifest) > poll.grace:
                        return False
                elif not error.retryable:
                    raise
                failures += 1
                if failures == _WORRYING:
                    self._hooks.notice(f"batch {batch} cannot be asked for since {failures} polls: {error}")
                rest = max(wait, _asked(error))
            else:
                failures = 0
                rest = wait * (1.0 - self._jitter() / 10)
                self._hooks.polled(batch, state, None if state.ended else self._clock() + rest)
                if state.ended:
                    return True
            wait = min(poll.longest, wait * poll.growth)

    async def _find_after(self, error: LLMError, manifest: Manifest) -> BatchState | None:
        """Find the batch of a creation that ended in `error`; raises that when nobody can tell."""
        try:
            return await self._find(manifest)
        except LLMError:
            raise error from None

    async def _find(self, manifest: Manifest) -> BatchState | None:
        """Look on the service's list for the batch that an unanswered creation may have made."""
        since = manifest.created_at - self._poll.clock_skew
        settled = self._age(manifest) > self._poll.grace  # the list has had time to take it up
        for wait in (0.0,) if settled else self._poll.listing:
            await asyncio.sleep(wait)
            states = await self._persist(lambda: self._calls.since(since))
            fitting = [
                state
                for state in states
                if state.requests == len(manifest.custom_ids) and state.id not in self._claimed
            ]
            if fitting:
                return min(fitting, key=lambda state: abs(state.created_at - manifest.created_at))
        return None

    async def _submitted(self, manifest: Manifest, state: BatchState) -> Manifest:
        manifest = msgspec.structs.replace(manifest, batch=state.id)
        await self._hooks.submitted(manifest)
        self._claimed.add(state.id)  # only now: should the hook fail, the batch has to be found again
        self._nudges[state.id] = asyncio.Event()
        return manifest

    async def _persist(self, ask: Callable[[], Awaitable[_T]], *, new: Manifest | None = None) -> _T:
        """Ask until there is an answer; asking costs nothing, and a batch is too dear to be given up for a 500.

        `new`: the batch that is asked about, which the service may not know yet.
        """
        retries = Retries(self._retry, monotonic=self._monotonic, jitter=self._jitter)
        while True:
            try:
                return await ask()
            except LLMError as error:
                if error.status == 404 and new is not None and self._age(new) <= self._poll.grace:
                    error.retryable = True
                wait = retries.wait_after(error, _asked(error))
                if wait is None:
                    raise
                await asyncio.sleep(wait)

    def _age(self, manifest: Manifest) -> float:
        return self._clock() - manifest.created_at


def surely_not_created(error: LLMError) -> bool:
    """Whether the service said no. Silence, a broken connection and a 500 leave it open."""
    return 400 <= error.status < 500 or error.status in (501, 529)


def _asked(error: LLMError) -> float:
    """The seconds of silence the service asked for; batches have limits of their own, so no class pauses for them."""
    return min(120.0, error.retry_after) if isinstance(error, RateLimitedError) else 0.0


async def _rest(nudge: asyncio.Event, seconds: float) -> bool:
    """Wait so long, or until nudged; tells which."""
    try:
        # wait_for would swallow a cancellation that comes with the nudge.
        async with asyncio.timeout(seconds):
            await nudge.wait()
    except TimeoutError:
        return False
    nudge.clear()
    return True
