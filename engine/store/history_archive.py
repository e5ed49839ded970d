"""The archive of history entries: numbered segments under `archive/history/`, oldest first.

The first line of a segment says what is in it, each other line is one entry. Which segments count as written is
noted in the database, in the transaction that deletes their rows from the live table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from engine.errors import StoreError
from engine.model import TaskState, Usage
from engine.store.archive import SUFFIX, read_segment, remove_unfinished, segment_files, write_segment

_T = TypeVar("_T", bound=msgspec.Struct)


class Taken(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What work on a task has taken. `usd` is the sum of the calls whose price is known, `unpriced` counts the others;
    `model_calls`, `batched_requests` and `cache_hits` are those of a run's `Totals`."""

    attempts: int = 0
    model_calls: int = 0
    batched_requests: int = 0
    cache_hits: int = 0
    usage: Usage = Usage()
    usd: float = 0.0
    unpriced: int = 0


class TaskHistory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One execution of a task. `id` is unique over all runs, for instance `<run>/<task>/<times opened>`.

    Times are seconds since the epoch; `ended` is None while it runs. `idle`: seconds in which nobody worked on its run,
    since the process that did had died. What it took is told as in `Taken`, without what executions of the task before
    it had taken in the same run (`before`).
    """

    id: str
    run: str
    task: str
    status: TaskState
    started: float
    ended: float | None = None
    idle: float = 0.0
    type: str = "task"
    scope: str = ""
    attempts: int = 0
    reason: str = ""
    commit: str = ""
    model_calls: int = 0
    batched_requests: int = 0
    cache_hits: int = 0
    usage: Usage = Usage()
    usd: float = 0.0
    unpriced: int = 0
    metadata: dict[str, str] = {}
    before: Taken = Taken()

    @property
    def duration(self) -> float | None:
        """Seconds it was worked on, or None while it runs."""
        return None if self.ended is None else max(0.0, self.ended - self.started - self.idle)

    def mentions(self, text: str) -> bool:
        """Whether any field of words holds the text, which must be case-folded."""
        words = (self.id, self.task, self.type, self.scope, self.status, self.reason, self.commit)
        return any(text in word.casefold() for word in (*words, *self.metadata, *self.metadata.values()))


class HistorySegment(msgspec.Struct, frozen=True):
    """One segment. `first` and `last` are the ends of its oldest and newest entry, in seconds since the epoch."""

    number: int
    entries: int
    first: float
    last: float
    bytes: int
    path: str


class _Head(msgspec.Struct, frozen=True):
    segment: int
    entries: int
    first: float
    last: float


class HistoryArchive:
    """The segments in one directory. Reading needs no lock: a segment is whole from the moment it has its name."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "history"

    def path(self, number: int) -> Path:
        """Where the segment of this number lies, or would."""
        return self._directory / f"{number:08}{SUFFIX}"

    def write(self, number: int, lines: Sequence[bytes], first: float, last: float) -> int:
        """Write one segment that survives a power cut; gives its size in bytes. Raises StoreError."""
        head = msgspec.json.encode(_Head(number, len(lines), first, last))
        return write_segment(self.path(number), [head, *lines])

    def numbers(self) -> list[int]:
        """The numbers of all segments on disk, ascending."""
        names = (path.name.removesuffix(SUFFIX) for path in segment_files(self._directory))
        return [int(name) for name in names if name.isdecimal()]

    def segments(self) -> tuple[HistorySegment, ...]:
        """What each segment holds, oldest first. Raises StoreError for a damaged one."""
        found = []
        for number in self.numbers():
            path = self.path(number)
            lines = read_segment(path)
            head = _decode(path, next(lines, b""), _Head)
            size = path.stat().st_size
            found.append(HistorySegment(number, head.entries, head.first, head.last, size, str(path)))
        return tuple(found)

    def lines(self, number: int) -> Iterator[bytes]:
        """The entries of a segment as they lie there."""
        lines = read_segment(self.path(number))
        next(lines, None)
        return lines

    def entries(self, number: int | None = None) -> Iterator[TaskHistory]:
        """The entries of one segment, or of all, oldest first. Raises StoreError for a missing or damaged segment."""
        for each in self.numbers() if number is None else [number]:
            for line in self.lines(each):
                yield _decode(self.path(each), line, TaskHistory)

    def search(self, text: str, *, limit: int = 50) -> tuple[TaskHistory, ...]:
        """Entries with the text in any field, whatever its case, the newest first; reads until it has enough."""
        wanted = text.casefold()
        in_line = msgspec.json.encode(wanted)[1:-1].decode()
        found: list[TaskHistory] = []
        for number in reversed(self.numbers()):
            near = [line for line in self.lines(number) if in_line in line.decode().casefold()]
            entries = (_decode(self.path(number), line, TaskHistory) for line in reversed(near))
            found += [entry for entry in entries if entry.mentions(wanted)]
            if len(found) >= limit:
                break
        return tuple(found[:limit])

    def remove(self, number: int) -> None:
        """Delete a segment whose entries are all still live."""
        self.path(number).unlink()

    def remove_unfinished(self) -> None:
        """Delete what a crash left half written; only inside a write transaction."""
        remove_unfinished(self._directory)


def _decode(path: Path, line: bytes, type_: type[_T]) -> _T:
    try:
        return msgspec.json.decode(line, type=type_)
    except msgspec.MsgspecError as error:
        raise StoreError(f"the archive segment {path} is not as Taskyard wrote it: {error}") from error
