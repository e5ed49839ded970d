"""The lessons file itself: appended to by any number of processes, read from where one left off.

    file = LessonsFile(path)
    file.append(encode_line(lesson))
    chunk = file.read(Position())          # the first lines
    file.read(chunk.after)                 # only what came since

A reader remembers a `Position`. It survives restarts, and notices when the file below it was truncated, rotated,
replaced or edited. A file that was replaced by one that begins with the same bytes (git does that on every pull)
goes on where it was.
"""

from __future__ import annotations

import fcntl
import os
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from engine.errors import StoreError
from engine.regular import open_regular, require_regular

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK = 4 << 20
"""Bytes to read at once; a longer line is read whole all the same."""

TAIL = 64
"""Bytes before a position that must be unchanged for it to hold."""

BLOCK = 1 << 20  # bytes read at once where the whole file is gone through


@dataclass(frozen=True, slots=True)
class Position:
    """How far a file was read: `offset` is after a newline, `checksum` the CRC-32 of all bytes before it."""

    device: int = 0
    inode: int = 0
    offset: int = 0
    mtime_ns: int = 0
    checksum: int = 0
    tail: bytes = b""
    lines: int = 0


@dataclass(frozen=True, slots=True)
class Chunk:
    """Lines without their newlines. `restarted`: what was read before is not in the file any more, these are its first.

    `size` is that of the whole file; `more` says that further lines wait.
    """

    lines: tuple[bytes, ...]
    after: Position
    restarted: bool
    more: bool
    size: int


class LessonsFile:
    """The JSONL file at `path`, which need not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, lines: bytes) -> None:
        """Add whole lines (with their newlines) in one piece; raises StoreError, and then nothing was added.

        A torn line that a killed writer left behind gets its newline first, so that it spoils no other. The bytes
        outlive this process at once; they are not forced to the disk, since a lesson is not worth a sync.
        """
        try:
            with self._locked() as descriptor:
                size = os.fstat(descriptor).st_size
                if size and os.pread(descriptor, 1, size - 1) != b"\n":
                    lines = b"\n" + lines
                _write_whole(descriptor, lines, size)
        except OSError as error:
            raise StoreError(
                f"{self.path} cannot be appended to: {error.strerror}",
                "free some space, or set [lessons] file to a place you may write to",
            ) from error

    def read(self, position: Position, limit: int = CHUNK) -> Chunk:
        """The whole lines after `position`, about `limit` bytes of them; raises StoreError.

        A file that does not exist is an empty one. The last line counts once its newline is written.
        """
        try:
            with open_regular(self.path) as file:
                return _read(file, position, limit)
        except FileNotFoundError:
            return Chunk((), Position(), restarted=position.offset > 0, more=False, size=0)
        except OSError as error:
            raise StoreError(
                f"{self.path} cannot be read: {error.strerror}", "check its permissions"
            ) from error

    def unchanged_since(self, position: Position) -> bool:
        """Whether nothing happened to the file, at the price of one `stat`."""
        try:
            found = os.stat(self.path)
        except OSError:
            return position == Position()
        return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns) == (
            position.device,
            position.inode,
            position.offset,
            position.mtime_ns,
        )

    def unfinished(self) -> tuple[int, int, bytes]:
        """Number, offset and content of what stands after the last newline; the content may be empty."""
        position, more = Position(), True
        while more:
            chunk = self.read(position)
            position, more = chunk.after, chunk.more
        try:
            with open_regular(self.path) as file:
                file.seek(position.offset)
                return position.lines + 1, position.offset, file.readall()
        except OSError:
            return 1, 0, b""

    def size(self) -> int:
        """Bytes of the file, 0 when there is none."""
        try:
            return os.stat(self.path).st_size
        except OSError:
            return 0

    @contextmanager
    def _locked(self) -> Iterator[int]:
        while True:
            descriptor = self._opened()
            try:
                require_regular(descriptor, self.path)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if self._is_at_path(descriptor):
                    yield descriptor
                    return
            finally:
                os.close(descriptor)

    def _opened(self) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            return os.open(self.path, flags, 0o644)
        except FileNotFoundError:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(self.path, flags, 0o644)

    def _is_at_path(self, descriptor: int) -> bool:
        # Between opening and locking, the file may have been rotated away; a line added to it now would be lost.
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self.path))
        except FileNotFoundError:
            return False


def _write_whole(descriptor: int, data: bytes, size: int) -> None:
    written = 0
    try:
        while written < len(data):
            written += os.write(descriptor, data[written:])
    except OSError:
        # A full disk takes a part. Nobody else writes while we hold the lock, unless it is a program that knows
        # nothing of locks: then its bytes stay, and ours are one malformed line.
        if os.fstat(descriptor).st_size == size + written:
            os.ftruncate(descriptor, size)
        raise


def _read(file: BinaryIO, position: Position, limit: int) -> Chunk:
    found = os.fstat(file.fileno())
    restarted = position.offset > 0 and not _holds(file, position, found)
    start = Position() if restarted else position
    file.seek(start.offset)
    available = found.st_size - start.offset
    data, read = _whole_lines(file, available, limit)
    lines = data.split(b"\n")[:-1] if data else []
    after = Position(
        device=found.st_dev,
        inode=found.st_ino,
        offset=start.offset + len(data),
        mtime_ns=found.st_mtime_ns,
        checksum=zlib.crc32(data, start.checksum),
        tail=(start.tail + data[-TAIL:])[-TAIL:],
        lines=start.lines + len(lines),
    )
    # A torn last line is no reason to come back before the file grows.
    return Chunk(tuple(lines), after, restarted=restarted, more=read < available, size=found.st_size)


def _holds(file: BinaryIO, position: Position, found: os.stat_result) -> bool:
    """Whether the bytes before the position are still those that were read."""
    if found.st_size < position.offset:
        return False
    same_file = (found.st_dev, found.st_ino) == (position.device, position.inode)
    if same_file and found.st_mtime_ns == position.mtime_ns:
        return True
    file.seek(position.offset - len(position.tail))
    if _exactly(file, len(position.tail)) != position.tail:
        return False
    if same_file and found.st_size > position.offset:
        return True
    # Another file, or one that was written to and did not grow: only reading it tells whether it is the same.
    file.seek(0)
    checksum, left = 0, position.offset
    while left and (block := file.read(min(BLOCK, left))):
        checksum = zlib.crc32(block, checksum)
        left -= len(block)
    return left == 0 and checksum == position.checksum


def _whole_lines(file: BinaryIO, available: int, limit: int) -> tuple[bytes, int]:
    """About `limit` of the available bytes, cut after a newline (empty when there is none), and how many were read."""
    data = _exactly(file, min(available, limit))
    parts = [data]
    read = len(data)
    while (end := parts[-1].rfind(b"\n")) < 0:
        block = _exactly(file, min(available - read, limit))
        if not block:
            return b"", read
        parts.append(block)
        read += len(block)
    parts[-1] = parts[-1][: end + 1]
    return b"".join(parts), read


def _exactly(file: BinaryIO, count: int) -> bytes:
    parts = []
    while count > 0 and (block := file.read(count)):
        parts.append(block)
        count -= len(block)
    return b"".join(parts)
