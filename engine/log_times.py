"""When the bytes of a log arrived, written beside it (`<log>.times`), so that the log itself stays what a child said.

A record is the offset in the log and the seconds since the epoch, at most one each second: a line's time is that of
the last record at or before it, true to a second.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path

from engine.model import LATEST
from engine.regular import open_regular

EVERY = 1.0
"""Seconds between two records."""

_RECORD = struct.Struct("<Qd")


class LogTimes:
    """Writes the records of one log. Note the time before the bytes are written: a reader then never lacks it."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self._path = _beside(log)
        self._last = float("-inf")

    def note(self, offset: int, at: float) -> None:
        """Say that what is written at `offset` arrived at `at`. A full disk is no reason to stop."""
        if at - self._last < EVERY:
            return
        self._last = at
        with contextlib.suppress(OSError), self._path.open("ab") as file:
            # A full disk, or a kill, may have left a part of the record before this one.
            file.truncate(_whole(file.tell()))
            file.write(_RECORD.pack(offset, at))

    def cut(self, offset: int, at: float) -> None:
        """Forget what was said of the log from `offset` on: it was cut there, and goes on with what is newer."""
        with contextlib.suppress(OSError), self._path.open("r+b") as file:
            kept = [each for each in _unpacked(file.read()) if each[0] < offset]
            file.truncate(len(kept) * _RECORD.size)
        self._last = float("-inf")
        self.note(offset, at)


class LogTimesReader:
    """Reads the records of one log; each `read` only those that are new."""

    def __init__(self, log: Path) -> None:
        self._path = _beside(log)
        self._read = 0

    def read(self) -> list[tuple[int, float]]:
        """The new records, (offset, seconds since the epoch) each; none where nobody wrote them."""
        try:
            with open_regular(self._path) as file:
                file.seek(self._read)
                data = file.readall()
        except OSError:
            return []
        self._read += _whole(len(data))
        return [each for each in _unpacked(data) if 0 <= each[1] < LATEST]


def _unpacked(data: bytes) -> Iterator[tuple[int, float]]:
    """The whole records."""
    return _RECORD.iter_unpack(data[: _whole(len(data))])


def _whole(count: int) -> int:
    """So many of the bytes are whole records."""
    return count - count % _RECORD.size


def _beside(log: Path) -> Path:
    return log.with_name(f"{log.name}.times")
