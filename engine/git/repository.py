"""Run git on one repository, in a cleaned environment.

Every command names its folder by `-C`, which git refuses when it is missing.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from engine.errors import GitError, PreflightError
from engine.git.child import GitResult, run_git
from engine.git.environment import clean_environment
from engine.process import is_secret

TIMEOUT = 120.0  # seconds for one command

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
        result = await run_git(command, environment, input or b"", timeout)
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


def _telling_line(words: str) -> str:
    """The line that says what is wrong; hints and lists of similar commands come after it."""
    lines = words.splitlines()
    return next((line for line in lines if line.startswith(("fatal:", "error:", "git: "))), lines[-1]).strip()
