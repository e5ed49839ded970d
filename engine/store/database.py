"""One SQLite file with one writer thread that commits in groups.

    database = open_database(path, schema=Schema(("CREATE TABLE t(x)",)))
    await database.write(lambda c: c.execute("INSERT INTO t VALUES(?)", (1,)))   # returns after COMMIT
    database.read(lambda c: c.execute("SELECT count(*) FROM t").get)
    database.close()

All writes of a process go through one queue: the thread takes what waits (at most `GROUP` jobs) into one
transaction, so that fifty tasks which each need a durable commit share one fsync. SQLite comes from `apsw`, whose
wheel bundles a version without the WAL-reset corruption race of 3.7.0-3.51.2. Never open the same file through the
standard library as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, TypeVar

import apsw

from engine.store.connection import (
    Connection,
    DatabaseError,
    Schema,
    connect_reader,
    explained,
    identity_of,
    open_writer,
    set_database_aside,
)

__all__ = [
    "Connection",
    "Database",
    "DatabaseError",
    "ReadOnlyDatabase",
    "Schema",
    "connect_reader",
    "open_database",
    "set_database_aside",
]

T = TypeVar("T")

GROUP = 1000
"""The most jobs in one transaction."""

LINGER = 0.02
"""Seconds that a job which is not urgent may wait for company."""


class ReadOnlyDatabase:
    """A file that this or another process writes, opened for reading only, also where the directory is read-only.

    Every method may be called from any thread; calls wait for each other. Raises DatabaseError when the file is missing
    or unreadable.
    """

    def __init__(self, path: Path, *, busy_timeout: float = 5.0) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._connection = connect_reader(path, busy_timeout=busy_timeout)

    def data_version(self) -> int:
        """A number that differs after any other connection committed. Costs 7 µs, so it can be polled."""
        return self.read(lambda c: int(c.execute("PRAGMA data_version").get))

    def read(self, fn: Callable[[Connection], T]) -> T:
        """Run `fn` with the connection; each statement sees the newest commit. Fetch all rows inside `fn`."""
        with self._lock:
            try:
                return fn(self._connection)
            except apsw.Error as error:
                raise explained(self.path, error) from error

    def read_consistent(self, fn: Callable[[Connection], T]) -> T:
        """Run `fn` inside one read transaction: all its statements see the same commit."""

        def inside(connection: Connection) -> T:
            connection.execute("BEGIN")
            try:
                return fn(connection)
            finally:
                connection.execute("COMMIT")

        return self.read(inside)

    def interrupt(self) -> None:
        """End the statement that another thread runs in `read` now; that call raises DatabaseError."""
        self._connection.interrupt()

    def close(self) -> None:
        """Close the connection. Safe to call twice."""
        with self._lock:
            self._connection.close()


class Database:
    """A file with one writer thread. Made by `open_database`; close it when done."""

    def __init__(
        self,
        path: Path,
        connection: Connection,
        *,
        set_aside: Path | None = None,
        busy_timeout: float = 5.0,
    ) -> None:
        self.path = path
        self.identity = identity_of(path)
        """What tells this file from another that takes its place; see `set_database_aside`."""
        self.set_aside = set_aside
        """Where the damaged file went that this one replaces, or None."""
        self._connection = connection
        self._reader = ReadOnlyDatabase(path, busy_timeout=busy_timeout)
        self._queue: queue.SimpleQueue[_Job[object] | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._write_all, name=f"writer {path.name}", daemon=True)
        self._thread.start()

    def submit(self, fn: Callable[[Connection], T], *, urgent: bool = True) -> Future[T]:
        """Queue a write; the future resolves with `fn`'s result after COMMIT, in the order of submission.

        `fn` runs in the writer thread inside a transaction, so it must neither begin nor commit one. When a neighbour
        in the group fails, all are rolled back and each is run again by itself: `fn` must touch nothing but the
        connection. Cancelling the future does not take the write back. A job that is not `urgent` may wait 20 ms for
        company.
        """
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        with self._closing:
            if self._closed:
                raise DatabaseError(f"{self.path.name} is closed")
            self._queue.put(_Job(fn, future, urgent))  # type: ignore[arg-type]
        return future

    async def write(self, fn: Callable[[Connection], T]) -> T:
        """Do a write and return its result once it is committed. See `submit` for what `fn` may do."""
        return await asyncio.wrap_future(self.submit(fn))

    def read(self, fn: Callable[[Connection], T]) -> T:
        """Run `fn` with a read-only connection, in the calling thread; it sees what was committed."""
        return self._reader.read(fn)

    def read_consistent(self, fn: Callable[[Connection], T]) -> T:
        """Run `fn` inside one read transaction, in the calling thread."""
        return self._reader.read_consistent(fn)

    def data_version(self) -> int:
        """A number that differs after any commit, also one of this process. Costs 7 µs."""
        return self._reader.data_version()

    def flush(self) -> None:
        """Wait until everything submitted so far is committed or has failed."""
        self.submit(lambda _: None).result()

    def close(self) -> None:
        """Write what is queued, fold the WAL into the file and close it. Safe to call twice."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        self._thread.join()
        self._reader.close()

    def _write_all(self) -> None:
        open_ = True
        while open_:
            group, open_ = self._next_group()
            self._write_group(group)
        # The last connection to close folds the WAL into the file and removes it. When that fails, nothing is lost:
        # what was committed lies in the WAL, and the next to open the file finds it there.
        self._reader.close()
        with contextlib.suppress(apsw.Error):
            self._connection.close()

    def _next_group(self) -> tuple[list[_Job[object]], bool]:
        """Wait for work; gives the jobs of one transaction, and False once the database is closing."""
        job = self._queue.get()
        deadline = time.monotonic() + LINGER
        group: list[_Job[object]] = []
        urgent = False
        while job is not None:
            group.append(job)
            urgent = urgent or job.urgent
            if len(group) == GROUP:
                return group, True
            wait = 0.0 if urgent else deadline - time.monotonic()
            try:
                job = self._queue.get(timeout=wait) if wait > 0 else self._queue.get_nowait()
            except queue.Empty:
                return group, True
        return group, False

    def _write_group(self, group: list[_Job[object]]) -> None:
        if not group:
            return
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
        except Exception as error:
            for job in group:
                job.future.set_exception(explained(self.path, error))
            return
        try:
            results = [job.fn(connection) for job in group]
            connection.execute("COMMIT")
        except BaseException as error:
            self._roll_back()
            if len(group) == 1:
                group[0].future.set_exception(explained(self.path, error))
                return
            for job in group:
                self._write_group([job])
        else:
            for job, result in zip(group, results, strict=True):
                job.future.set_result(result)

    def _roll_back(self) -> None:
        # A full disk or an I/O error may have rolled the transaction back already.
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


@dataclass(frozen=True, slots=True)
class _Job(Generic[T]):
    fn: Callable[[Connection], T]
    future: Future[T]
    urgent: bool


def open_database(
    path: Path,
    *,
    schema: Schema,
    synchronous: Literal["FULL", "NORMAL"] = "FULL",
    disposable: bool = False,
    busy_timeout: float = 5.0,
) -> Database:
    """Open or create the file, bring its tables to the newest version, and start its writer.

    `synchronous`: FULL survives a power cut with every commit; NORMAL may lose the last ones, but never breaks the
    file. A `disposable` file (cache, index) that is damaged or of a newer version is set aside as
    `<name>.corrupt-<n>` and begun anew; any other raises DatabaseError. `busy_timeout`: seconds to wait for another
    process's transaction.
    """
    found = identity_of(path)
    try:
        connection = open_writer(path, schema, synchronous, disposable, busy_timeout)
        set_aside = None
    except DatabaseError as error:
        if not disposable or error.kind not in ("damaged", "newer"):
            raise
        set_aside = set_database_aside(path, found)
        connection = open_writer(path, schema, synchronous, disposable, busy_timeout)
    return Database(path, connection, set_aside=set_aside, busy_timeout=busy_timeout)
