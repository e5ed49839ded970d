"""Run git on one repository: in threads of our own, in a cleaned environment, within a time limit.

GitPython serves only as a thin `execute`. Its object API hangs under threads, and runs in the process's own directory
when a worktree has gone; every command here names its folder by `-C`, which git refuses when it is missing.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import msgspec

from engine.errors import GitError, PreflightError
from engine.git.environment import clean_environment
from engine.git.exchange import exchange
from engine.git.versions import INSTALL
from engine.process import is_secret

FAULT_POINT = "TASKYARD_FAULT_POINT"
TIMEOUT = 120.0  # seconds for one command
KILL_AFTER = 2.0  # seconds between TERM and KILL
THREADS = 32  # at work at once, each waiting for its git

# A git that outlived a killed run may hold a lock for a moment; the two time-outs (ms) wait for it.
_CONFIG = (
    "gc.auto=0",
    "maintenance.auto=false",
    "core.quotePath=false",
    "advice.detachedHead=false",
    "core.filesRefLockTimeout=3000",
    "core.packedRefsTimeout=5000",
)
_QUIET = tuple(word for setting in _CONFIG for word in ("-c", setting))
# Without git-lfs its filter fails, and nothing can be checked out; so the pointers stay as they are.
_NO_LFS = tuple(
    word
    for setting in ("required=false", "smudge=", "clean=", "process=")
    for word in ("-c", f"filter.lfs.{setting}")
)
_NO_HOOKS = ("-c", f"core.hooksPath={os.devnull}")
# In a worktree without folders chosen for it this changes nothing.
_SPARSE = ("-c", "core.sparseCheckout=true")
_commands = itertools.count(1)


class GitResult(msgspec.Struct, frozen=True):
    """How a git command ended. Text is UTF-8, with undecodable bytes kept as surrogates."""

    status: int
    stdout: str
    stderr: str


class Repository:
    """One repository, whichever of its folders it was opened from. Made by `open`."""

    def __init__(
        self, root: Path, common_dir: Path, environ: Mapping[str, str], *, bare: bool = False
    ) -> None:
        self.root = root
        self.common_dir = common_dir
        self.bare = bare
        self.name = (
            common_dir.parent.name if common_dir.name == ".git" else common_dir.name.removesuffix(".git")
        )
        self._environ = clean_environment(environ)
        self.has_lfs = shutil.which("git-lfs", path=environ.get("PATH")) is not None
        self._version: tuple[int, int] | None = None

    @classmethod
    async def open(cls, path: Path, *, environ: Mapping[str, str]) -> Repository:
        """Find the repository that `path` is in; from a subfolder or a linked worktree too.

        Raises PreflightError when there is none, git is missing, or git does not trust the folder.
        """
        path = path.absolute()
        probe = cls(path, path, environ)
        result = await probe.run(
            "rev-parse", "--is-bare-repository", "--git-common-dir", "--show-toplevel", check=False
        )
        if "dubious ownership" in result.stderr:
            raise PreflightError(
                f"{path} belongs to another user, so git does not trust it",
                f"if you do: git config --global --add safe.directory {path.resolve()}",
            )
        lines = result.stdout.splitlines()
        if len(lines) < 2:
            raise PreflightError(f"{path} is not in a git repository", "go to one, or run git init")
        bare = lines[0] == "true"
        common = (path / lines[1]).resolve()
        # There is no third line where there is no working tree: in a bare repository, and inside a .git folder.
        around = common.parent if common.name == ".git" and not bare else common
        root = Path(lines[2]) if len(lines) > 2 else around
        return cls(root, common, environ, bare=bare)

    async def run(
        self,
        *args: str,
        cwd: Path | None = None,
        check: bool = True,
        hooks: bool = False,
        secrets: bool = True,
        env: Mapping[str, str] | None = None,
        input: bytes | None = None,
        timeout: float = TIMEOUT,
    ) -> GitResult:
        """Run `git <args>` in `cwd` (default: the repository), in a thread.

        `hooks` lets the user's hooks run; without `secrets` they see no keys, since a hook may lie in a tree that a
        model wrote. Raises GitError when `check` and the status is not 0, and after `timeout` seconds; PreflightError
        when git is not installed. Cancelling ends git before the caller goes on, so that nothing works on behind its
        back; git removes its own locks then.
        """
        command = ["git", "-C", str(cwd or self.root), *_QUIET]
        command += [*(() if self.has_lfs else _NO_LFS), *(() if hooks else _NO_HOOKS)]
        command += [*(_SPARSE if cwd is not None else ()), *args]
        environment = {**self._environ, **(env or {})}
        if not secrets:
            environment = {name: value for name, value in environment.items() if not is_secret(name)}
        if cwd is not None:
            # A worktree that lost its .git file must not make git find, and change, a repository around it.
            environment["GIT_CEILING_DIRECTORIES"] = str(cwd.parent)
        number = next(_commands)
        _fault(number, "before")
        child = _Child(number, command, environment, input or b"", timeout)
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
        if check and result.status != 0:
            words = result.stderr.strip() or result.stdout.strip() or f"status {result.status}"
            raise GitError(
                f"git {args[0]} failed: {_telling_line(words)}", status=result.status, stderr=words
            )
        return result

    async def version(self) -> tuple[int, int]:
        """Give git's version, its first two numbers."""
        if self._version is None:
            found = re.search(r"(\d+)\.(\d+)", await self.line("version"))
            self._version = (int(found[1]), int(found[2])) if found else (0, 0)
        return self._version

    async def line(self, *args: str, cwd: Path | None = None) -> str:
        """Run a command that answers one line; gives it without its end."""
        return (await self.run(*args, cwd=cwd)).stdout.strip()

    async def commit_of(self, name: str) -> str | None:
        """Give the commit id that a name stands for, or None."""
        result = await self.run(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", check=False
        )
        return result.stdout.strip() or None if result.status == 0 else None

    async def commit_of_head(self, worktree: Path) -> str | None:
        """Give the commit that is checked out in one worktree, or None when it is none."""
        result = await self.run(
            "rev-parse", "--verify", "--quiet", "HEAD^{commit}", cwd=worktree, check=False
        )
        return result.stdout.strip() or None if result.status == 0 else None

    async def tree_of(self, commit: str) -> str:
        """Give the tree id of a commit. Raises GitError."""
        return await self.line("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}")

    async def blob(self, commit: str, path: str) -> bytes | None:
        """Give the bytes of a file at a commit, or None where it has none."""
        result = await self.run("cat-file", "blob", f"{commit}:{path}", check=False)
        return result.stdout.encode("utf-8", "surrogateescape") if result.status == 0 else None

    async def is_ancestor(self, commit: str, of: str) -> bool:
        """Whether `commit` is in the history of `of`."""
        return (await self.run("merge-base", "--is-ancestor", commit, of, check=False)).status == 0


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


def _telling_line(words: str) -> str:
    """The line that says what is wrong; hints and lists of similar commands come after it."""
    lines = words.splitlines()
    return next((line for line in lines if line.startswith(("fatal:", "error:", "git: "))), lines[-1]).strip()


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _fault(number: int, when: str) -> None:
    """Die here, as by kill -9, when a test asks for it: `TASKYARD_FAULT_POINT=12:after` (or before, or during).

    Commands are counted from 1 over the whole process.
    """
    if os.environ.get(FAULT_POINT) == f"{number}:{when}":
        os.kill(os.getpid(), signal.SIGKILL)
