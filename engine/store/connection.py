"""Opening SQLite files: how they are set up, brought to the newest schema, checked, and what their errors mean."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import apsw

from engine.errors import StoreError
from engine.wal import enter_wal

Connection: TypeAlias = apsw.Connection

CHECKED_BYTES = 32 * 2**20
"""A disposable file up to this size is checked page by page when it is opened (about 1 ms a MB)."""

ErrorKind = Literal["full", "busy", "damaged", "newer", "unreadable", "failed"]


class DatabaseError(StoreError):
    """A database said no. `kind`: full, busy, damaged, newer, unreadable or failed."""

    def __init__(self, message: str, hint: str = "", *, kind: ErrorKind = "failed") -> None:
        super().__init__(message, hint)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of one file. Step `i` is a script that brings version `i` to version `i + 1`."""

    steps: tuple[str, ...]

    @property
    def version(self) -> int:
        """The version after all steps."""
        return len(self.steps)


def identity_of(path: Path) -> tuple[int, int] | None:
    """What tells the file at `path` from any other while somebody has it open; None where there is none."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def set_database_aside(path: Path, damaged: tuple[int, int] | None) -> Path | None:
    """Rename the file and its WAL out of the way, as `<name>.corrupt-<n>`; gives the new path.

    None where another process has done so since the one with the identity `damaged` was met.
    """
    number = 1
    while (target := path.with_name(f"{path.name}.corrupt-{number}")).exists():
        number += 1
    if identity_of(path) != damaged:
        return None
    try:
        os.rename(path, target)
    except FileNotFoundError:
        return None
    for suffix in ("-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.rename(f"{path}{suffix}", f"{target}{suffix}")
    return target


def connect_reader(path: Path, *, busy_timeout: float = 5.0) -> Connection:
    """A read-only connection of one's own, for instance one to interrupt; raises DatabaseError."""
    _require_file(path)
    try:
        try:
            return _connect_reader(path, "mode=ro", busy_timeout)
        except (apsw.CantOpenError, apsw.ReadOnlyError):
            # In a read-only directory SQLite cannot make the shared memory of the WAL. Without a WAL nobody is writing,
            # and the file can be read as it is.
            if not path.exists() or Path(f"{path}-wal").exists():
                raise
            return _connect_reader(path, "mode=ro&immutable=1", busy_timeout)
    except apsw.Error as error:
        raise explained(path, error) from error


def _require_file(path: Path) -> None:
    # SQLite would wait for ever for the other end of a pipe.
    if path.exists() and not path.is_file():
        raise DatabaseError(
            f"{path} cannot be used: it is no regular file", "move it away", kind="unreadable"
        )


def _connect_reader(path: Path, query: str, busy_timeout: float) -> Connection:
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(f"{path.absolute().as_uri()}?{query}", flags=flags)
    try:
        connection.set_busy_timeout(int(busy_timeout * 1000))
        connection.execute("SELECT 1 FROM sqlite_schema").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def open_writer(
    path: Path, schema: Schema, synchronous: str, disposable: bool, busy_timeout: float
) -> Connection:
    """A connection to write with, to a file with the newest tables; made if need be. Raises DatabaseError."""
    connection = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _require_file(path)
        connection = apsw.Connection(str(path))
        connection.set_busy_timeout(int(busy_timeout * 1000))
        connection.execute("PRAGMA auto_vacuum=incremental")
        if not enter_wal(connection, busy_timeout=busy_timeout):
            raise DatabaseError(
                f"{path} cannot use a write-ahead log", "keep the state folder on a local disk"
            )
        connection.execute(f"PRAGMA synchronous={synchronous}; PRAGMA journal_size_limit=8388608")
        connection.execute("PRAGMA temp_store=memory")
        _migrate(connection, path, schema)
        if disposable and path.stat().st_size <= CHECKED_BYTES:
            found = connection.execute("PRAGMA quick_check(1)").get
            if found != "ok":
                raise DatabaseError(f"{path} is damaged: {found}", kind="damaged")
    except OSError as error:
        raise DatabaseError(
            f"{path} cannot be used: {error.strerror}", "check its permissions", kind="unreadable"
        ) from error
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, apsw.Error):
            raise explained(path, error) from error
        raise
    return connection


def _migrate(connection: Connection, path: Path, schema: Schema) -> None:
    if connection.pragma("user_version") == schema.version:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = connection.pragma("user_version")
        if version > schema.version:
            raise DatabaseError(
                f"{path} was written by a newer version of Taskyard", "upgrade Taskyard", kind="newer"
            )
        for step in schema.steps[version:]:
            connection.execute(step).fetchall()
        connection.execute(f"PRAGMA user_version={schema.version}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def explained(path: Path, error: BaseException) -> BaseException:
    """The error for the caller: one of SQLite's gets a kind and a hint, any other stays as it is."""
    if not isinstance(error, apsw.Error):
        return error
    if isinstance(error, apsw.FullError):
        found = DatabaseError(f"the disk is full: {path} was not written", "free some space", kind="full")
    elif isinstance(error, apsw.BusyError | apsw.LockedError):
        found = DatabaseError(f"{path} is held by another process", "try again when it is done", kind="busy")
    elif isinstance(error, apsw.CorruptError | apsw.NotADBError):
        found = DatabaseError(f"{path} is damaged: {error}", "move it away and start again", kind="damaged")
    elif isinstance(error, apsw.CantOpenError | apsw.ReadOnlyError | apsw.PermissionsError | apsw.IOError):
        found = DatabaseError(
            f"{path} cannot be used: {error}", "check that it exists and its permissions", kind="unreadable"
        )
    else:
        found = DatabaseError(f"{path}: {error}")
    found.__cause__ = error
    return found
