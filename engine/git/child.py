"""One git command as a process: in a thread of our own, within a time limit, ended with all that it started.

GitPython serves only as a thin `execute`. Its object API hangs under threads, and runs in the process's own directory
when a worktree has gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import msgspec

from engine.errors import GitError, PreflightError
from engine.git.exchange import exchange
from engine.git.versions import INSTALL

FAULT_POINT = "TASKYARD_FAULT_POINT"
KILL_AFTER = 2.0  # seconds between TERM and KILL
THREADS = 32  # at work at once, each waiting for its git

commands = itertools.count(1)
"""Numbers the commands of this process."""


class GitResult(msgspec.Struct, frozen=True):
    """How a git command ended. Text is UTF-8, with undecodable bytes kept as surrogates."""

    status: int
    stdout: str
    stderr: str


async def run_git(
    command: Sequence[str], environment: Mapping[str, str], input: bytes, timeout: float
) -> GitResult:
    """Run a git command, whose words name its folder by `-C`, in this environment and no other.

    Raises GitError after `timeout` seconds, PreflightError when git is not installed. Cancelled, it ends git first.
    """
    number = next(commands)
    _fault(number, "before")
    child = _Child(number, command, environment, input, timeout)
    running = asyncio.get_running_loop().run_in_executor(_pool(), child.run)
    try:
        result = await asyncio.shield(running)
    except asyncio.CancelledError:
        child.end()
        while not running.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait((running,))
        running.exception()
        raise
    _fault(number, "after")
    return result


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    """Threads of our own: the loop's default pool has six on two cores, and others wait in it."""
    return ThreadPoolExecutor(THREADS, thread_name_prefix="git")


class _Child:
    """One git process: `run` it in a thread, `end` it from another."""

    def __init__(
        self,
        number: int,
        command: Sequence[str],
        environment: Mapping[str, str],
        input: bytes,
        timeout: float,
    ) -> None:
        self._number = number
        self._command = command
        self._environment = environment
        self._input = input
        self._timeout = timeout
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper: object = None
        self._ended = False

    def run(self) -> GitResult:
        child = self._start()
        if child is None:
            return GitResult(-signal.SIGTERM, "", "cancelled")
        _fault(self._number, "during")
        overran = False
        try:
            heard = exchange(child, self._input, self._timeout)
        except TimeoutError:
            overran = True
            self.end()
            heard = exchange(child)
        if heard.held and self._ended:
            _end_rest(child.pid)
        if overran:
            subcommand = next(word for word in self._command[3:] if word != "-c" and "=" not in word)
            raise GitError(
                f"git {subcommand} took longer than {self._timeout:g} s",
                "see what holds git up: a hook that waits, a slow disk, another git",
            )
        return GitResult(child.returncode, _text(heard.out), _text(heard.err))

    def _start(self) -> subprocess.Popen[bytes] | None:
        # Without git on PATH, importing GitPython fails unless told to be quiet.
        os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
        from git import Git, GitCommandNotFound

        # GitPython lays our environment over the process's own, and cannot take a name away from it.
        leaked = [name for name in os.environ if name not in self._environment]
        away = ["env", *(word for name in leaked for word in ("-u", name))] if leaked else []
        with self._lock:
            if self._ended:
                return None
            try:
                process = Git(os.sep).execute(
                    [*away, *self._command],
                    as_process=True,
                    env=dict(self._environment),
                    istream=subprocess.PIPE,
                    start_new_session=True,
                )
            except GitCommandNotFound:
                raise PreflightError("git is not installed", INSTALL) from None
            # GitPython ends the process when its wrapper is no longer referred to.
            self._keeper = process
            self._process = process.proc
        return self._process

    def end(self) -> None:
        """End git and what it started: TERM, on which it removes its locks, and KILL if that does not help."""
        with self._lock:
            self._ended = True
            if self._process is None:
                return
            self._signal(signal.SIGTERM)
        timer = threading.Timer(KILL_AFTER, self._signal, (signal.SIGKILL,))
        timer.daemon = True
        timer.start()

    def _signal(self, number: signal.Signals) -> None:
        child = self._process
        # Once it is reaped its number may be another's.
        if child is not None and child.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, number)


def _end_rest(group: int) -> None:
    """Kill what is left of a group whose leader has ended, once it had its time; what has left the group goes on."""
    give_up = time.monotonic() + KILL_AFTER
    with contextlib.suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < give_up:
            os.killpg(group, 0)
            time.sleep(0.02)
        os.killpg(group, signal.SIGKILL)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _fault(number: int, when: str) -> None:
    """Die here, as by kill -9, when a test asks for it: `TASKYARD_FAULT_POINT=12:after` (or before, or during).

    Commands are counted from 1 over the whole process.
    """
    if os.environ.get(FAULT_POINT) == f"{number}:{when}":
        os.kill(os.getpid(), signal.SIGKILL)
