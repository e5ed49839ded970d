"""Bring a worktree of our own to a commit, whatever state it was left in."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path

from engine.errors import GitError
from engine.git.repository import Repository
from engine.git.sparse import choose, is_inside

LOCK_PATIENCE = 2.0  # seconds
CHECKOUT_TIMEOUT = 600.0  # seconds: a large tree on a busy disk
SUBMODULE_TIMEOUT = 600.0  # seconds: they may come over the network


async def check_out(
    repository: Repository, worktree: Path, commit: str, *, keep_ignored: bool, folders: Sequence[str] = ()
) -> Path:
    """Make the worktree's files those of the commit, submodules included; the branch in it moves along.

    Of all folders, or of some only, which have to be the same each time. What is ignored (dependencies, caches) stays
    if `keep_ignored`. Gives the worktree's git folder. Raises GitError. Only for a worktree that nobody else works in:
    a lock that does not go away by itself is taken for a dead one's and removed.
    """
    git_dir = Path(await repository.line("rev-parse", "--absolute-git-dir", cwd=worktree))
    await _free_locks(git_dir)
    if folders:
        choose(git_dir, folders)
    await repository.run("reset", "--hard", "--quiet", commit, cwd=worktree, timeout=CHECKOUT_TIMEOUT)
    await repository.run("clean", "-ffdq" if keep_ignored else "-ffdxq", cwd=worktree)
    if (worktree / ".gitmodules").is_file():
        await _submodules(repository, worktree, folders)
    return git_dir


async def _submodules(repository: Repository, worktree: Path, folders: Sequence[str]) -> None:
    listing = await repository.run(
        "config", "--file", ".gitmodules", "-z", "--get-regexp", r"^submodule\..*\.path$",
        cwd=worktree, check=False,
    )  # fmt: skip
    paths = [entry.partition("\n")[2] for entry in listing.stdout.split("\0") if entry]
    wanted = [path for path in paths if is_inside(f"{path}/file", folders)]
    if not wanted:
        return
    done = await repository.run(
        "submodule", "update", "--init", "--recursive", "--force", "--quiet", "--", *wanted,
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
