"""Tasks of one board shared among several orchestrators: each is claimed by lease, and its outcome told to all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Literal

import msgspec

from engine.errors import LockBusyError
from engine.locks import DistributedLock, Holder, LockStore, Sight
from engine.locks.names import lock_name

State = Literal["open", "committed", "landed", "failed", "cancelled"]
_FINAL: frozenset[State] = frozenset({"landed", "failed", "cancelled"})


class Outcome(msgspec.Struct, frozen=True):
    """What became of a task, in the words of `by` (host and process).

    `committed` is work that whoever takes the task over can go on from: `work` holds it, for the row with the digest
    `row`. A final outcome counts in its own `session` only.
    """

    state: State
    commit: str = ""
    reason: str = ""
    by: str = ""
    session: str = ""
    row: str = ""
    work: bytes = b""

    @property
    def final(self) -> bool:
        """Whether nobody needs to work on the task any more."""
        return self.state in _FINAL


class Standing(msgspec.Struct, frozen=True):
    """How a task stands among the orchestrators: who works on it, and what was told of it last."""

    holder: Holder | None = None
    outcome: Outcome | None = None


class Claim:
    """A task that is this process's to work on, until `release` or the loss of its lease.

    `before` is what was told of the task before, or None.
    """

    def __init__(self, task: str, lock: DistributedLock, before: Outcome | None, session: str) -> None:
        self.task = task
        self.before = before
        self._lock = lock
        self._session = session
        # What an earlier claimant has made stays told until there is something newer.
        self._told = before if before is not None and not before.final else Outcome("open")

    @property
    def token(self) -> int:
        """The fencing token: greater than those of all earlier claims of this task."""
        return self._lock.token

    @property
    def held(self) -> bool:
        """Whether the lease still lasts, as far as this process knows."""
        return self._lock.held

    async def tell(self, outcome: Outcome) -> None:
        """Tell all what became of the task. Raises `LockLostError`, and writes nothing, when another has claimed it."""
        party = self._lock.party
        told = msgspec.structs.replace(outcome, by=f"{party.host}:{party.pid}", session=self._session)
        await self._lock.write(msgspec.json.encode(told))
        self._told = told

    async def confirm(self) -> None:
        """Ask whether the claim still stands, where that is known. Raises `LockLostError` when another has it."""
        await self.tell(self._told)

    async def release(self) -> None:
        """Give the task back. With a final outcome nobody takes it again."""
        await self._lock.release()


class Claims:
    """The tasks of one board: `claim = await Claims(store, board).claim("T1")`.

    `board` names the board alike on all hosts (such as the remote's address and the board's path). `lease` is how
    long, in seconds, the tasks of a dead process stay with it. Final outcomes stand within one `session`: another may
    try the same tasks anew.
    All methods raise `LockStoreAwayError` while the store is away: claim nothing then, and try again.
    """

    def __init__(self, store: LockStore, board: str, *, session: str = "", lease: float = 30.0) -> None:
        self._store = store
        self._prefix = lock_name("claim", board, "")
        self._session = session
        self._lease = lease

    async def claim(
        self, task: str, *, again: bool = False, on_lost: Callable[[], None] | None = None
    ) -> Claim | None:
        """Claim the task now. None: another has it, or its outcome is final and not to be tried `again`.

        Waits for nobody. `on_lost` is called when the claim could not be kept.
        """
        lock = DistributedLock(
            self._store,
            self._name(task),
            lease=self._lease,
            wait=0,
            on_lost=None if on_lost is None else lambda _: on_lost(),
        )
        try:
            await lock.acquire()
        except LockBusyError:
            return None
        try:
            # Read under the lock: an outcome told before it was given back is seen.
            record = await self._store.read(self._name(task))
            before = None if record is None else msgspec.json.decode(record.value, type=Outcome)
            claim = Claim(task, lock, before, self._session)
            if self._stands(before) and not (again and before is not None and before.state != "landed"):
                await lock.release()
                return None
            if again or self._is_old(before):
                await claim.tell(Outcome("open"))
        except BaseException:
            await lock.release()
            raise
        return claim

    def _stands(self, outcome: Outcome | None) -> bool:
        return outcome is not None and outcome.final and outcome.session == self._session

    def _is_old(self, outcome: Outcome | None) -> bool:
        return outcome is not None and outcome.final and outcome.session != self._session

    async def standings(self, tasks: Collection[str]) -> Mapping[str, Standing]:
        """How each of the tasks stands now, in one question. Final outcomes of other sessions are left out."""
        seen = await self._store.look([self._name(task) for task in tasks])
        return {task: self._standing(seen[self._name(task)]) for task in tasks}

    def _standing(self, sight: Sight) -> Standing:
        if sight.record is None:
            return Standing(sight.holder)
        outcome = msgspec.json.decode(sight.record.value, type=Outcome)
        return Standing(sight.holder, None if self._is_old(outcome) else outcome)

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
