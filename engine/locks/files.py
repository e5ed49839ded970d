"""Locks among the processes of one host, in one small SQLite file."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import apsw

from engine.errors import LockStoreAwayError
from engine.locks.records import WAITER_SILENCE, Holder, Party, Record, Sight
from engine.wal import enter_wal

T = TypeVar("T")

BUSY_TIMEOUT = 5.0  # seconds
SCHEMA = """
CREATE TABLE IF NOT EXISTS held (
    name TEXT PRIMARY KEY, owner TEXT, host TEXT, pid INTEGER, token INTEGER, since REAL, expires REAL);
CREATE TABLE IF NOT EXISTS fence (name TEXT PRIMARY KEY, token INTEGER);
CREATE TABLE IF NOT EXISTS waiting (
    ticket INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, owner TEXT, expires REAL, UNIQUE (name, owner));
CREATE TABLE IF NOT EXISTS record (name TEXT PRIMARY KEY, token INTEGER, value BLOB);
"""


class FileLocks:
    """A `LockStore` for one host: `FileLocks(folder / "locks.db")`.

    `clock` must be the same for all processes, hence the wall clock. One that is set back while a lock is held makes
    the lease longer; one that is set forward ends it early, and then the token refuses the holder's writes.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        # One thread, so that a release goes behind the acquisition whose waiter was cancelled.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="locks")
        self._db: apsw.Connection | None = None

    async def take(self, name: str, party: Party, lease: float, *, queue: bool = True) -> int | None:
        def take(db: apsw.Connection, now: float) -> int | None:
            db.execute("DELETE FROM held WHERE name = ? AND expires <= ?", (name, now))
            db.execute("DELETE FROM waiting WHERE name = ? AND expires <= ?", (name, now))
            held = db.execute("SELECT 1 FROM held WHERE name = ?", (name,)).get
            first = db.execute(
                "SELECT owner FROM waiting WHERE name = ? ORDER BY ticket LIMIT 1", (name,)
            ).get
            if held is not None or first not in (None, party.id):
                if queue:
                    db.execute(
                        "INSERT INTO waiting (name, owner, expires) VALUES (?, ?, ?) "
                        "ON CONFLICT DO UPDATE SET expires = excluded.expires",
                        (name, party.id, now + WAITER_SILENCE),
                    )
                return None
            db.execute("DELETE FROM waiting WHERE name = ? AND owner = ?", (name, party.id))
            token: int = db.execute(
                "INSERT INTO fence VALUES (?, 1) ON CONFLICT DO UPDATE SET token = token + 1 RETURNING token",
                (name,),
            ).get
            db.execute(
                "INSERT INTO held VALUES (?, ?, ?, ?, ?, ?, ?)",
                (name, party.id, party.host, party.pid, token, now, now + lease),
            )
            return token

        return await self._do(take)

    async def renew(self, name: str, party: Party, lease: float, token: int) -> bool:
        def renew(db: apsw.Connection, now: float) -> bool:
            db.execute(
                # Whoever took it after it had lapsed has removed the row.
                "UPDATE held SET expires = ? WHERE name = ? AND owner = ?",
                (now + lease, name, party.id),
            )
            return db.changes() == 1

        return await self._do(renew)

    async def release(self, name: str, party: Party) -> bool:
        def release(db: apsw.Connection, now: float) -> bool:
            db.execute("DELETE FROM waiting WHERE name = ? AND owner = ?", (name, party.id))
            until = db.execute("SELECT expires FROM held WHERE name = ? AND owner = ?", (name, party.id)).get
            if until is None:
                return False
            db.execute("DELETE FROM held WHERE name = ?", (name,))
            db.execute("UPDATE fence SET token = token + 1 WHERE name = ?", (name,))
            return bool(until > now)

        return await self._do(release)

    async def write_if(self, name: str, token: int, value: bytes) -> bool:
        def write(db: apsw.Connection, now: float) -> bool:
            db.execute(
                "INSERT INTO record SELECT name, ?, ? FROM fence WHERE name = ? AND token <= ? "
                "ON CONFLICT DO UPDATE SET token = excluded.token, value = excluded.value",
                (token, value, name, token),
            )
            return db.changes() == 1

        return await self._do(write)

    async def read(self, name: str) -> Record | None:
        return (await self._records("name = ?", name)).get(name)

    async def records(self, prefix: str) -> dict[str, Record]:
        return await self._records("substr(name, 1, length(?1)) = ?1", prefix)

    async def _records(self, where: str, value: str) -> dict[str, Record]:
        def read(db: apsw.Connection, now: float) -> dict[str, Record]:
            rows = db.execute(f"SELECT name, token, value FROM record WHERE {where} ORDER BY name", (value,))
            return {name: Record(token, value) for name, token, value in rows}

        return await self._do(read)

    async def look(self, names: Collection[str]) -> Mapping[str, Sight]:
        wanted = tuple(names)

        def read(db: apsw.Connection, now: float) -> dict[str, Sight]:
            seen = {}
            for name in wanted:
                held = db.execute(
                    "SELECT owner, host, pid, token, since, expires FROM held WHERE name = ? AND expires > ?",
                    (name, now),
                ).fetchone()
                kept = db.execute("SELECT token, value FROM record WHERE name = ?", (name,)).fetchone()
                seen[name] = Sight(
                    None if held is None else _holder(name, held, now),
                    None if kept is None else Record(*kept),
                )
            return seen

        return await self._do(read)

    async def holders(self, prefix: str = "") -> tuple[Holder, ...]:
        def read(db: apsw.Connection, now: float) -> tuple[Holder, ...]:
            rows = db.execute(
                "SELECT name, owner, host, pid, token, since, expires FROM held "
                "WHERE substr(name, 1, length(?1)) = ?1 AND expires > ?2 ORDER BY name",
                (prefix, now),
            )
            return tuple(_holder(name, held, now) for name, *held in rows)

        return await self._do(read)

    async def close(self) -> None:
        def close() -> None:
            if self._db is not None:
                self._db.close()

        await asyncio.wrap_future(self._thread.submit(close))
        self._thread.shutdown()

    async def _do(self, work: Callable[[apsw.Connection, float], T]) -> T:
        """Do the work in a transaction. It may have been done although its caller was cancelled."""
        return await asyncio.wrap_future(self._thread.submit(self._transact, work))

    def _transact(self, work: Callable[[apsw.Connection, float], T]) -> T:
        try:
            if self._db is None:
                self._db = self._open()
            self._db.execute("BEGIN IMMEDIATE")
            try:
                # The clock is read behind the wait for the transaction: a lease may have lapsed meanwhile.
                done = work(self._db, self._clock())
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        except (apsw.Error, OSError) as error:
            raise LockStoreAwayError(
                f"the locks in {self._path} cannot be used ({error})",
                "its folder must be writable, on a disk of this host",
            ) from error
        return done

    def _open(self) -> apsw.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        db = apsw.Connection(str(self._path))
        try:
            db.set_busy_timeout(int(BUSY_TIMEOUT * 1000))
            enter_wal(db, busy_timeout=BUSY_TIMEOUT)
            # A power cut may take the last transactions, tokens and guarded values alike, and no holder outlives it.
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute(SCHEMA)
        except BaseException:
            db.close()
            raise
        return db


def _holder(name: str, held: Any, now: float) -> Holder:
    owner, host, pid, token, since, expires = held
    return Holder(name, Party(owner, host, pid), token, since, max(0.0, now - since), expires - now)
