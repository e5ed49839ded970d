"""What a machine has run out of is told from what a task did wrong."""

from __future__ import annotations

import errno

import pytest

from engine.errors import GitError, ProcessError, TaskyardError
from engine.scarcity import scarcity


def caused(error: TaskyardError, cause: BaseException) -> TaskyardError:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "x"), "no space left on device: make room on the disk"),
        (OSError(errno.EMFILE, "x"), "too many open files: allow more open files (ulimit -n)"),
        (BlockingIOError(errno.EAGAIN, "x"), "resource temporarily unavailable: allow more processes"),
        (OSError(errno.EROFS, "x"), "read-only file system: make the disk writable"),
        (MemoryError(), "cannot allocate memory: free some memory"),
        (RuntimeError("can't start new thread"), "resource temporarily unavailable: allow more processes"),
        (
            GitError("git commit failed", stderr="fatal: unable to write: No space left on device\n"),
            "git commit failed: make room on the disk",
        ),
        (
            GitError("git add failed", stderr='error: open("a"): Too many open files\n'),
            "git add failed: allow more open files (ulimit -n)",
        ),
        (caused(ProcessError("cannot start sh"), OSError(errno.ENOMEM, "x")), "cannot allocate memory: "),
    ],
)
def test_it_stops_the_run_and_says_what_to_do(error: BaseException, words: str) -> None:
    halted = scarcity(error)
    assert halted is not None
    assert str(halted).startswith(words)


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "x"),
        PermissionError(errno.EACCES, "x"),
        RuntimeError("x"),
        GitError("git commit failed", stderr="fatal: bad object\n"),
        caused(ProcessError("cannot start agent"), FileNotFoundError(errno.ENOENT, "x")),
    ],
)
def test_anything_else_is_for_the_task_to_mend(error: BaseException) -> None:
    assert scarcity(error) is None
