"""The live table of the history in `state.db`, and the statements that `history.HistoryPruner` runs over it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import apsw
import msgspec

from engine.errors import StoreError
from engine.store.database import Connection
from engine.store.history_archive import TaskHistory


@dataclass(frozen=True, slots=True)
class Victim:
    """A row that must go."""

    id: str
    ended: float
    size: int
    entry: bytes


@dataclass(frozen=True, slots=True)
class Totals:
    """What the table holds, and what has left it."""

    entries: int
    bytes: int
    segment: int
    prunes: int
    archived: int
    archived_bytes: int


class _Named(msgspec.Struct):
    id: str


def totals(connection: Connection) -> Totals:
    """The figures that the triggers keep."""
    row: Any = connection.execute(
        "SELECT entries, bytes, segment, prunes, archived, archived_bytes FROM history_totals"
    ).fetchone()
    return Totals(*row)


def row_of(entry: TaskHistory) -> tuple[str, str, str, str, float, float | None, int, bytes]:
    """The columns of an entry."""
    data = msgspec.json.encode(entry)
    return entry.id, entry.run, entry.task, entry.status, entry.started, entry.ended, len(data), data


def insert(connection: Connection, entry: TaskHistory) -> None:
    """Add an entry. Raises StoreError when there is one of this id."""
    try:
        connection.execute("INSERT INTO history VALUES(?, ?, ?, ?, ?, ?, ?, ?)", row_of(entry))
    except apsw.ConstraintError as error:
        raise StoreError(f"the history has an entry {entry.id} already") from error


def replace(connection: Connection, entry: TaskHistory) -> None:
    """Put the entry in the place of the one with its id."""
    id_, *columns = row_of(entry)
    connection.execute(
        "UPDATE history SET run = ?, task = ?, status = ?, started = ?, ended = ?, size = ?, entry = ?"
        " WHERE id = ?",
        (*columns, id_),
    )


def oldest_ended(connection: Connection, limit: int) -> list[Victim]:
    """The entries that ended first."""
    rows: Any = connection.execute(
        "SELECT id, ended, size, entry FROM history WHERE ended IS NOT NULL ORDER BY ended, id LIMIT ?",
        (limit,),
    ).fetchall()
    return [Victim(*row) for row in rows]


def remove(connection: Connection, victims: list[Victim], number: int, archived_bytes: int) -> None:
    """Take the entries out of the table, and note the segment that has them now."""
    connection.executemany("DELETE FROM history WHERE id = ?", [(victim.id,) for victim in victims])
    connection.execute(
        "UPDATE history_totals SET segment = ?, prunes = prunes + 1, archived = archived + ?,"
        " archived_bytes = archived_bytes + ?",
        (number, len(victims), archived_bytes),
    )
    connection.execute("PRAGMA incremental_vacuum(1000)").fetchall()


def adopt(connection: Connection, lines: list[bytes], number: int, archived_bytes: int) -> None:
    """Note a segment that the table did not know of; entries that are live just the same leave the table."""
    connection.executemany(
        "DELETE FROM history WHERE id = ? AND entry = ?", [(id_of(line), line) for line in lines]
    )
    connection.execute(
        "UPDATE history_totals SET segment = ?, archived = archived + ?, archived_bytes = archived_bytes + ?",
        (number, len(lines), archived_bytes),
    )


def changed(old: TaskHistory, changes: dict[str, object]) -> TaskHistory:
    """The entry with other fields. Raises StoreError for an unknown one, or a value of the wrong type."""
    fields: dict[str, object] = {name: getattr(old, name) for name in TaskHistory.__struct_fields__}
    unknown = [name for name in changes if name not in fields or name == "id"]
    if unknown:
        raise StoreError(
            f"a history entry has no field {unknown[0]} to change", f"it has: {', '.join(fields)}"
        )
    try:
        return msgspec.convert({**fields, **changes}, TaskHistory)
    except msgspec.ValidationError as error:
        raise StoreError(f"the history entry {old.id} was not changed: {error}") from error


def find(connection: Connection, id: str) -> TaskHistory | None:
    """One entry, or None."""
    found = select(connection, "id = ?", (id,), 1)
    return found[0] if found else None


def select(
    connection: Connection, where: str, bindings: tuple[str | float, ...], limit: int
) -> tuple[TaskHistory, ...]:
    """Entries, started last first; a negative limit is none."""
    rows: Any = connection.execute(
        f"SELECT entry FROM history WHERE {where} ORDER BY started DESC, id DESC LIMIT ?", (*bindings, limit)
    ).fetchall()
    return tuple(msgspec.json.decode(entry, type=TaskHistory) for (entry,) in rows)


def id_of(line: bytes) -> str:
    """The id in an encoded entry."""
    return msgspec.json.decode(line, type=_Named).id


def is_live(connection: Connection, line: bytes) -> bool:
    """Whether the table has an entry with the id of this line."""
    return connection.execute("SELECT 1 FROM history WHERE id = ?", (id_of(line),)).get is not None


def journal_bytes(connection: Connection) -> int:
    """Bytes that the file holds but for the history: the events of the journal, nearly all."""
    pages = connection.pragma("page_count") - connection.pragma("freelist_count")
    return max(0, int(pages * connection.pragma("page_size")) - totals(connection).bytes)
