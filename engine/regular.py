"""Reading files in whose place anything may lie: a pipe would hold the reader for ever, a device would never end.

with open_regular(path) as file: ...
text = read_regular_text(path, "utf-8")
"""

from __future__ import annotations

import errno
import os
import stat
from io import BytesIO, FileIO, TextIOWrapper
from pathlib import Path

MOST = 64 << 20
"""Bytes of a file that is read whole: what people write by hand is far smaller."""


def open_regular(path: Path) -> FileIO:
    """Open a file for reading, unbuffered. Raises OSError, for what is no regular file as well."""
    # Without O_NONBLOCK a pipe that nobody writes to is not even opened. Of files it changes nothing.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        require_regular(descriptor, path)
        return FileIO(descriptor)
    except BaseException:
        os.close(descriptor)
        raise


def require_regular(descriptor: int, path: Path) -> None:
    """Raise OSError unless a regular file is open there, or what always is an empty one (`/dev/null`)."""
    found = os.fstat(descriptor)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode) and found.st_rdev != os.stat(os.devnull).st_rdev:
        raise OSError(errno.EINVAL, "it is no regular file", str(path))


def read_regular(path: Path, most: int = MOST) -> bytes:
    """All of a file. Raises OSError, also for what is no regular file, or one of more than `most` bytes."""
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > most:
            raise OSError(errno.EFBIG, f"it is larger than {most >> 20} MB", str(path))
        return file.readall()


def read_regular_text(path: Path, encoding: str) -> str:
    """The text of a file, its lines ending in newlines. Raises OSError as `read_regular`, and UnicodeDecodeError."""
    data = read_regular(path)
    return TextIOWrapper(BytesIO(data), encoding=encoding).read()
