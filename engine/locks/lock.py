"""A lock with a lease that is renewed in the background, and a token that refuses whoever comes too late."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from engine.errors import LockBusyError, LockLostError, LockStoreAwayError
from engine.locks.records import LockStore, Party

POLL = 0.03  # seconds between two tries
RENEWED_AFTER = 1 / 3  # of the lease
LAST_ASKED = 1 / 10  # of the lease, for which a holder past its lease waits for the answer


class DistributedLock:
    """`async with DistributedLock(store, "landing:main", lease=30.0) as lock:` do the work, `await lock.write(…)`.

    Waiting is first come, first served, for `wait` seconds at most (None: without end; 0: not at all), also while the
    store is away. `on_lost` is called once, from the event loop, when another has taken the lock: stop the work then. A
    lease that lapses while the store is away is not lost yet: it goes on if nobody has taken the lock until then.
    What must never be written by a late holder goes through `write`, or is compared with `token` where it is kept.
    One object is one holding; it can be taken again after its release.
    """

    def __init__(
        self,
        store: LockStore,
        name: str,
        *,
        lease: float = 30.0,
        wait: float | None = 60.0,
        on_lost: Callable[[DistributedLock], None] | None = None,
        poll: float = POLL,
    ) -> None:
        self.name = name
        self._store = store
        self._lease = lease
        self._wait = wait
        self._on_lost = on_lost
        self._poll = poll
        self._party = Party.new()
        self._token: int | None = None
        self._until = 0.0
        self._renewal: asyncio.Task[None] | None = None

    @property
    def token(self) -> int:
        """The fencing token, greater than those of all earlier holders. Raises `LockLostError` when never taken."""
        if self._token is None:
            raise LockLostError(f"the lock {self.name} is not held", "take it first")
        return self._token

    @property
    def party(self) -> Party:
        """Who takes the lock: this process, and this holding."""
        return self._party

    @property
    def held(self) -> bool:
        """Whether the lease still lasts, as far as this process knows."""
        return self._token is not None and time.monotonic() < self._until

    def check(self) -> None:
        """Raise `LockLostError` unless the lease still lasts. Cheap: asks nobody."""
        if not self.held:
            raise self._lost()

    async def acquire(self) -> int:
        """Take the lock and give its token. Raises `LockBusyError` or `LockStoreAwayError` when the wait is over."""
        if self._renewal is not None:
            raise LockBusyError(f"the lock {self.name} is already held here", "release it first")
        end = None if self._wait is None else time.monotonic() + self._wait
        try:
            while True:
                away: LockStoreAwayError | None = None
                asked = time.monotonic()
                try:
                    token = await self._store.take(self.name, self._party, self._lease, queue=self._wait != 0)
                except LockStoreAwayError as error:
                    token, away = None, error
                if token is not None:
                    break
                if end is not None and time.monotonic() >= end:
                    raise away or LockBusyError(
                        f"the lock {self.name} stayed with others for {self._wait:g} s",
                        "taskyard locks tells who holds it",
                    )
                await asyncio.sleep(self._poll)
        except BaseException:
            # Whoever goes away must not stand in the queue, nor hold what was granted while it was being cancelled.
            with suppress(LockStoreAwayError):
                await asyncio.shield(self._store.release(self.name, self._party))
            raise
        # Counted from before the request: the store's lease ends no earlier than ours.
        self._token, self._until = token, asked + self._lease
        self._renewal = asyncio.create_task(self._keep_up(), name=f"renew {self.name}")
        return token

    async def release(self) -> None:
        """Give the lock back. When it was lost, or the store is away, there is nothing left to give."""
        renewal, self._renewal = self._renewal, None
        if renewal is None:
            return
        renewal.cancel()
        try:
            await asyncio.wait({renewal})
        finally:  # also for who is cancelled meanwhile: else it stays for a whole lease
            self._until = 0.0
            with suppress(LockStoreAwayError):
                await asyncio.shield(self._store.release(self.name, self._party))

    async def write(self, value: bytes) -> None:
        """Write the value this lock guards. Raises `LockLostError` when a later holder has taken the lock."""
        if await self._store.write_if(self.name, self.token, value):
            return
        # A store that has forgotten everything refuses, too, until it knows again whose the lock is.
        known = self._kept_up and await self._renew()
        if not (known and await self._store.write_if(self.name, self.token, value)):
            raise self._lost()

    async def __aenter__(self) -> DistributedLock:
        await self.acquire()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.release()

    @property
    def _kept_up(self) -> bool:
        """Whether the lock was neither given back nor lost."""
        return self._renewal is not None and not self._renewal.done()

    async def _renew(self) -> bool:
        """Let the lease last from now; False when another has taken the lock since it was ours."""
        asked = time.monotonic()
        kept = await self._store.renew(self.name, self._party, self._lease, self.token)
        if kept:
            self._until = asked + self._lease
        return kept

    async def _keep_up(self) -> None:
        """Renew until another has the lock.

        Whoever was asleep or cut off past the lease asks again: when nobody has taken the lock, nothing is lost.
        """
        while True:
            left, pause = self._until - time.monotonic(), self._lease * RENEWED_AFTER
            await asyncio.sleep(min(left, pause) if left > 0 else pause)
            try:
                async with asyncio.timeout(max(self._lease * LAST_ASKED, self._until - time.monotonic())):
                    kept = await self._renew()
            except (LockStoreAwayError, TimeoutError):
                continue
            if not kept:
                break
        self._until = 0.0
        if self._on_lost is not None:
            self._on_lost(self)

    def _lost(self) -> LockLostError:
        return LockLostError(
            f"the lock {self.name} (token {self._token}) was lost: its lease lapsed or another took it",
            "nothing was written; the work is taken up by whoever holds the lock now",
        )
