"""The end of a file that may grow: only appended bytes are ever read."""

from __future__ import annotations

import os
from pathlib import Path

from tui.format import safe_lines
from tui.plain import size

FIRST_BYTES = 1_000_000
"""How much of the end is read when the file is opened."""

MAX_LINES = 20_000


class LogTail:
    """Follows one file. `lines` are safe to show; the last one may still grow. `read` blocks: call it in a thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[str] = []
        self.skipped = ""
        self._offset = 0
        self._inode = 0
        self._rest = b""

    def read(self) -> bool:
        """Read what was appended; gives whether anything was. A file that is gone leaves the lines as they are."""
        try:
            with open(self.path, "rb") as file:
                stat = os.fstat(file.fileno())
                if stat.st_ino != self._inode or stat.st_size < self._offset:
                    self._begin(stat.st_ino, stat.st_size)
                if stat.st_size == self._offset:
                    return False
                file.seek(self._offset)
                data = file.read(min(stat.st_size - self._offset, 4 * FIRST_BYTES))
        except OSError:
            return False
        self._offset += len(data)
        self._take(data)
        return True

    def _begin(self, inode: int, total: int) -> None:
        self._inode, self.lines, self._rest = inode, [], b""
        self._offset = max(0, total - FIRST_BYTES)
        self.skipped = f"the last {size(FIRST_BYTES)} of {size(total)}" if self._offset else ""

    def _take(self, data: bytes) -> None:
        if self._rest:
            self.lines.pop()
        complete, newline, rest = (self._rest + data).rpartition(b"\n")
        if newline:
            self.lines += [
                line
                for part in complete.split(b"\n")
                for line in safe_lines(part.decode(errors="replace")) or [""]
            ]
        self._rest = rest
        if rest:
            self.lines += safe_lines(rest.decode(errors="replace")) or [""]
        del self.lines[: max(0, len(self.lines) - MAX_LINES)]
