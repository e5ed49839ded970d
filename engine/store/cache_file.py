"""The file behind the result cache: it may be full, damaged or unwritable, and must never stop a run.

A damaged file is set aside and begun anew, when it is opened or when the damage is met. After a write that failed, the
next is tried a minute later. What is only noted (uses and figures) rides along with the next write.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from engine.store import cache_table as table
from engine.store.cache_table import CACHE_SCHEMA, Counters
from engine.store.database import Connection, Database, DatabaseError, open_database, set_database_aside

T = TypeVar("T")

NOTED_USES = 512
"""Uses kept in memory before they are written; those of a crash are lost, which only blurs the order of eviction."""

RETRY_AFTER = 60.0
"""Seconds after a failed write (a full disk) before the next one is tried."""


class CacheFile:
    """One file of cached results, shared by threads and processes. `clock` gives seconds since the epoch."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self.path = path
        self.disabled = ""
        """Why the file is not used now, or empty."""
        self.set_aside: Path | None = None
        """Where a damaged file went that this one replaced, or None."""
        self._clock = clock
        self._lock = threading.RLock()
        self._session = Counters()
        self._unsaved = Counters()
        self._uses: dict[int, int] = {}
        self._last_use = 0
        self._retry_at = 0.0
        self._damaged = False
        self._database: Database | None = None
        self._open()

    def usable(self) -> Database:
        """The open database, begun anew if damage was met. Raises DatabaseError when there is none."""
        with self._lock:
            damaged = self._database if self._damaged else None
            if damaged is not None:
                self._begin_anew(damaged)
            database = self._database
        if damaged is not None:
            damaged.close()  # without the lock: it waits for its writes, and what became of them is noted under it
        if database is None:
            raise DatabaseError(self.disabled or f"{self.path.name} is closed")
        return database

    def writable(self) -> Database | None:
        """The open database, or None while writing is known to be in vain."""
        if self.disabled and self._clock() < self._retry_at:
            return None
        try:
            return self.usable()
        except DatabaseError:
            return None

    def read(self, fn: Callable[[Connection], T]) -> T | None:
        """Read from the file, or give None where it cannot be read."""
        try:
            database = self.usable()
        except DatabaseError:
            return None
        try:
            return database.read(fn)
        except DatabaseError as error:
            self.note_failure(error, database)
            return None

    def submit(self, database: Database, fn: Callable[[Connection], Counters]) -> Future[Counters]:
        """Queue a write that tells what it removed; what was noted since the last one rides along."""
        with self._lock:
            uses, self._uses = self._uses, {}
            unsaved, self._unsaved = self._unsaved, Counters()

            def write(connection: Connection) -> Counters:
                table.note_uses(connection, uses)
                done = fn(connection)
                table.add_counters(connection, unsaved, done)
                return done

            def note(written: Future[Counters]) -> None:
                error = written.exception()
                with self._lock:
                    if error is None:
                        self._session.add(written.result())
                        self.disabled = ""
                    else:
                        self._unsaved.add(unsaved)
                        self.note_failure(error, database)

            future = database.submit(write)
            future.add_done_callback(note)
            return future

    def note_use(self, number: int) -> None:
        """An entry was used: it leaves later."""
        with self._lock:
            self._uses[number] = self.next_use()
            if len(self._uses) >= NOTED_USES and self._database is not None:
                self.submit(self._database, lambda _: Counters())

    def next_use(self) -> int:
        """The next place in the order of use."""
        with self._lock:
            # Microseconds, so that it holds between processes; never twice the same, so that it is an order.
            self._last_use = max(self._last_use + 1, int(self._clock() * 1e6))
            return self._last_use

    def note_failure(self, error: BaseException, database: Database) -> None:
        """The file could not be read or written; that of one that was replaced since says nothing of the new one."""
        with self._lock:
            if database is not self._database:
                return
            if isinstance(error, DatabaseError) and error.kind == "damaged":
                self._damaged = True
            else:
                self.disabled = str(error)
                self._retry_at = self._clock() + RETRY_AFTER

    def count(self, counters: Counters) -> None:
        """Add to the figures of this process and of the file."""
        with self._lock:
            self._session.add(counters)
            self._unsaved.add(counters)

    def figures(self, *, lifetime: bool) -> tuple[int, int, Counters]:
        """Entries and bytes now, and what was counted by this process, or over the life of the file."""
        entries, size, counters = 0, 0, Counters()
        if (found := self.read(table.totals)) is not None:
            entries, size, counters = found
        with self._lock:
            counters.add(self._unsaved)
            return entries, size, counters if lifetime else self._session

    def close(self) -> None:
        """Write what is noted and close the file. Safe to call twice."""
        with self._lock:
            database, self._database = self._database, None
        if database is not None:
            self.submit(database, lambda _: Counters())
            database.close()

    def _open(self) -> None:
        try:
            self._database = open_database(
                self.path, schema=CACHE_SCHEMA, synchronous="NORMAL", disposable=True
            )
            self._last_use = max(self._last_use, self._database.read(table.last_use))
            self.set_aside = self._database.set_aside or self.set_aside
            now = self._clock()
            self._database.submit(lambda c: table.drop_lapsed_leases(c, now), urgent=False)
        except DatabaseError as error:
            self.disabled = str(error)

    def _begin_anew(self, damaged: Database) -> None:
        """Move the damaged file away and go on with an empty one."""
        self._database = None
        self._damaged = False
        try:
            self.set_aside = set_database_aside(self.path, damaged.identity) or self.set_aside
        except OSError as error:
            self.disabled = f"{self.path} is damaged and cannot be moved away: {error.strerror}"
        else:
            self._open()
