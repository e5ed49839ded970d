"""The end of a file that may grow: only appended bytes are ever read."""

from __future__ import annotations

import bisect
import os
from pathlib import Path

from engine.log_times import LogTimesReader
from engine.regular import open_regular
from tui.format import safe_lines
from tui.plain import size

FIRST_BYTES = 1_000_000
"""How much of the end is read when the file is opened, or when it grew faster than it is read."""

MAX_LINES = 20_000  # kept of one log, the newest
MAX_REST = 64_000
"""The most bytes that are kept of a line without an end."""


class LogTail:
    """Follows one file. `read` blocks: call it in a thread, and look at the rest when it has returned.

    `lines` are safe to show; the last one may still grow. `times` tells when each began to arrive, in seconds since
    the epoch, None where nobody wrote that down. `first` is the number of lines that were dropped before them, and
    `changed` the number of the first line, counted like that, which the last `read` added or changed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[str] = []
        self.times: list[float | None] = []
        self.first = 0
        self.changed = 0
        self.skipped = ""
        self._offset = 0
        self._inode = 0
        self._rest = b""
        self._times = LogTimesReader(path)
        self._marks: list[tuple[int, float]] = []

    @property
    def waiting(self) -> int:
        """How many bytes there are to read. One question to the file system, which needs no thread."""
        try:
            stat = os.stat(self.path)
        except OSError:
            return 0
        known = stat.st_ino == self._inode and stat.st_size >= self._offset
        return stat.st_size - self._offset if known else stat.st_size

    def read(self) -> bool:
        """Read what was appended; gives whether anything was. A file that is gone leaves the lines as they are."""
        try:
            with open_regular(self.path) as file:
                stat = os.fstat(file.fileno())
                if stat.st_ino != self._inode or stat.st_size < self._offset:
                    self._begin(stat.st_ino)
                if stat.st_size == self._offset:
                    return False
                if stat.st_size - self._offset > FIRST_BYTES:
                    self._skip(stat.st_size)
                file.seek(self._offset)
                data = file.read(FIRST_BYTES)
        except OSError:
            return False
        self._marks += self._times.read()
        self._take(data)
        return True

    def _begin(self, inode: int) -> None:
        self._inode, self._offset = inode, 0
        self._forget()
        self.skipped = ""
        self._times, self._marks = LogTimesReader(self.path), []

    def _skip(self, total: int) -> None:
        self._forget()
        self._offset = total - FIRST_BYTES
        self.skipped = f"the last {size(FIRST_BYTES)} of {size(total)}"

    def _forget(self) -> None:
        self.first += len(self.lines)
        self.lines, self.times, self._rest = [], [], b""

    def _take(self, data: bytes) -> None:
        start = self._offset - len(self._rest)
        self._offset += len(data)
        if self._rest:
            del self.lines[-1], self.times[-1]
        self.changed = self.first + len(self.lines)
        *complete, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-MAX_REST:]
        for part in [*complete, self._rest] if self._rest else complete:
            self.lines += safe_lines(part.decode(errors="replace")) or [""]
            self.times.append(self._time_of(start))
            start += len(part) + 1
        dropped = max(0, len(self.lines) - MAX_LINES)
        if dropped:
            del self.lines[:dropped], self.times[:dropped]
            self.first += dropped

    def _time_of(self, offset: int) -> float | None:
        after = bisect.bisect_right(self._marks, (offset, float("inf")))
        return self._marks[after - 1][1] if after else None
