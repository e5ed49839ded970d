"""Tasks of one board shared among several orchestrators: each is claimed by lease, and its outcome told to all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal
from urllib.parse import quote

import msgspec

from engine.errors import LockBusyError
from engine.locks import DistributedLock, Holder, LockStore

State = Literal["committed", "landed", "failed"]


class Outcome(msgspec.Struct, frozen=True):
    """What became of a task. `committed` is work that whoever takes the task over can go on from."""

    state: State
    commit: str = ""
    reason: str = ""

    @property
    def final(self) -> bool:
        """Whether nobody needs to work on the task any more."""
        return self.state != "committed"


class Claim:
    """A task that is this process's to work on, until `release` or the loss of its lease.

    `before` is what an earlier claimant committed and did not land, or None.
    """

    def __init__(self, task: str, lock: DistributedLock, before: Outcome | None) -> None:
        self.task = task
        self.before = before
        self._lock = lock

    @property
    def token(self) -> int:
        """The fencing token: greater than those of all earlier claims of this task."""
        return self._lock.token

    def check(self) -> None:
        """Raise `LockLostError` when the lease lapsed. Asks nobody."""
        self._lock.check()

    async def tell(self, outcome: Outcome) -> None:
        """Tell all what became of the task. Raises `LockLostError`, and writes nothing, when another has claimed it."""
        await self._lock.write(msgspec.json.encode(outcome))

    async def release(self) -> None:
        """Give the task back. With a final outcome nobody takes it again."""
        await self._lock.release()


class Claims:
    """The tasks of one board: `claim = await Claims(store, board).claim("T1")`.

    `board` names the board alike on all hosts (such as the remote's address and the board's path). `lease` is how
    long, in seconds, the tasks of a dead process stay with it. `on_lost` is called with the task whose claim could not
    be kept. A final outcome stands until the store forgets it: what may be tried anew needs another name for the board.
    All methods raise `LockStoreAwayError` while the store is away: claim nothing then, and try again.
    """

    def __init__(
        self,
        store: LockStore,
        board: str,
        *,
        lease: float = 30.0,
        on_lost: Callable[[str], None] | None = None,
    ) -> None:
        self._store = store
        self._prefix = f"claim:{quote(board, safe='')}:"
        self._lease = lease
        self._on_lost = on_lost

    async def claim(self, task: str) -> Claim | None:
        """Claim the task now. None: another has it, or its outcome is final. Waits for nobody."""

        def lost(_: DistributedLock) -> None:
            if self._on_lost is not None:
                self._on_lost(task)

        lock = DistributedLock(self._store, self._name(task), lease=self._lease, wait=0, on_lost=lost)
        try:
            await lock.acquire()
        except LockBusyError:
            return None
        try:
            # Read under the lock: an outcome told before it was given back is seen.
            record = await self._store.read(self._name(task))
            before = msgspec.json.decode(record.value, type=Outcome) if record is not None else None
        except BaseException:
            await lock.release()
            raise
        if before is not None and before.final:
            await lock.release()
            return None
        return Claim(task, lock, before)

    async def outcomes(self) -> dict[str, Outcome]:
        """What became of the tasks so far, by task; from all processes."""
        records = await self._store.records(self._prefix)
        return {
            self._task(name): msgspec.json.decode(record.value, type=Outcome)
            for name, record in records.items()
        }

    async def workers(self) -> dict[str, Holder]:
        """Who works on which task now, by task."""
        return {self._task(holder.name): holder for holder in await self._store.holders(self._prefix)}

    def _name(self, task: str) -> str:
        return f"{self._prefix}{task}"

    def _task(self, name: str) -> str:
        return name.removeprefix(self._prefix)
