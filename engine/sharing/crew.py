"""Who takes part in the work on a board: each tells of itself once a second, and leaves when its lease lapses."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from engine.errors import LockLostError, PreflightError
from engine.figures import PeerFigures
from engine.locks import DistributedLock, LockStore
from engine.locks.names import lock_name

JOIN_WITHIN = 30.0  # seconds to wait for others that join or end the session
TELL_EVERY = 1.0  # seconds between two signs of life with our figures
PEERS_KEPT = 100  # orchestrators whose figures are shown, the newest


class Terms(msgspec.Struct, frozen=True):
    """What those that take part should agree on, each setting by its name, as text.

    Nobody joins who differs in one of `binding`; of the others it is told.
    """

    binding: dict[str, str] = {}
    others: dict[str, str] = {}


class _Member(msgspec.Struct, frozen=True):
    """What each that takes part tells of itself."""

    session: str
    figures: PeerFigures
    terms: Terms = Terms()


class Crew:
    """One that takes part, as made by `join`, and what it knows of the others.

    `differences` say in words in which settings the one that has been there longest differs from this one.
    `last_words` gives the final figures of one that is gone: what it told itself may be a second older.
    """

    def __init__(self, store: LockStore, board: str, lock: DistributedLock, told: _Member) -> None:
        self.board = board
        self.session = told.session
        self.differences: tuple[str, ...] = ()
        self.last_words: Callable[[PeerFigures], Awaitable[PeerFigures]] = _as_told
        self._store = store
        self._lock = lock
        self._terms = told.terms
        self._peers = {told.figures.run: told.figures}
        self._gone: set[str] = set()

    @classmethod
    async def join(
        cls, store: LockStore, board: str, figures: PeerFigures, terms: Terms, *, lease: float
    ) -> Crew:
        """Take part in the session of those who work on the board now, or begin one.

        `board` names the board alike on all hosts. Raises LockStoreAwayError, and PreflightError for terms that differ.
        """
        await store.look([])  # Whoever is away at the start is told of at once.
        lock = DistributedLock(store, lock_name("member", board, uuid.uuid4().hex[:12]), lease=lease)
        try:
            async with DistributedLock(store, lock_name("session", board), lease=lease, wait=JOIN_WITHIN):
                there = sorted(await _present(store, board), key=lambda member: member.figures.started)
                _refuse([member for member in there if member.figures.run != figures.run], terms)
                session = there[0].session if there else uuid.uuid4().hex
                await lock.acquire()
                told = _Member(session, figures, terms)
                await lock.write(msgspec.json.encode(told))
        except BaseException:
            await lock.release()
            raise
        crew = cls(store, board, lock, told)
        if there:
            crew.differences = tuple(_differences(there[0], terms.others, there[0].terms.others))
            present = {member.figures.run for member in there}
            # Also of those that left or died before: what they have spent is part of the bill.
            for member in await _all_of(store, board, session):
                peer = member.figures
                crew._peers.setdefault(peer.run, replace(peer, present=peer.run in present))
        return crew

    @property
    def peers(self) -> tuple[PeerFigures, ...]:
        """All that have taken part, this process included, as they told of themselves last; the oldest first."""
        return tuple(sorted(self._peers.values(), key=lambda peer: (peer.started, peer.run)))[-PEERS_KEPT:]

    def recall(self, gone: Iterable[PeerFigures]) -> None:
        """Count these in, too: they are gone, and nobody has gone on with what they had begun."""
        for peer in gone:
            self._peers.setdefault(peer.run, replace(peer, present=False))

    async def forgotten(self) -> bool:
        """Whether the store knows nothing of us, and so of nobody."""
        return (await self._store.look([self._lock.name]))[self._lock.name].record is None

    async def tell(self, figures: PeerFigures) -> None:
        """Tell the others of this process, and look who there is."""
        if not self._lock.held:  # The store was away for long, or has forgotten everybody.
            await self._lock.release()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TELL_EVERY):
                    await self._lock.acquire()
            if not self._lock.held:
                return  # Next time.
        await self._write(figures)
        there = {member.figures.run: member.figures for member in await _present(self._store, self.board)}
        gone = {run: peer for run, peer in self._peers.items() if run not in there}
        for run, peer in gone.items():
            if run not in self._gone:
                gone[run] = replace(await self.last_words(peer), present=False)
        self._gone = set(gone)
        self._peers = there | gone

    async def leave(self, figures: PeerFigures) -> None:
        """Tell the others how it stands at the end, and take part no more."""
        await self._write(figures)
        await self._lock.release()

    async def _write(self, figures: PeerFigures) -> None:
        with contextlib.suppress(LockLostError):
            await self._lock.write(msgspec.json.encode(_Member(self.session, figures, self._terms)))


async def _as_told(peer: PeerFigures) -> PeerFigures:
    return peer


def _refuse(there: list[_Member], terms: Terms) -> None:
    for member in there:
        for difference in _differences(member, terms.binding, member.terms.binding):
            raise PreflightError(
                f"another orchestrator is at work on this board with other settings: {difference}",
                "agree on that, or set another [locks] name so that the two share nothing; one that has died "
                "counts until its lease has lapsed",
            )


def _differences(member: _Member, ours: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    where = f"{member.figures.host}, process {member.figures.pid}"
    return [
        f"{name} is {value} here, and {theirs[name]} with {where}"
        for name, value in ours.items()
        if theirs.get(name, value) != value
    ]


async def _present(store: LockStore, board: str) -> tuple[_Member, ...]:
    """Those that take part now."""
    holders = await store.holders(lock_name("member", board, ""))
    told = await store.look([holder.name for holder in holders])
    return tuple(
        msgspec.json.decode(sight.record.value, type=_Member)
        for sight in told.values()
        if sight.record is not None
    )


async def _all_of(store: LockStore, board: str, session: str) -> tuple[_Member, ...]:
    """Those that take part in the session or have done so, as they told of themselves last; the oldest first."""
    records = await store.records(lock_name("member", board, ""))
    members = (msgspec.json.decode(record.value, type=_Member) for record in records.values())
    return tuple(
        sorted(
            (member for member in members if member.session == session),
            key=lambda member: member.figures.seen_at,
        )
    )
