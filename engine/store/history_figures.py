"""What the history tells about itself: its figures, and what it takes in memory and on disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from engine.figures import HistoryFigures
from engine.model import TaskState
from engine.store import history_table as table
from engine.store.database import Connection


class HistoryStats(HistoryFigures, frozen=True):
    """The figures, with more about the table."""

    by_status: dict[TaskState, int] = msgspec.field(default_factory=dict)
    newest_at: float | None = None
    archived_bytes: int = 0


class MemoryInfo(msgspec.Struct, frozen=True):
    """What the history takes, in bytes: of this process's memory, of the database file, and of the archive.

    `file` is its size once the WAL, which never grows beyond some megabytes, is folded into it; `free` the part of it
    that deleted rows left and new ones will use.
    """

    resident: int
    entries: int
    file: int
    wal: int
    free: int
    archive: int


def read_stats(
    connection: Connection, max_entries: int, max_bytes: int, max_age: float, problem: str
) -> HistoryStats:
    """The figures now, beside the limits."""
    totals = table.totals(connection)
    statuses: Any = connection.execute("SELECT status, count(*) FROM history GROUP BY status").fetchall()
    ends: Any = connection.execute(
        "SELECT (SELECT min(started) FROM history), (SELECT max(started) FROM history)"
    ).fetchone()
    return HistoryStats(
        entries=totals.entries,
        max_entries=max_entries,
        bytes=totals.bytes,
        max_bytes=max_bytes,
        oldest_at=ends[0],
        newest_at=ends[1],
        max_age=max_age,
        prunes=totals.prunes,
        archived=totals.archived,
        segments=totals.segment,
        archived_bytes=totals.archived_bytes,
        journal_bytes=table.journal_bytes(connection),
        by_status={TaskState(status): count for status, count in statuses},
        problem=problem,
    )


def read_memory(connection: Connection, path: Path) -> MemoryInfo:
    """What the history in the database at `path` takes."""
    totals = table.totals(connection)
    page = int(connection.pragma("page_size"))
    return MemoryInfo(
        resident=_resident_bytes(),
        entries=totals.bytes,
        file=page * int(connection.pragma("page_count")),
        wal=file_size(Path(f"{path}-wal")),
        free=page * int(connection.pragma("freelist_count")),
        archive=totals.archived_bytes,
    )


def file_size(path: Path) -> int:
    """Bytes of a file; 0 when there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _resident_bytes() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        import resource

        return resource.getrusage(
            resource.RUSAGE_SELF
        ).ru_maxrss  # macOS: bytes, and the peak rather than now.
    return pages * os.sysconf("SC_PAGE_SIZE")
