"""The tables of `cache.db` and the statements over them; `cache.ResultCache` decides when each runs.

Values lie apart from what describes them, so that noting a use rewrites a short row and not the value.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from engine.store.cache_key import CacheKey
from engine.store.database import Connection, Schema
from engine.store.owner import Owner

_FIRST = """
CREATE TABLE entries(
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    activity TEXT NOT NULL,
    task TEXT NOT NULL,
    input TEXT NOT NULL,
    model TEXT NOT NULL,
    created REAL NOT NULL,
    expires REAL,
    used INTEGER NOT NULL,                     -- rises with every use; the least goes first
    size INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    usd REAL NOT NULL,
    crc INTEGER NOT NULL
);
CREATE INDEX entries_by_use ON entries(used);
CREATE INDEX entries_by_task ON entries(task, activity);
CREATE INDEX entries_by_expiry ON entries(expires) WHERE expires IS NOT NULL;
CREATE TABLE bodies(id INTEGER PRIMARY KEY, value BLOB NOT NULL);

-- Kept by triggers, so that the limits hold whoever writes, and cost no scan.
CREATE TABLE totals(
    only INTEGER PRIMARY KEY CHECK(only = 1),
    entries INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    hits INTEGER NOT NULL DEFAULT 0,
    misses INTEGER NOT NULL DEFAULT 0,
    evictions INTEGER NOT NULL DEFAULT 0,
    expirations INTEGER NOT NULL DEFAULT 0,
    damaged INTEGER NOT NULL DEFAULT 0,
    tokens_saved INTEGER NOT NULL DEFAULT 0,
    usd_saved REAL NOT NULL DEFAULT 0
);
INSERT INTO totals(only) VALUES(1);
CREATE TRIGGER entry_added AFTER INSERT ON entries BEGIN
    UPDATE totals SET entries = entries + 1, bytes = bytes + new.size;
END;
CREATE TRIGGER entry_removed AFTER DELETE ON entries BEGIN
    UPDATE totals SET entries = entries - 1, bytes = bytes - old.size;
    DELETE FROM bodies WHERE id = old.id;
END;

CREATE TABLE leases(
    key BLOB PRIMARY KEY,
    holder TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    mark TEXT NOT NULL,
    until REAL NOT NULL
) WITHOUT ROWID;
"""

CACHE_SCHEMA = Schema((_FIRST,))

_COUNTERS = ("hits", "misses", "evictions", "expirations", "damaged", "tokens_saved", "usd_saved")
_ADD_COUNTERS = f"UPDATE totals SET {', '.join(f'{name} = {name} + ?' for name in _COUNTERS)}"


class Counters(msgspec.Struct):
    """What happened since some moment. `hits` are answers nobody had to compute, `misses` the other look-ups."""

    hits: int = 0
    misses: int = 0
    evictions: int = 0
    expirations: int = 0
    damaged: int = 0
    tokens_saved: int = 0
    usd_saved: float = 0.0

    def add(self, other: Counters) -> None:
        """Add the other's numbers to these."""
        for name in _COUNTERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class CacheEntry(msgspec.Struct, frozen=True):
    """What is known of one cached result.

    Times are seconds since the epoch; `tokens` and `usd` are what a hit saves.
    """

    key: CacheKey
    created: float
    used: float
    expires: float | None
    bytes: int
    tokens: int
    usd: float


@dataclass(frozen=True, slots=True)
class Found:
    """A row as it was read. `whole` is False when the value is not what was stored."""

    id: int
    value: bytes
    expires: float | None
    tokens: int
    usd: float
    whole: bool


@dataclass(frozen=True, slots=True)
class NewEntry:
    """A result about to be stored. `used` is its place in the order of use."""

    key: CacheKey
    value: bytes
    created: float
    expires: float | None
    used: int
    tokens: int
    usd: float


@dataclass(frozen=True, slots=True)
class Limits:
    """What the table may hold."""

    max_entries: int
    max_bytes: int


def find(connection: Connection, key: bytes) -> Found | None:
    """The entry under this digest, expired or not."""
    row: Any = connection.execute(
        "SELECT id, value, expires, tokens, usd, crc FROM entries JOIN bodies USING(id) WHERE key = ?", (key,)
    ).fetchone()
    if row is None:
        return None
    number, value, expires, tokens, usd, crc = row
    return Found(number, value, expires, tokens, usd, zlib.crc32(value, zlib.crc32(key)) == crc)


def store(connection: Connection, new: NewEntry, limits: Limits) -> Counters:
    """Put the entry in, in place of an older one, and make room; gives what had to go."""
    key, digest = new.key, new.key.digest
    connection.execute("DELETE FROM entries WHERE key = ?", (digest,))
    number: Any = connection.execute(
        "INSERT INTO entries(key, activity, task, input, model, created, expires, used, size, tokens, usd, crc)"
        " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
        (
            digest,
            key.activity_type,
            key.task_id,
            key.input_hash,
            key.model_id,
            new.created,
            new.expires,
            new.used,
            len(new.value),
            new.tokens,
            new.usd,
            zlib.crc32(new.value, zlib.crc32(digest)),
        ),
    ).get
    connection.execute("INSERT INTO bodies VALUES(?, ?)", (number, new.value))
    return _make_room(connection, limits, new.created)


