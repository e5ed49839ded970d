"""A log that never grows beyond a limit: its beginning and its end stay, and a line between them says what was cut.

It is cut again and again while a program goes on talking, so that who follows it always sees the newest lines.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from engine.log_times import LogTimes

MAX_LOG = 20_000_000
"""Bytes of one log, where the settings say nothing else."""


class CappedLog:
    """Appends to the file at `path`, and keeps it within `limit` bytes: the first half of that, and the newest rest.

    Raises OSError when it cannot be written.
    """

    def __init__(self, path: Path, limit: int, clock: Callable[[], float]) -> None:
        self._path = path
        self._limit = limit
        self._clock = clock
        self._file = path.open("ab")
        self._times = LogTimes(path)
        self._head = 0
        self._left_out = 0

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._file.closed

    def write(self, data: bytes) -> None:
        """Append what a program said."""
        self._times.note(self._file.tell(), self._clock())
        self._file.write(data)
        self._file.flush()
        if self._file.tell() > self._limit:
            self._cut()

    def _cut(self) -> None:
        with self._path.open("rb") as file:
            if not self._head:
                start = file.read(self._limit // 2)
                self._head = start.rfind(b"\n") + 1 or len(start)
                after_note = self._head
            else:
                file.seek(self._head)
                after_note = self._head + len(file.readline())
            size = self._file.tell()
            file.seek(max(after_note, size - self._limit // 4))
            tail = file.read()
        tail = tail[tail.find(b"\n") + 1 :]
        self._left_out += size - after_note - len(tail)
        self._file.truncate(self._head)
        self._times.cut(self._head, self._clock())
        self._file.write(b"[cut here: %d bytes left out; [run] max_log]\n" % self._left_out + tail)
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
