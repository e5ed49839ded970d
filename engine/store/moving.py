"""Moving events from the live journal to its archive: a crash at any moment leaves each in exactly one place."""

from __future__ import annotations

from pathlib import Path

from engine.store import run_log
from engine.store.archive import remove_unfinished, write_segment
from engine.store.database import Connection
from engine.store.run_log import RunRow

MOVED_AT_ONCE = 1000
"""Events that one transaction moves to the archive (about 10 ms in the writer)."""

SPARE_PAGES = 2000
"""Free pages (4 KB) that stay in the file for the next events; more are given back."""


def move_oldest(connection: Connection, archive: Path, run: str, up_to: int | None) -> int:
    """Move the oldest live events of a run, none after `up_to`, into one segment; gives how many.

    Raises StoreError when the archive cannot be written; then they stay where they are.
    """
    row = run_log.existing_run(connection, run)
    remove_unfinished(run_log.segment_directory(archive, run))
    rows = run_log.live_rows(connection, row.number, row.archived_seq, MOVED_AT_ONCE)
    if up_to is not None:
        rows = [each for each in rows if each[0] <= up_to]
    if not rows:
        return 0
    _clear_orphans(connection, archive, row)
    first, last = rows[0][0], rows[-1][0]
    lines = (run_log.archived_line(seq, run_log.unpack(seq, data, crc)) for seq, data, crc in rows)
    write_segment(run_log.segment_path(archive, run, first, last), lines)
    connection.execute("DELETE FROM events WHERE run = ? AND seq <= ?", (row.number, last))
    connection.execute("UPDATE runs SET archived_seq = ? WHERE number = ?", (last, row.number))
    if connection.pragma("freelist_count") > SPARE_PAGES:
        connection.execute("PRAGMA incremental_vacuum(1000)").fetchall()
    return len(rows)


def _clear_orphans(connection: Connection, archive: Path, row: RunRow) -> None:
    """Remove segments of a move that never committed: all their events are live still. Others are kept aside."""
    for segment in run_log.event_segments(archive, row.run):
        if segment.first <= row.archived_seq:
            continue
        live = connection.execute(
            "SELECT count(*) FROM events WHERE run = ? AND seq BETWEEN ? AND ?",
            (row.number, segment.first, segment.last),
        ).get
        if live == sum(
            1 for _ in run_log.archived_payloads(archive, row.run, row.archived_seq, segment.last)
        ):
            segment.path.unlink()
        else:
            segment.path.rename(segment.path.with_name(segment.path.name + ".kept"))
