"""Compressed segments that rows move to when they leave a live table: written whole or not at all.

A segment is a gzip file of JSON lines. It is written under another name, synced, renamed and the directory synced, all
inside the database transaction that then deletes the rows and notes how far the archive reaches. A crash in between
leaves a segment that the database does not know of (an orphan) while its rows are still live.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from engine.errors import StoreError

SUFFIX = ".jsonl.gz"


def write_segment(path: Path, lines: Iterable[bytes]) -> int:
    """Write the lines (without newlines) as one segment that survives a power cut; gives its size in bytes.

    Raises StoreError when the disk is full or the directory cannot be written; nothing is left behind then.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        data = gzip.compress(b"".join(line + b"\n" for line in lines), compresslevel=6, mtime=0)
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_directory(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise StoreError(
            f"the archive segment {path} was not written: {error.strerror}",
            "free some space or mend the permissions",
        ) from error
    return len(data)


def read_segment(path: Path) -> Iterator[bytes]:
    """The lines of a segment, without newlines. Raises StoreError when it is missing or damaged."""
    try:
        with gzip.open(path, "rb") as file:
            for line in file:
                yield line.rstrip(b"\n")
    except (OSError, EOFError, zlib.error) as error:
        raise StoreError(f"the archive segment {path} cannot be read: {error}") from error


def segment_files(directory: Path) -> list[Path]:
    """The segments of a directory by name; unfinished ones are not among them."""
    return [directory / name for name in sorted(_names(directory)) if name.endswith(SUFFIX)]


def remove_unfinished(directory: Path) -> None:
    """Delete what a crash left half written. Only the holder of the write transaction may call this."""
    for name in _names(directory):
        if name.endswith(SUFFIX + ".tmp"):
            (directory / name).unlink(missing_ok=True)


def sync_directory(directory: Path) -> None:
    """Make renames and removals in the directory survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _names(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise StoreError(
            f"the archive {directory} cannot be read: {error.strerror}", "check its permissions"
        ) from error
