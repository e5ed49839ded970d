"""Who of several orchestrators may land on the target now, and whose cargo came too late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager

from engine.errors import LockLostError
from engine.git.cargo import Cargo
from engine.locks import DistributedLock, LockStore
from engine.locks.names import lock_name


class SharedGate:
    """The gate among their trains: a lock by lease, and a token that is asked for at each push.

    `confirm` says whether a task is ours still; `refused` is told, in words, what came too late and was not pushed.
    """

    def __init__(
        self,
        store: LockStore,
        board: str,
        *,
        confirm: Callable[[str], Awaitable[bool]],
        refused: Callable[[str], None],
        lease: float,
    ) -> None:
        self._store = store
        self._name = lock_name("landing", board)
        self._confirm = confirm
        self._refused = refused
        self._lease = lease
        self._lock: DistributedLock | None = None
        self._closed = asyncio.Event()

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Wait for the target's lock. Raises LockLostError when the run stops meanwhile."""
        lock = DistributedLock(self._store, self._name, lease=self._lease, wait=None)
        taking, closing = asyncio.ensure_future(lock.acquire()), asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait({taking, closing}, return_when=asyncio.FIRST_COMPLETED)
            if not taking.done():
                raise LockLostError("the run stops, and another orchestrator is landing", "run again")
            taking.result()
            self._lock = lock
            yield
        finally:
            closing.cancel()
            taking.cancel()
            await asyncio.wait({taking})
            self._lock = None
            await lock.release()

    async def admit(self, cargo: Sequence[Cargo]) -> Collection[str]:
        """Ask, by their tokens, whether the target and each task are ours still. Raises LockLostError."""
        if self._lock is None:
            raise LockLostError("the target is not held", "the train runs again")
        try:
            await self._lock.write(" ".join(member.task_id for member in cargo).encode())
        except LockLostError:
            self._refused(f"the landing of {_names(cargo)} came too late, and was not pushed")
            raise
        ours = [member for member in cargo if await self._confirm(member.task_id)]
        late = [member for member in cargo if member not in ours]
        if late:
            self._refused(f"{_names(late)} is another orchestrator's by now, and was not pushed from here")
        return {member.task_id for member in ours}

    def close(self) -> None:
        """Let nobody wait for the lock any more."""
        self._closed.set()


def _names(cargo: Sequence[Cargo]) -> str:
    return ", ".join(member.task_id for member in cargo)
