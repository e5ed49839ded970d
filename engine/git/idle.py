"""What goes when idle worktrees take too much room."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from engine.git.keeping import keep
from engine.git.ready import READY, owner_lives
from engine.git.registry import Registered, registering, remove_worktree
from engine.git.repository import Repository


async def trim(
    repository: Repository, worktrees: Sequence[Registered], *, max_count: int, max_bytes: int
) -> tuple[str, ...]:
    """Remove idle ones, those used longest ago first, until the limits hold; gives the names of their folders.

    The limits: `max_count` worktrees in all, and `max_bytes` in the idle ones. Idle is what no living process made
    ready. A branch stays, and what is not on it is kept as a commit; the task's next attempt makes the folder anew.
    """
    idle = []
    for each in worktrees:
        found = await repository.run("rev-parse", "--absolute-git-dir", cwd=each.path, check=False)
        ready = Path(found.stdout.strip()) / READY
        if found.status == 0 and ready.exists() and not owner_lives(ready):
            idle.append((ready.stat().st_mtime, each))
    idle.sort(key=lambda pair: pair[0])
    sizes = await asyncio.to_thread(lambda: {each.path: _size(each.path) for _, each in idle})
    count, total = len(worktrees), sum(sizes.values())
    gone = []
    for _, each in idle:
        if count <= max_count and total <= max_bytes:
            break
        # What is on the branch stays with the branch.
        await keep(repository, each.path, each.path.name, beyond=each.commit if each.branch else "")
        async with registering(repository):
            await remove_worktree(repository, each.path, check=True)
        count, total = count - 1, total - sizes[each.path]
        gone.append(each.path.name)
    return tuple(gone)


def _size(folder: Path) -> int:
    """The bytes of all files in a folder."""
    total = 0
    for where, _, files in os.walk(folder):
        for file in files:
            with contextlib.suppress(OSError):
                total += (Path(where) / file).lstat().st_size
    return total
