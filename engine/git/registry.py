"""Which worktrees git knows, read from its own list, and the one lock under which that list is changed."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec

from engine.git.repository import Repository

OURS = "refs/taskyard/branches"
REMOVAL_TIMEOUT = 600.0  # seconds: a large tree on a busy disk


class Registered(msgspec.Struct, frozen=True):
    """One worktree that git knows. `branch` is the full name of its branch, empty when HEAD is detached or broken."""

    path: Path
    branch: str
    commit: str


async def registered(repository: Repository) -> tuple[Registered, ...]:
    """Give all registered worktrees but bare ones, the main one first; their folders may be gone."""
    listing = await repository.run("worktree", "list", "--porcelain", "-z", check=False)
    end = "\0"
    if listing.status != 0:  # Git before 2.36 knows no -z.
        listing = await repository.run("worktree", "list", "--porcelain")
        end = "\n"
    found = []
    for entry in listing.stdout.split(end * 2):
        fields = dict(line.partition(" ")[::2] for line in entry.split(end) if line)
        if "worktree" in fields and "bare" not in fields:
            commit = fields.get("HEAD", "")
            found.append(
                Registered(
                    Path(fields["worktree"]), fields.get("branch", ""), commit if commit.strip("0") else ""
                )
            )
    return tuple(found)


async def task_worktrees(repository: Repository, root: Path) -> tuple[Registered, ...]:
    """Give the registered worktrees of tasks under a folder; those whose name begins with _ are the train's."""
    return tuple(
        each
        for each in await registered(repository)
        if each.path.is_relative_to(root) and not each.path.name.startswith("_")
    )


def is_linked(repository: Repository, git_dir: Path) -> bool:
    """Whether a git folder is that of a linked worktree of this repository."""
    return git_dir.parent == repository.common_dir / "worktrees"


async def drop_half_made(repository: Repository) -> None:
    """Remove the worktrees of ours whose making was killed before they had a commit; waits for those being made now."""
    async with registering(repository):
        for head in (repository.common_dir / "worktrees").glob("*/HEAD"):
            try:
                made = head.read_text().strip().strip("0")
                path = Path((head.parent / "gitdir").read_text().strip()).parent
            except OSError:
                continue  # Somebody removes it right now.
            if made:
                continue
            ours = await repository.commit_of(f"{OURS}/{path.name}") is not None
            if ours or path.name.startswith("_train"):
                await remove_worktree(repository, path)


async def checked_out_at(repository: Repository, ref: str) -> Path | None:
    """Give the folder that a branch (by its full name) is checked out in, if any; such a branch is never moved."""
    return next((each.path for each in await registered(repository) if each.branch == ref), None)


def registering(repository: Repository) -> AbstractAsyncContextManager[None]:
    """Hold the lock for changes to the list: parallel `worktree add` fails in git itself, and leaves things behind."""
    return file_lock(repository.common_dir / "taskyard" / "worktrees.lock")


async def remove_worktree(repository: Repository, path: Path, *, check: bool = False) -> None:
    """Remove a worktree's registration and folder, missing and half-made ones too. GitError if `check` and it fails."""
    await repository.run("worktree", "remove", "-f", "-f", str(path), check=check, timeout=REMOVAL_TIMEOUT)


async def add_detached(repository: Repository, path: Path, commit: str) -> None:
    """Have a worktree without a branch at `path`, not checked out yet; one that is there already is used."""
    if (await repository.run("rev-parse", "--git-dir", cwd=path, check=False)).status == 0:
        return
    async with registering(repository):
        await remove_worktree(repository, path)
        path.parent.mkdir(parents=True, exist_ok=True)
        await repository.run("worktree", "add", "--quiet", "--no-checkout", "--detach", str(path), commit)


@contextlib.asynccontextmanager
async def file_lock(path: Path) -> AsyncIterator[None]:
    """Hold a lock against other processes of this host; the system frees it when its holder dies."""
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        # Asked again and again, since a thread that waits for the lock could not be cancelled.
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(0.02)
        yield
    finally:
        os.close(descriptor)
