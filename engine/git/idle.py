"""Who works in a worktree, and what goes when idle ones take too much room.

Whoever makes a worktree ready writes that down in its git folder, so that nobody takes it for idle while they live.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Sequence
from pathlib import Path

from engine.git.keeping import keep
from engine.git.registry import Registered, registering
from engine.git.repository import Repository

READY = "taskyard-ready"


def mark_ready(git_dir: Path) -> None:
    """Write that the worktree with this git folder is checked out whole, for this process."""
    (git_dir / READY).write_text(f"{os.getpid()} {socket.gethostname()}\n")


def is_ready(git_dir: Path) -> bool:
    """Whether a checkout was once finished there."""
    return (git_dir / READY).exists()


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
            await repository.run("worktree", "remove", "-f", "-f", str(each.path))
        count, total = count - 1, total - sizes[each.path]
        gone.append(each.path.name)
    return tuple(gone)


def owner_lives(ready: Path) -> bool:
    """Whether the process that made it ready runs; one of another host is taken for alive."""
    try:
        pid, host = ready.read_text().split()
        if host != socket.gethostname():
            return True
        os.kill(int(pid), 0)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True


def _size(folder: Path) -> int:
    """The bytes of all files in a folder."""
    total = 0
    for where, _, files in os.walk(folder):
        for file in files:
            with contextlib.suppress(OSError):
                total += (Path(where) / file).lstat().st_size
    return total
