"""What the lock stores hold, and what every store of locks can do."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

WAITER_SILENCE = 2.0
"""Seconds after which a waiter that no longer asks loses its place in the queue."""


@dataclass(frozen=True, slots=True)
class Party:
    """Who takes a lock. `id` is unique to one holding; host and pid are for people."""

    id: str
    host: str
    pid: int

    @classmethod
    def new(cls) -> Party:
        """This process, with an id of its own."""
        host, pid = socket.gethostname(), os.getpid()
        return cls(f"{host}:{pid}:{uuid.uuid4().hex}", host, pid)


@dataclass(frozen=True, slots=True)
class Holder:
    """A lock that is held. `since` is the store's clock, `age` and `left` (of the lease) are seconds."""

    name: str
    party: Party
    token: int
    since: float
    age: float
    left: float


@dataclass(frozen=True, slots=True)
class Record:
    """A guarded value, and the token it was written with."""

    token: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Sight:
    """What is to be seen of one lock: who holds it now, and the value it guards."""

    holder: Holder | None = None
    record: Record | None = None


class LockStore(Protocol):
    """One place that all contenders see. Every operation is atomic there.

    All raise `LockStoreAwayError` when the store cannot be reached.
    """

    async def take(self, name: str, party: Party, lease: float, *, queue: bool = True) -> int | None:
        """Take the lock for `lease` seconds and give its token, greater than all before; None while it is held.

        With `queue` the party keeps its place among the waiting by asking again within `WAITER_SILENCE`.
        """

    async def renew(self, name: str, party: Party, lease: float, token: int) -> bool:
        """Let the lease last `lease` seconds from now. False: another has taken the lock since, or it was given back.

        One that has lapsed, or was forgotten by a store that lost its data, is kept as long as no token after the
        holder's `token` was given out.
        """

    async def release(self, name: str, party: Party) -> bool:
        """Give the lock back, or the place in its queue. False when it was not held (any more).

        Its token counts no more.
        """

    async def write_if(self, name: str, token: int, value: bytes) -> bool:
        """Write the value that the lock `name` guards, unless a later token was given out. False: refused."""

    async def read(self, name: str) -> Record | None:
        """Give the value that the lock guards."""

    async def records(self, prefix: str) -> dict[str, Record]:
        """Give all guarded values whose lock's name begins so."""

    async def holders(self, prefix: str = "") -> tuple[Holder, ...]:
        """Give the locks that are held now, by name."""

    async def look(self, names: Collection[str]) -> Mapping[str, Sight]:
        """Give holder and guarded value of each of these locks, by one question."""

    async def close(self) -> None:
        """Let go of the connection. What is held stays so until its lease lapses."""
