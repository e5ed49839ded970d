"""Keep what a worktree holds reachable, committed or not, before the worktree changes or goes."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path

from engine.git.ready import folders_in
from engine.git.repository import Repository
from engine.git.sparse import stage_all

KEPT = "refs/taskyard/kept"


async def keep(
    repository: Repository, worktree: Path, name: str, *, beyond: str, with_files: bool = True
) -> None:
    """Keep what the worktree holds beyond a commit under `refs/taskyard/kept/<name>/`, its changed files too.

    An empty `beyond`: all that it holds.
    """
    tip = await _snapshot(repository, worktree) if with_files else None
    tip = tip or await repository.commit_of_head(worktree)
    if tip is None or (beyond and (tip == beyond or await repository.is_ancestor(tip, beyond))):
        return
    await repository.run("update-ref", f"{KEPT}/{name}/{tip[:12]}", tip)


async def kept_refs(repository: Repository, name: str) -> tuple[str, ...]:
    """Give the full names of what is kept for a task's worktree."""
    listing = await repository.run("for-each-ref", "--format=%(refname)", f"{KEPT}/{name}/")
    return tuple(listing.stdout.split())


async def _snapshot(repository: Repository, worktree: Path) -> str | None:
    """Give a commit of the files that differ from HEAD, made beside the worktree's own index; None without any."""
    run = repository.run
    if not (await run("status", "--porcelain", "-z", cwd=worktree, check=False)).stdout:
        return None
    with tempfile.TemporaryDirectory(prefix="taskyard-") as folder:
        index = Path(folder) / "index"
        git_dir = Path(await repository.line("rev-parse", "--absolute-git-dir", cwd=worktree))
        with contextlib.suppress(OSError):  # It only spares hashing what has not changed.
            shutil.copyfile(git_dir / "index", index)
        env = {"GIT_INDEX_FILE": str(index)}
        await stage_all(repository, worktree, "HEAD", folders_in(git_dir), env=env, lenient=True)
        tree = (await run("write-tree", cwd=worktree, env=env)).stdout.strip()
    words = b"Files of an attempt that did not end in a commit\n"
    return (await run("commit-tree", "-p", "HEAD", "-F", "-", tree, cwd=worktree, input=words)).stdout.strip()
