"""A board that several orchestrators work off together, as one of them sees it.

    share = await Share.join(store, board, me, lease=30.0)
    claim = await share.claim("T1")              # None: another has it, or it is done
    outcome = await share.settled("T1")          # wait for the other; None: the task is free again
    async with share.gate.hold(): ...            # land, one at a time

Everybody claims tasks by lease and tells what became of them; what was told counts in a session, which lasts as long as
somebody takes part. While the store of the locks is away nothing is claimed and nothing lands: the run waits.
Everything happens on one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec

from engine.claims import Claim, Claims, Outcome, Standing
from engine.errors import LockBusyError, LockLostError, LockStoreAwayError
from engine.figures import PeerFigures
from engine.git.cargo import Cargo
from engine.locks import DistributedLock, LockStore
from engine.locks.lock import RENEWED_AFTER
from engine.locks.names import lock_name

T = TypeVar("T")

LOOK_EVERY = 0.25  # seconds between two looks at what the others did
TASKS_A_LOOK = 1000
"""Tasks asked for in `LOOK_EVERY` seconds; with more the looks come less often."""
TELL_EVERY = 1.0  # seconds between two signs of life with our figures
ASK_AGAIN = 0.5  # seconds between two tries while the store is away, or a permit is another's
JOIN_WITHIN = 30.0  # seconds to wait for others that join or end the session
PEERS_KEPT = 100  # orchestrators whose figures are shown, the newest
LEAVE_WITHIN = 2.0  # seconds to give back what is claimed


class _Member(msgspec.Struct, frozen=True):
    """What each that takes part tells of itself."""

    session: str
    figures: PeerFigures


class SharingEvents:
    """What a share tells its run. Every callback may be replaced; none may raise."""

    def __init__(self) -> None:
        self.elsewhere: Callable[[str, str, int], None] = lambda task, host, pid: None
        """The task is worked on by that process of that host."""
        self.reopened: Callable[[str], None] = lambda task: None
        """A task that had ended without landing is tried again by another."""
        self.away: Callable[[str], None] = lambda problem: None
        """The store went away (in words), or came back (empty)."""


class Share:
    """See the module's text. `figures` gives what this process tells the others of itself, once a second."""

    def __init__(
        self,
        store: LockStore,
        board: str,
        session: str,
        member: DistributedLock,
        figures: Callable[[int], PeerFigures],
        *,
        lease: float,
    ) -> None:
        self.session = session
        self.events = SharingEvents()
        self.gate = SharedGate(store, board, self._confirm, lease=lease)
        self._store = store
        self._board = board
        self._member = member
        self._figures = figures
        self._lease = lease
        self._claims = Claims(store, board, session=session, lease=lease)
        self._mine: dict[str, Claim] = {}
        self._waiting: dict[str, asyncio.Future[Outcome | None]] = {}
        self._told: dict[str, tuple[str, int]] = {}
        self._ended: dict[str, Outcome] = {}
        self._again: set[str] = set()
        self._peers: tuple[PeerFigures, ...] = ()
        self._away = ""
        self._away_since = 0.0
        self._quiet_until = 0.0

    @classmethod
    async def join(
        cls, store: LockStore, board: str, figures: Callable[[int], PeerFigures], *, lease: float
    ) -> Share:
        """Take part in the session of those who work on the board now, or begin one.

        `board` names the board alike on all hosts. Raises LockStoreAwayError.
        """
        await store.look([])  # Whoever is away at the start is told of at once.
        async with DistributedLock(store, lock_name("session", board), lease=lease, wait=JOIN_WITHIN):
            there = await _members_of(store, board)
            session = there[0].session if there else uuid.uuid4().hex
            member = DistributedLock(store, lock_name("member", board, uuid.uuid4().hex[:12]), lease=lease)
            await member.acquire()
            await member.write(msgspec.json.encode(_Member(session, figures(0))))
        return cls(store, board, session, member, figures, lease=lease)

    # Tasks

    async def claim(self, task: str, on_lost: Callable[[], None]) -> Claim | None:
        """Claim the task now, waiting only for a store that is away; None: it is another's, or done."""
        while True:
            await self._patiently(self._remembered)
            quiet = self._quiet_until - time.monotonic()
            if quiet <= 0:
                break
            await asyncio.sleep(quiet)
        claim = await self._patiently(
            lambda: self._claims.claim(task, again=task in self._again, on_lost=on_lost)
        )
        if claim is not None:
            self._again.discard(task)
            self._ended.pop(task, None)
            self._told.pop(task, None)
            self._mine[task] = claim
        return claim

    async def settled(self, task: str) -> Outcome | None:
        """Wait while another works on the task; gives how it ended, or None when it is free again."""
        future: asyncio.Future[Outcome | None] = asyncio.get_running_loop().create_future()
        self._waiting[task] = future
        try:
            return await future
        finally:
            self._waiting.pop(task, None)

    async def tell(self, claim: Claim, outcome: Outcome) -> None:
        """Tell the others, waiting only for a store that is away. Raises LockLostError when it is another's by now."""
        await self._patiently(lambda: claim.tell(outcome))
        if outcome.final and outcome.state != "landed":
            self._ended[claim.task] = outcome

    async def confirm(self, task: str) -> None:
        """Ask whether the task is this process's still. Raises LockLostError when it is not, or was not claimed."""
        claim = self._mine.get(task)
        if claim is None:
            raise LockLostError(f"{task} is not claimed here", "another orchestrator works on it")
        await self._patiently(claim.confirm)

    async def release(self, claim: Claim) -> None:
        """Give the task back."""
        if self._mine.get(claim.task) is claim:
            del self._mine[claim.task]
        await claim.release()

    def reopen(self, tasks: Collection[str]) -> None:
        """Let tasks that ended without landing be claimed again."""
        self._again.update(tasks)

    async def _confirm(self, task: str) -> bool:
        try:
            claim = self._mine.get(task)
            if claim is not None:
                await claim.confirm()
        except LockLostError:
            return False
        return claim is not None

    def permits(self, name: str, limit: int) -> Permits:
        """The permits for what only `limit` may do at once, over all orchestrators."""
        return Permits(self._store, self._board, name, limit, lease=self._lease)

    # The others

    @property
    def peers(self) -> tuple[PeerFigures, ...]:
        """All that have taken part, this process included, as they told of themselves last; the oldest first."""
        return self._peers

    async def follow(self) -> None:
        """Look after the tasks of others, and tell them of this process, until cancelled."""
        next_tell = 0.0
        while True:
            interesting = tuple({*self._waiting, *self._ended})
            await asyncio.sleep(LOOK_EVERY * max(1.0, len(interesting) / TASKS_A_LOOK))
            try:
                standings = await self._claims.standings(interesting)
                self._answers(None)
                for task, standing in standings.items():
                    self._heed(task, standing)
                if time.monotonic() >= next_tell:
                    next_tell = time.monotonic() + TELL_EVERY
                    await self._tell_of_us()
            except LockStoreAwayError as error:
                self._answers(error)

    def _heed(self, task: str, standing: Standing) -> None:
        future, outcome, holder = self._waiting.get(task), standing.outcome, standing.holder
        if outcome is not None and outcome.final:
            if outcome.state != "landed":
                self._ended[task] = outcome
            else:
                self._ended.pop(task, None)
            self._settle(future, outcome)
        elif task in self._ended and task not in self._mine:
            if holder is not None:
                del self._ended[task]
                self.events.reopened(task)
        elif holder is None:
            if time.monotonic() >= self._quiet_until:
                self._settle(future, None)
        elif future is not None and self._told.get(task) != (holder.party.host, holder.party.pid):
            self._told[task] = (holder.party.host, holder.party.pid)
            self.events.elsewhere(task, holder.party.host, holder.party.pid)

    def _settle(self, future: asyncio.Future[Outcome | None] | None, outcome: Outcome | None) -> None:
        if future is not None and not future.done():
            future.set_result(outcome)

    async def _remembered(self) -> None:
        """Look whether the store has forgotten us, and so all the others."""
        name = self._member.name
        if (await self._store.look([name]))[name].record is None:
            self._let_others_renew()

    def _let_others_renew(self) -> None:
        """Claim nothing until all have renewed what they hold: it would be done twice."""
        self._quiet_until = time.monotonic() + self._lease * RENEWED_AFTER + ASK_AGAIN

    async def _tell_of_us(self) -> None:
        await self._remembered()
        if not self._member.held:  # The store was away for long, or has forgotten everybody.
            await self._member.release()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TELL_EVERY):
                    await self._member.acquire()
            if not self._member.held:
                return  # Next time.
        with contextlib.suppress(LockLostError):
            await self._member.write(
                msgspec.json.encode(_Member(self.session, self._figures(len(self._mine))))
            )
        found = [member.figures for member in await _members_of(self._store, self._board)]
        gone = {peer.run: msgspec.structs.replace(peer, present=False) for peer in self._peers}
        known = (gone | {peer.run: peer for peer in found}).values()
        self._peers = tuple(sorted(known, key=lambda peer: (peer.started, peer.run)))[-PEERS_KEPT:]

    # The store

    def _answers(self, error: LockStoreAwayError | None) -> None:
        """Tell once that the store went away, and once that it is back."""
        problem = "" if error is None else error.message
        if bool(problem) != bool(self._away):
            self.events.away(problem)
            now, away_since = time.monotonic(), self._away_since
            self._away_since = now
            if not problem and now - away_since > self._lease * RENEWED_AFTER:
                self._let_others_renew()  # Leases may have lapsed meanwhile, although nobody was gone.
        self._away = problem

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until the store answers; nothing is done without it."""
        while True:
            try:
                answer = await ask()
            except LockStoreAwayError as error:
                self._answers(error)
                await asyncio.sleep(ASK_AGAIN)
            else:
                self._answers(None)
                return answer

    async def close(self) -> None:
        """Leave: what is claimed still is given back at once, so that others need not wait for the lease."""
        self.gate.close()
        claims = tuple(self._mine.values())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_WITHIN):  # Where nobody answers, the leases will lapse.
                await asyncio.gather(*(claim.release() for claim in claims), self._member.release())
        await self._store.close()


class SharedGate:
    """The gate among trains of several orchestrators: a lock by lease, and a token that is asked for at each push."""

    def __init__(
        self,
        store: LockStore,
        board: str,
        confirm: Callable[[str], Awaitable[bool]],
        *,
        lease: float,
    ) -> None:
        self._store = store
        self._name = lock_name("landing", board)
        self._confirm = confirm
        self._lease = lease
        self._lock: DistributedLock | None = None
        self._closed = asyncio.Event()
        self.refused: Callable[[str], None] = lambda text: None
        """Told, in words, what was not written because it came too late."""

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
            self.refused(f"the landing of {_names(cargo)} came too late, and was not pushed")
            raise
        ours = [member for member in cargo if await self._confirm(member.task_id)]
        late = [member for member in cargo if member not in ours]
        if late:
            self.refused(f"{_names(late)} is another orchestrator's by now, and was not pushed from here")
        return {member.task_id for member in ours}

    def close(self) -> None:
        """Let nobody wait for the lock any more."""
        self._closed.set()


class Permits:
    """The right to run one of a kind, where only so many may run over all orchestrators: `limit` locks for `name`."""

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


def _names(cargo: Sequence[Cargo]) -> str:
    return ", ".join(member.task_id for member in cargo)


async def _members_of(store: LockStore, board: str) -> tuple[_Member, ...]:
    """Those that take part now."""
    holders = await store.holders(lock_name("member", board, ""))
    told = await store.look([holder.name for holder in holders])
    return tuple(
        msgspec.json.decode(sight.record.value, type=_Member)
        for sight in told.values()
        if sight.record is not None
    )
