"""Run git on one repository: in threads of our own, in a cleaned environment, within a time limit.

GitPython serves only as a thin `execute`. Its object API hangs under threads, and runs in the process's own directory
when a worktree has gone; every command here names its folder by `-C`, which git refuses when it is missing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import msgspec

from engine.errors import GitError, PreflightError

FAULT_POINT = "TASKYARD_FAULT_POINT"
TIMEOUT = 120.0
THREADS = 32

# What `git rev-parse --local-env-vars` names: a leaked GIT_INDEX_FILE writes into the user's index.
LOCAL_VARIABLES = frozenset(
    """
    GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_CONFIG GIT_CONFIG_PARAMETERS GIT_CONFIG_COUNT GIT_OBJECT_DIRECTORY GIT_DIR
    GIT_WORK_TREE GIT_IMPLICIT_WORK_TREE GIT_GRAFT_FILE GIT_INDEX_FILE GIT_NO_REPLACE_OBJECTS GIT_REPLACE_REF_BASE
    GIT_PREFIX GIT_SHALLOW_FILE GIT_COMMON_DIR GIT_INTERNAL_SUPER_PREFIX GIT_QUARANTINE_PATH GIT_NAMESPACE
    """.split()
)

_QUIET = (
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    "core.quotePath=false",
    "-c",
    "advice.detachedHead=false",
)
_NO_HOOKS = ("-c", f"core.hooksPath={os.devnull}")


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
        self._count = 0

    @classmethod
    async def open(cls, path: Path, *, environ: Mapping[str, str]) -> Repository:
        """Find the repository that `path` is in; from a subfolder or a linked worktree too.

        Raises PreflightError when there is none, git is missing, or git does not trust the folder.
        """
        probe = cls(path, path, environ)
        try:
            result = await probe.run(
                "rev-parse", "--is-bare-repository", "--git-common-dir", "--show-toplevel", check=False
            )
        except FileNotFoundError:
            raise PreflightError("git is not installed", "install git 2.30 or newer") from None
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
        root = Path(lines[2]) if not bare and len(lines) > 2 else common
        return cls(root, common, environ, bare=bare)

    async def run(
        self,
        *args: str,
        cwd: Path | None = None,
        check: bool = True,
        hooks: bool = False,
        env: Mapping[str, str] | None = None,
        input: bytes | None = None,
        timeout: float = TIMEOUT,
    ) -> GitResult:
        """Run `git <args>` in `cwd` (default: the repository), in a thread.

        `hooks` lets the user's hooks run. Raises GitError when `check` and the status is not 0, and after `timeout`
        seconds. Cancelling the caller lets git end by itself: a half-done command is worse than a late one.
        """
        command = ["git", "-C", str(cwd or self.root), *_QUIET, *(() if hooks else _NO_HOOKS), *args]
        environment = {**self._environ, **(env or {})}
        self._count += 1
        _fault(self._count, "before")
        loop = asyncio.get_running_loop()
        result = await loop.run_in_executor(_pool(), _execute, command, environment, input, timeout)
        _fault(self._count, "after")
        if check and result.status != 0:
            words = result.stderr.strip() or result.stdout.strip() or f"status {result.status}"
            raise GitError(
                f"git {args[0]} failed: {words.splitlines()[-1]}", status=result.status, stderr=words
            )
        return result

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

    async def is_ancestor(self, commit: str, of: str) -> bool:
        """Whether `commit` is in the history of `of`."""
        return (await self.run("merge-base", "--is-ancestor", commit, of, check=False)).status == 0


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Give the environment for git: without what points it elsewhere, and without anything that could ask a person."""
    env = {
        name: value for name, value in environ.items() if name not in LOCAL_VARIABLES and not _numbered(name)
    }
    env.update(
        GIT_TERMINAL_PROMPT="0", GIT_ASKPASS="true", GIT_OPTIONAL_LOCKS="0", LC_ALL="C", GIT_EDITOR="true"
    )
    env.setdefault("GIT_SSH_COMMAND", "ssh -oBatchMode=yes -oConnectTimeout=10")
    return env


def _numbered(name: str) -> bool:
    return name.startswith(("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"))


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    """Threads of our own: the loop's default pool has six on two cores, and others wait in it."""
    return ThreadPoolExecutor(THREADS, thread_name_prefix="git")


def _execute(
    command: Sequence[str], environment: Mapping[str, str], input: bytes | None, timeout: float
) -> GitResult:
    from git import Git

    process = Git(os.sep).execute(
        list(command),
        as_process=True,
        env=dict(environment),
        istream=subprocess.PIPE,
        start_new_session=True,
    )
    child = process.proc
    assert child is not None
    try:
        out, err = child.communicate(input or b"", timeout=timeout)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, 9)
        child.communicate()
        raise GitError(
            f"git {_subcommand(command)} took longer than {timeout:g} s",
            "raise [git] timeout if that is normal",
        ) from None
    return GitResult(child.returncode, _text(out), _text(err))


def _subcommand(command: Sequence[str]) -> str:
    return command[3 + len(_QUIET) + (len(_NO_HOOKS) if _NO_HOOKS[1] in command else 0)]


def _telling_line(words: str) -> str:
    """The line that says what is wrong; hints and lists of similar commands come after it."""
    lines = words.splitlines()
    return next((line for line in lines if line.startswith(("fatal:", "error:", "git: "))), lines[-1]).strip()


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _fault(number: int, when: str) -> None:
    """Die here, as a power cut would, when a test asks for it: `TASKYARD_FAULT_POINT=12:after`."""
    if os.environ.get(FAULT_POINT) == f"{number}:{when}":
        os.kill(os.getpid(), 9)
