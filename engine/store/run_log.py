"""How runs and their events lie in `state.db` and its archive: the rows, and reading them from the one and the other.

The events of a run are numbered from 1 (`seq`). Those up to `RunRow.archived_seq` are in segments under
`archive/events/<run>/`, the later ones in the table; a reader sees one sequence, whatever moves meanwhile.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

from engine.errors import StoreError
from engine.store.archive import SUFFIX, read_segment, segment_files
from engine.store.database import Connection
from engine.store.owner import Owner

PAGE = 1000
"""Rows fetched at a time: a statement held open would keep the WAL from being folded into the file."""

COMPRESSED_FROM = 8192
"""Payloads of at least this many bytes (the states that open cycles) are stored compressed."""

_COLUMNS = "run, board, host, pid, mark, started, beat, ended, status, cycle, cycle_seq, archived_seq, number"


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run. Times are seconds since the epoch; `ended` is None and `status` empty while nobody ended it."""

    run: str
    board: str
    owner: Owner
    started: float
    beat: float
    ended: float | None
    status: str
    cycle: int
    cycle_seq: int
    archived_seq: int
    number: int

    @property
    def resume_after(self) -> int:
        """Reading the events after this one is enough to know the whole state."""
        return self.cycle_seq - 1

    def is_alive(self, now: float) -> bool:
        """Whether a process is at work on the run, as far as can be told from here."""
        return self.ended is None and self.owner.is_alive(silent_for=now - self.beat)


StoredEvent: TypeAlias = tuple[int, bytes, int]
Page: TypeAlias = tuple[RunRow | None, list[StoredEvent]]
ConsistentRead: TypeAlias = Callable[[Callable[[Connection], Page]], Page]


def find_runs(connection: Connection, board: str | None = None) -> tuple[RunRow, ...]:
    """The runs of a board, or all, newest first."""
    where, bindings = ("", ()) if board is None else ("WHERE board = ?", (board,))
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM runs {where} ORDER BY started DESC, number DESC", bindings
    )
    return tuple(_run_row(row) for row in rows.fetchall())


def find_run(connection: Connection, run: str) -> RunRow | None:
    """One run, or None."""
    row = connection.execute(f"SELECT {_COLUMNS} FROM runs WHERE run = ?", (run,)).fetchone()
    return None if row is None else _run_row(row)


def existing_run(connection: Connection, run: str) -> RunRow:
    """One run. Raises StoreError when there is none of this id."""
    row = find_run(connection, run)
    if row is None:
        raise StoreError(f"there is no run {run}")
    return row


def _run_row(row: Any) -> RunRow:
    run, board, host, pid, mark, *rest = row
    return RunRow(run, board, Owner(host, pid, mark), *rest)


def read_payloads(
    read_consistent: ConsistentRead, archive: Path, run: str, after_seq: int
) -> Iterator[tuple[int, bytes]]:
    """The events of a run after `after_seq`, in order, archived ones first. Raises StoreError for an unknown run."""
    while True:
        row, page = read_consistent(partial(_page, run=run, after_seq=after_seq))
        if row is None:
            raise StoreError(f"there is no run {run}")
        if after_seq < row.archived_seq:
            yield from archived_payloads(archive, run, after_seq, row.archived_seq)
            after_seq = row.archived_seq
        for seq, payload, crc in page:
            yield seq, unpack(seq, payload, crc)
            after_seq = seq
        if len(page) < PAGE:
            return


def _page(connection: Connection, run: str, after_seq: int) -> Page:
    row = find_run(connection, run)
    if row is None:
        return None, []
    return row, live_rows(connection, row.number, after_seq, PAGE)


def live_rows(connection: Connection, number: int, after_seq: int, limit: int) -> list[StoredEvent]:
    """Rows (seq, packed payload, checksum) of the table."""
    rows: list[Any] = connection.execute(
        "SELECT seq, payload, crc FROM events WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?",
        (number, after_seq, limit),
    ).fetchall()
    return rows


def pack(seq: int, payload: bytes) -> tuple[bytes, int]:
    """The payload as it is stored, and its checksum (which covers its place, too)."""
    if len(payload) >= COMPRESSED_FROM:
        payload = zlib.compress(payload, 1)
    return payload, zlib.crc32(payload, seq & 0xFFFFFFFF)


def unpack(seq: int, stored: bytes, crc: int) -> bytes:
    """The payload again. Raises StoreError when it is not what was stored."""
    if zlib.crc32(stored, seq & 0xFFFFFFFF) != crc:
        raise StoreError(
            f"event {seq} of the journal is damaged on disk",
            "move state.db out of the state folder and run again",
        )
    return stored if stored[:1] == b"{" else zlib.decompress(stored)


# The archive of events: archive/events/<run>/<first>-<last>.jsonl.gz, each line [seq, event]

_SEGMENT = re.compile(r"(\d+)-(\d+)" + re.escape(SUFFIX))


@dataclass(frozen=True, slots=True)
class EventSegment:
    """A segment with the events `first` to `last` of a run."""

    path: Path
    run: str
    first: int
    last: int
    bytes: int


def segment_directory(archive: Path, run: str) -> Path:
    """Where the segments of a run lie; any run id makes a safe name."""
    return archive / "events" / quote(run, safe="-_").replace(".", "%2E")


def segment_path(archive: Path, run: str, first: int, last: int) -> Path:
    """The file for the events `first` to `last`."""
    return segment_directory(archive, run) / f"{first:010}-{last:010}{SUFFIX}"


def event_segments(archive: Path, run: str) -> list[EventSegment]:
    """The segments of a run, oldest first."""
    found = []
    for path in segment_files(segment_directory(archive, run)):
        match = _SEGMENT.fullmatch(path.name)
        if match is not None:
            found.append(EventSegment(path, run, int(match[1]), int(match[2]), path.stat().st_size))
    return found


def archived_payloads(archive: Path, run: str, after_seq: int, up_to: int) -> Iterator[tuple[int, bytes]]:
    """The archived events after `after_seq`, up to `up_to`."""
    for segment in event_segments(archive, run):
        if segment.last <= after_seq or segment.first > up_to:
            continue
        for line in read_segment(segment.path):
            head, _, payload = line.partition(b",")
            seq = int(head[1:])
            if after_seq < seq <= up_to:
                yield seq, payload[:-1]


def archived_line(seq: int, payload: bytes) -> bytes:
    """One event as a line of a segment."""
    return b"[%d,%s]" % (seq, payload)
