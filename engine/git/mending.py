"""Put right what a crash left of worktrees. What is alive is left alone, and nothing with files in it is removed."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from engine.errors import GitError
from engine.git.names import in_space
from engine.git.registry import registered, remove_worktree
from engine.git.repository import Repository
from engine.git.strays import strays, take_back
from engine.git.words import count_of


async def mend(repository: Repository, root: Path, space: str = "") -> tuple[str, ...]:
    """Mend the worktrees under `root`; gives words about what a person should know.

    A registration without its folder is removed (the branch and its commits stay), an empty folder is removed, and a
    folder with files that git no longer knows is set aside; in a `space` only its own, for others may be on their way
    in or out. Under the lock for registrations.
    """
    told = [*await _take_back_all(repository, root)]
    known = {each.path for each in await registered(repository)}
    for path in known:
        if path.parent == root and not path.exists():
            await remove_worktree(repository, path)
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        ours = path.name.endswith(in_space("", space))
        if ours and path.is_dir() and path not in known and ".lost-" not in path.name:
            aside = set_aside(path)
            if aside is not None:
                told.append(f"git no longer knows the worktree {path.name}; its files are kept in {aside}")
    return tuple(told)


async def clear(repository: Repository, path: Path) -> None:
    """Free the place of a worktree, whatever stands there; files that git does not know are set aside."""
    await remove_worktree(repository, path)
    if path.exists():
        set_aside(path)
        await remove_worktree(repository, path)


def set_aside(path: Path) -> Path | None:
    """Move a folder out of the way, or remove it when it holds nothing; gives where it went."""
    if not any(child.name != ".git" for child in path.iterdir()):
        shutil.rmtree(path)
        return None
    number = next(n for n in range(1, 10_000) if not path.with_name(f"{path.name}.lost-{n}").exists())
    return path.rename(path.with_name(f"{path.name}.lost-{number}"))


async def _take_back_all(repository: Repository, root: Path) -> tuple[str, ...]:
    """Take back what lies where the worktrees of this repository lay before; other boards' lie beside ours."""
    names = []
    for stray in await strays(repository, root.parent):
        with contextlib.suppress(GitError):
            await take_back(repository, stray, beyond=stray.found.commit)
            names.append(stray.name)
    if not names:
        return ()
    words = f"{count_of(len(names), 'worktree')} of this repository lay elsewhere (was it moved or copied?)"
    return (f"{words}; all work is kept: {', '.join(names)}",)
