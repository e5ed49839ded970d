"""Worktrees of ours that lie elsewhere: the repository was moved, renamed or copied, or XDG_STATE_HOME has changed.

Such a worktree still holds its task's branch, so it is taken back: what it holds is kept, then it goes. In a copied
repository the folder still belongs to the repository it was copied from; there only the registration goes.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import msgspec

from engine.errors import GitError
from engine.git.keeping import keep
from engine.git.ready import READY, is_ready, owner_lives
from engine.git.registry import OURS, Registered, registered, remove_worktree
from engine.git.repository import Repository

_TASKS = "refs/heads/task/"


class Stray(msgspec.Struct, frozen=True):
    """A worktree of a task (its `slug` is `name`), and git's own folder for it.

    `foreign`: the folder is another repository's, or no worktree at all any more.
    """

    found: Registered
    name: str
    admin: Path
    foreign: bool


async def strays(repository: Repository, root: Path) -> tuple[Stray, ...]:
    """Give our worktrees outside `root`; those that people made by hand are not among them."""
    outside = [
        each
        for each in await registered(repository)
        if each.branch.startswith(_TASKS) and not each.path.is_relative_to(root)
    ]
    if not outside:
        return ()
    listing = await repository.run("for-each-ref", "--format=%(refname)", f"{OURS}/")
    names = {ref.removeprefix(f"{OURS}/") for ref in listing.stdout.split()}
    admins = await asyncio.to_thread(_admins, repository.common_dir)
    found = []
    for each in outside:
        name, admin = each.branch.removeprefix(_TASKS), admins.get(each.path)
        # One that was never checked out holds nothing, and nobody leaves one so by hand.
        if name in names and admin is not None and (is_ready(admin) or not (admin / "index").exists()):
            found.append(Stray(each, name, admin, _is_foreign(each.path, admin)))
    return tuple(found)


async def take_back(repository: Repository, stray: Stray, *, beyond: str) -> None:
    """Keep what the worktree holds beyond a commit and remove it, so that its branch is free.

    Under the lock for registrations. Raises GitError while a living process works in it.
    """
    path, admin = stray.found.path, stray.admin
    if stray.foreign:
        await asyncio.to_thread(shutil.rmtree, admin)
        return
    if path.exists():
        if owner_lives(admin / READY):
            raise GitError(
                f"another run works on {stray.found.branch.removeprefix('refs/heads/')} in {path}",
                "wait until it has ended",
            )
        # The folder of a repository that was moved points to where git's own was before.
        (path / ".git").write_text(f"gitdir: {admin}\n")
        await keep(repository, path, stray.name, beyond=beyond)
    await remove_worktree(repository, path, check=True)


def _admins(common_dir: Path) -> dict[Path, Path]:
    """Git's own folder for each linked worktree, by the worktree's folder."""
    folders = {}
    for link in (common_dir / "worktrees").glob("*/gitdir"):
        folders[(link.parent / _told(link)).parent] = link.parent
    return folders


def _is_foreign(path: Path, admin: Path) -> bool:
    """Whether a folder that is there belongs to somebody else: it leads to another repository, or to none."""
    if not path.exists():
        return False
    link = path / ".git"
    if not link.is_file():  # to read a pipe would take for ever
        return True
    try:
        word, _, target = _told(link).partition(": ")
    except OSError:
        return True
    there = path / target
    return word != "gitdir" or (there.exists() and not there.samefile(admin))


def _told(link: Path) -> str:
    """The path in such a file, which may be of any bytes."""
    return os.fsdecode(link.read_bytes()).strip()
