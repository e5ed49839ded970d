"""The right to run one of a kind, where only so many may run over all orchestrators."""

from __future__ import annotations

import asyncio
import contextlib

from engine.errors import LockBusyError, LockStoreAwayError
from engine.locks import DistributedLock, LockStore
from engine.locks.names import lock_name

ASK_AGAIN = 0.5  # seconds between two tries while all are others'


class Permits:
    """As many locks as may run at once: `limit` for what `name` tells, on this board."""

    def __init__(self, store: LockStore, board: str, name: str, limit: int, *, lease: float) -> None:
        self._store = store
        self._names = [lock_name("limit", board, str(number), name) for number in range(1, limit + 1)]
        self._lease = lease

    async def take(self) -> DistributedLock:
        """Wait for one; give it back with `release`."""
        while True:
            for name in self._names:
                lock = DistributedLock(self._store, name, lease=self._lease, wait=0)
                with contextlib.suppress(LockBusyError, LockStoreAwayError):
                    await lock.acquire()
                    return lock
            await asyncio.sleep(ASK_AGAIN)