def _make_room(connection: Connection, limits: Limits, now: float) -> Counters:
    """Past a limit, remove what expired, then the least used until 1 % is free: so most sets need not."""
    gone = Counters()
    entries, size = _held(connection)
    if entries <= limits.max_entries and size <= limits.max_bytes:
        return gone
    connection.execute("DELETE FROM entries WHERE expires <= ?", (now,))
    gone.expirations = connection.changes()
    entries, size = _held(connection)
    most_entries = limits.max_entries - limits.max_entries // 100
    most_bytes = limits.max_bytes - limits.max_bytes // 100
    victims = []
    by_use = connection.execute("SELECT id, size FROM entries ORDER BY used, id")
    for row in by_use:
        if entries <= most_entries and size <= most_bytes:
            break
        number, held = cast("tuple[int, int]", row)
        victims.append((number,))
        entries -= 1
        size -= held
    by_use.close()
    connection.executemany("DELETE FROM entries WHERE id = ?", victims)
    gone.evictions = len(victims)
    return gone


def _held(connection: Connection) -> tuple[int, int]:
    row: Any = connection.execute("SELECT entries, bytes FROM totals").fetchone()
    return row[0], row[1]


def note_uses(connection: Connection, uses: dict[int, int]) -> None:
    """Move entries (by id) to new places in the order of use."""
    if not uses:
        return
    connection.executemany(
        "UPDATE entries SET used = ? WHERE id = ?", [(place, number) for number, place in uses.items()]
    )


def remove_expired(connection: Connection, number: int, now: float) -> Counters:
    """Remove the entry if it is still there and still expired."""
    connection.execute("DELETE FROM entries WHERE id = ? AND expires <= ?", (number, now))
    return Counters(expirations=connection.changes())


def remove_damaged(connection: Connection, number: int) -> Counters:
    """Remove the entry whose value is not what was stored."""
    connection.execute("DELETE FROM entries WHERE id = ?", (number,))
    return Counters(damaged=connection.changes())


def remove(
    connection: Connection, *, key: bytes | None = None, activity: str | None = None, task: str | None = None
) -> int:
    """Remove what matches all that is given, or everything; gives how many."""
    where, bindings = _where(key=key, activity=activity, task=task)
    connection.execute(f"DELETE FROM entries{where}", bindings)
    return connection.changes()


def entries(
    connection: Connection, *, activity: str | None, task: str | None, model: str | None, limit: int
) -> tuple[CacheEntry, ...]:
    """What matches all that is given, last used first."""
    where, bindings = _where(activity=activity, task=task, model=model)
    rows: Any = connection.execute(
        "SELECT activity, task, input, model, created, used / 1e6, expires, size, tokens, usd"
        f" FROM entries{where} ORDER BY used DESC, id DESC LIMIT ?",
        (*bindings, limit),
    ).fetchall()
    return tuple(CacheEntry(CacheKey(*row[:4]), *row[4:]) for row in rows)


def _where(**wanted: bytes | str | None) -> tuple[str, tuple[bytes | str, ...]]:
    given = {column: value for column, value in wanted.items() if value is not None}
    clause = " AND ".join(f"{column} = ?" for column in given)
    return f" WHERE {clause}" if clause else "", tuple(given.values())


def add_counters(connection: Connection, *parts: Counters) -> None:
    """Add to the figures over the life of the file."""
    amounts = [sum(getattr(part, name) for part in parts) for name in _COUNTERS]
    if any(amounts):
        connection.execute(_ADD_COUNTERS, amounts)


def totals(connection: Connection) -> tuple[int, int, Counters]:
    """Entries, their bytes, and the figures over the life of the file."""
    row: Any = connection.execute(f"SELECT entries, bytes, {', '.join(_COUNTERS)} FROM totals").fetchone()
    return row[0], row[1], Counters(*row[2:])


def last_use(connection: Connection) -> int:
    """The highest place in the order of use."""
    found: Any = connection.execute("SELECT max(used) FROM entries").get
    return found or 0


def why_missing(connection: Connection, key: CacheKey) -> str:
    """What is different about the nearest entry: the words that a person needs to understand a miss."""
    rows: Any = connection.execute(
        "SELECT input, model FROM entries WHERE task = ? AND activity = ? ORDER BY id DESC LIMIT 20",
        (key.task_id, key.activity_type),
    ).fetchall()
    if not rows:
        return f"{key.activity_type} {key.task_id}: first time"
    if any(row[0] == key.input_hash for row in rows):
        return f"{key.activity_type} {key.task_id}: another model"
    return f"{key.activity_type} {key.task_id}: the input changed"


def take_lease(
    connection: Connection, key: bytes, holder: str, owner: Owner, now: float, until: float
) -> bool:
    """Become the one who computes the result, or keep being it; False while somebody else alive is."""
    row: Any = connection.execute(
        "SELECT holder, host, pid, mark, until FROM leases WHERE key = ?", (key,)
    ).fetchone()
    if row is not None:
        other, host, pid, mark, lapses = row
        if other != holder and lapses > now and Owner(host, pid, mark).is_alive(silent_for=0.0):
            return False
    connection.execute(
        "INSERT OR REPLACE INTO leases VALUES(?, ?, ?, ?, ?, ?)",
        (key, holder, owner.host, owner.pid, owner.mark, until),
    )
    return True


def drop_lease(connection: Connection, key: bytes, holder: str) -> None:
    """Let others compute."""
    connection.execute("DELETE FROM leases WHERE key = ? AND holder = ?", (key, holder))


def drop_lapsed_leases(connection: Connection, now: float) -> None:
    """Forget those whose holders never came back."""
    connection.execute("DELETE FROM leases WHERE until <= ?", (now,))
