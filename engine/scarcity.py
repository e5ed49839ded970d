"""What a machine may run out of while tasks work: no task is to blame, and none can mend it."""

from __future__ import annotations

import errno
import os

from engine.errors import GitError, HaltedError

_FEWER = "or fewer tasks at once (-j), and run again"
_HINTS = {
    errno.ENOSPC: "make room on the disk, and run again",
    errno.EDQUOT: "make room on the disk, and run again",
    errno.EROFS: "make the disk writable, and run again",
    errno.EMFILE: f"allow more open files (ulimit -n), {_FEWER}",
    errno.ENFILE: f"allow more open files on this machine, {_FEWER}",
    errno.EAGAIN: f"allow more processes (ulimit -u), {_FEWER}",
    errno.ENOMEM: f"free some memory, {_FEWER}",
}


def scarcity(error: BaseException) -> HaltedError | None:
    """What stops a run whose machine has run out of something, if that is what the error or its cause tells."""
    seen: BaseException | None = error
    while seen is not None:
        if (number := _lacking(seen)) is not None:
            what = error.message if isinstance(error, GitError) else os.strerror(number).lower()
            return HaltedError(what, _HINTS[number])
        seen = seen.__cause__
    return None


def _lacking(error: BaseException) -> int | None:
    if isinstance(error, OSError):
        return error.errno if error.errno in _HINTS else None
    if isinstance(error, MemoryError):
        return errno.ENOMEM
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        return errno.EAGAIN
    if isinstance(error, GitError):
        return next((number for number in _HINTS if os.strerror(number) in error.stderr), None)
    return None
