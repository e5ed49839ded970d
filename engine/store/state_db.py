"""`state.db`: the tables of the journal and of the history, which must never lose an acknowledged row.

They share a file so that one fsync commits both, and so that a row and the note of its archiving change together.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.store.connection import identity_of
from engine.store.database import Database, ReadOnlyDatabase, Schema, open_database

_FIRST = """
CREATE TABLE runs(
    number INTEGER PRIMARY KEY,
    run TEXT NOT NULL UNIQUE,
    board TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    mark TEXT NOT NULL,
    started REAL NOT NULL,
    beat REAL NOT NULL,
    ended REAL,
    status TEXT NOT NULL DEFAULT '',
    cycle INTEGER NOT NULL DEFAULT 1,
    cycle_seq INTEGER NOT NULL DEFAULT 1,      -- where the current cycle begins: a resume reads from here
    archived_seq INTEGER NOT NULL DEFAULT 0    -- events up to this one are in the archive, not in the table
);
CREATE INDEX runs_by_board ON runs(board, started);

CREATE TABLE events(
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    payload BLOB NOT NULL,
    crc INTEGER NOT NULL,
    PRIMARY KEY(run, seq)
) WITHOUT ROWID;

CREATE TABLE history(
    id TEXT PRIMARY KEY,
    run TEXT NOT NULL,
    task TEXT NOT NULL,
    status TEXT NOT NULL,
    started REAL NOT NULL,
    ended REAL,
    size INTEGER NOT NULL,
    entry BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX history_by_start ON history(started);
CREATE INDEX history_by_end ON history(ended) WHERE ended IS NOT NULL;
CREATE INDEX history_by_status ON history(status, started);

-- Kept by triggers, so that the figures are exact whoever writes, and cost no scan.
CREATE TABLE history_totals(
    only INTEGER PRIMARY KEY CHECK(only = 1),
    entries INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    segment INTEGER NOT NULL DEFAULT 0,        -- the last archive segment whose rows have left the table
    prunes INTEGER NOT NULL DEFAULT 0,
    archived INTEGER NOT NULL DEFAULT 0,
    archived_bytes INTEGER NOT NULL DEFAULT 0
);
INSERT INTO history_totals(only) VALUES(1);
CREATE TRIGGER history_added AFTER INSERT ON history BEGIN
    UPDATE history_totals SET entries = entries + 1, bytes = bytes + new.size;
END;
CREATE TRIGGER history_changed AFTER UPDATE OF size ON history BEGIN
    UPDATE history_totals SET bytes = bytes + new.size - old.size;
END;
CREATE TRIGGER history_removed AFTER DELETE ON history BEGIN
    UPDATE history_totals SET entries = entries - 1, bytes = bytes - old.size;
END;
"""

_SECOND = """
-- Who may write a run: each claim raises its token, and what a former owner writes afterwards is refused.
CREATE TABLE claims(
    run INTEGER PRIMARY KEY,
    token INTEGER NOT NULL,
    shared INTEGER NOT NULL,                   -- whether others may work on the same board beside it
    spaced INTEGER NOT NULL                    -- whether its branches and folders carry its name
);
"""

STATE_SCHEMA = Schema((_FIRST, _SECOND))


def open_state(path: Path) -> Database:
    """Open `state.db` for the process that runs the engine; every commit survives a power cut. Raises DatabaseError."""
    return open_database(path, schema=STATE_SCHEMA, synchronous="FULL")


def has_tables(path: Path) -> bool:
    """Whether a run was ever begun here: there is a file, and not one that a full disk left empty.

    Raises DatabaseError where the file cannot be read.
    """
    if not path.exists():
        return False
    database = ReadOnlyDatabase(path)
    try:
        return database.read(lambda c: bool(c.execute("SELECT count(*) FROM sqlite_schema").get))
    finally:
        database.close()


def state_watch(path: Path) -> Callable[[], str]:
    """Give what tells, in words, that the file at `path` now is no longer there or another; empty while it is the same.

    SQLite goes on writing into a file that was removed, without an error, so nothing else would notice.
    """
    born = identity_of(path)

    def lost() -> str:
        if identity_of(path) == born:
            return ""
        return (
            f"{path.parent} was removed while the run is going on: its journal and costs are lost at the end, and "
            "another run could start beside it; stop this one and start again (what has landed is safe)"
        )

    return lost
