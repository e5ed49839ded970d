"""Lock files that a git which was killed left behind: nobody will ever remove them, and every later command waits.

Git makes `<ref>.lock` and `packed-refs.lock` while it changes refs. When the whole machine goes down, or all processes
are killed at once, they stay.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

from engine.git.registry import registered
from engine.git.repository import Repository

OLD = 3.0
"""Seconds after which a lock is looked into: what other programs than git do to refs takes less."""

_OURS = ("refs/taskyard", "refs/heads/task")


async def drop_stale_locks(repository: Repository) -> tuple[str, ...]:
    """Remove the locks on our refs and on all packed ones that no living git can hold; gives their names.

    A lock that is younger than `OLD` is waited for. While any git works on the repository, none is touched.
    """
    common = repository.common_dir
    found = [path for path in (common / "packed-refs.lock",) if path.exists()]
    for folder in _OURS:
        found += (common / folder).rglob("*.lock")
    if not found:
        return ()
    await asyncio.sleep(max(0.0, OLD - min(map(_age, found))))
    places = [common, repository.root, *[each.path for each in await registered(repository)]]
    left = [path for path in found if path.exists() and _age(path) >= OLD]
    if not left or await asyncio.to_thread(_git_works_on, places):
        return ()
    for path in left:
        path.unlink(missing_ok=True)
    return tuple(path.relative_to(common).as_posix() for path in left)


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


def _git_works_on(places: Sequence[Path]) -> bool:
    """Whether a git process of anybody's runs in one of the places, or names one."""
    import psutil

    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if not process.name().startswith("git"):
                continue
            words = [process.cwd(), *process.cmdline()]
            if any(str(place) in word for place in places for word in words):
                return True
    return False
