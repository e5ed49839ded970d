"""Bring a worktree of our own to a commit, whatever state it was left in."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from engine.errors import GitError
from engine.git.repository import Repository

LOCK_PATIENCE = 2.0  # seconds
SUBMODULE_TIMEOUT = 600.0  # seconds: they may come over the network


async def check_out(repository: Repository, worktree: Path, commit: str, *, keep_ignored: bool) -> Path:
    """Make the worktree's files those of the commit, submodules included; the branch in it moves along.

    What is ignored (dependencies, caches) stays if `keep_ignored`. Gives the worktree's git folder. Raises GitError.
    Only for a worktree that nobody else works in: a lock that does not go away by itself is taken for a dead one's and
    removed.
    """
    git_dir = Path(await repository.line("rev-parse", "--absolute-git-dir", cwd=worktree))
    await _free_locks(git_dir)
    await repository.run("reset", "--hard", "--quiet", commit, cwd=worktree)
    await repository.run("clean", "-ffdq" if keep_ignored else "-ffdxq", cwd=worktree)
    if (worktree / ".gitmodules").is_file():
        await _submodules(repository, worktree)
    return git_dir


async def _submodules(repository: Repository, worktree: Path) -> None:
    done = await repository.run(
        "submodule", "update", "--init", "--recursive", "--force", "--quiet",
        cwd=worktree, check=False, timeout=SUBMODULE_TIMEOUT,
    )  # fmt: skip
    if done.status != 0:
        raise GitError(
            "a submodule cannot be checked out",
            f"see that git submodule update --init works in a fresh clone ({done.stderr.strip()[-300:]})",
            status=done.status,
            stderr=done.stderr,
        )


async def _free_locks(git_dir: Path) -> None:
    """Remove the locks that a killed process left; a git that outlived it is given time to end first."""
    locks = [git_dir / "index.lock", git_dir / "HEAD.lock"]
    waited = 0.0
    while waited < LOCK_PATIENCE and any(lock.exists() for lock in locks):
        await asyncio.sleep(0.05)
        waited += 0.05
    for lock in locks:
        with contextlib.suppress(FileNotFoundError):
            lock.unlink()
