"""The worktrees that attempts work in: outside the repository, one a task, never lost with work in them.

A worktree is registered under one lock (parallel `worktree add` fails in git itself) and checked out beside others. A
new attempt uses its task's worktree again; whatever the attempt before left there, committed or not, stays reachable
under `refs/taskyard/kept/<task>/` until the task has landed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from engine.errors import GitError
from engine.git.changes import Worktree, commit_all
from engine.git.checkout import check_out
from engine.git.idle import trim
from engine.git.keeping import KEPT, keep, kept_refs
from engine.git.mending import clear, mend
from engine.git.names import branch_of, in_space, slug
from engine.git.ready import folders_in, is_ready, mark_ready
from engine.git.registry import (
    OURS,
    is_linked,
    registered,
    registering,
    remove_worktree,
    task_worktrees,
)
from engine.git.repository import Repository
from engine.git.strays import strays, take_back
from engine.git.words import count_of
from engine.model import Change

__all__ = ["Worktree", "Worktrees"]

CHECKOUTS = max(2, os.cpu_count() or 2)  # at once
MAX_COUNT = 100  # worktrees
MAX_BYTES = 20_000_000_000  # of the files in idle worktrees


class Worktrees:
    """Makes and removes the worktrees of one repository under `root`. `board` is the board's path in it.

    A `space` keeps folders and branches apart from those of another process that may work on the same tasks.
    Beyond `max_count` worktrees, or `max_bytes` in idle ones, idle ones of earlier runs go, their work kept. Of a very
    large repository `folders` are checked out only, and the files directly in those above; none: all of it.
    """

    def __init__(
        self,
        repository: Repository,
        root: Path,
        board: str,
        *,
        max_count: int = MAX_COUNT,
        max_bytes: int = MAX_BYTES,
        space: str = "",
        folders: Sequence[str] = (),
    ) -> None:
        self._repository = repository
        # Git tells real paths.
        self.root = root.resolve()
        self._board = board
        self._space = space
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._folders = tuple(folders)
        self._lock = asyncio.Lock()
        self._checkouts = asyncio.Semaphore(CHECKOUTS)

    def branch_of(self, task_id: str) -> str:
        """Give the name of a task's branch."""
        return branch_of(task_id, self._space)

    def _name(self, task_id: str) -> str:
        return in_space(slug(task_id), self._space)

    def path_of(self, task_id: str) -> Path:
        """Give the place of a task's worktree, whether it is made yet or not."""
        return self.root / self._name(task_id)

    async def create(self, task_id: str, base: str) -> Worktree:
        """Make the task's worktree stand clean at the commit `base`, on the task's branch.

        Raises GitError when a branch of that name is somebody else's, or is checked out elsewhere.
        """
        branch = self.branch_of(task_id)
        path = self.path_of(task_id)
        async with self._registering():
            known = {each.path: each.branch for each in await registered(self._repository)}
            elsewhere = [
                where for where, there in known.items() if there == f"refs/heads/{branch}" and where != path
            ]
            if elsewhere:
                await self._free(branch, elsewhere[0], base)
            git_dir = await self._git_dir_of(path) if path.exists() else None
            whole = git_dir is not None
            on_branch = known.get(path) == f"refs/heads/{branch}"
            if git_dir is not None and not (on_branch and folders_in(git_dir) == self._folders):
                # An attempt has left the branch and may have worked on elsewhere, or the folders are others now.
                await keep(self._repository, path, self._name(task_id), beyond=base)
                whole = False
            if not whole:
                if path in known or path.exists():
                    await clear(self._repository, path)
                await self._register(path, branch, base, task_id)
        async with self._checkouts:
            await keep(self._repository, path, self._name(task_id), beyond=base, with_files=whole)
            git_dir = await check_out(self._repository, path, base, keep_ignored=False, folders=self._folders)
            mark_ready(git_dir, self._folders)
        return Worktree(task_id, path, branch, base)

    async def _free(self, branch: str, where: Path, base: str) -> None:
        """Free a branch that a worktree of ours holds at another place than now; anybody else's is left alone."""
        for stray in await strays(self._repository, self.root):
            if stray.found.path == where:
                await take_back(self._repository, stray, beyond=base)
                return
        raise GitError(f"branch {branch} is checked out in {where}", "switch it to another branch there")

    async def _register(self, path: Path, branch: str, base: str, task_id: str) -> None:
        run = self._repository.run
        ours = f"{OURS}/{self._name(task_id)}"
        tip = await self._repository.commit_of(f"refs/heads/{branch}")
        if tip is not None and await self._repository.commit_of(ours) is None:
            raise GitError(
                f"branch {branch} exists and is not Taskyard's", "rename or delete it, then retry the task"
            )
        self.root.mkdir(parents=True, exist_ok=True)
        await run("update-ref", ours, base)
        new = ("--no-track", "-b", branch, str(path), base) if tip is None else (str(path), branch)
        await run("worktree", "add", "--quiet", "--no-checkout", *new)

    async def commit(self, worktree: Worktree, message: str, trailers: Mapping[str, str]) -> Change | None:
        """Commit what an attempt made as one commit; None when it made nothing. See `changes.commit_all`."""
        return await commit_all(self._repository, worktree, message, trailers, but=self._board)

    # The end of worktrees

    async def release(self, task_id: str, *, landed_in: str) -> bool:
        """Remove the worktree, branch and kept commits of a task whose work is in `landed_in`; False when it is not.

        A worktree with edits to tracked files beyond that stays too: somebody may have worked in it by hand.
        """
        run, path, branch = (
            self._repository.run,
            self.root / self._name(task_id),
            f"refs/heads/{self.branch_of(task_id)}",
        )
        tips = [await self._repository.commit_of(branch)]
        if path.exists():
            tips.append(await self._repository.commit_of_head(path))
            if await self._is_edited(path):
                return False
        for tip in set(tips):
            if tip is not None and not await self._repository.is_ancestor(tip, landed_in):
                return False
        await self._remove(path)
        lines = [
            f"delete {ref}\n"
            for ref in (
                *await kept_refs(self._repository, self._name(task_id)),
                f"{OURS}/{self._name(task_id)}",
            )
        ]
        if tips[0] is not None:
            lines.append(f"delete {branch} {tips[0]}\n")
        await run("update-ref", "--stdin", input="".join(lines).encode(), check=False)
        return True

    def in_space(self, space: str) -> Worktrees:
        """Give the worktrees of the same board in another space."""
        return Worktrees(
            self._repository,
            self.root,
            self._board,
            max_count=self._max_count,
            max_bytes=self._max_bytes,
            space=space,
            folders=self._folders,
        )

    async def supersede_all(self) -> None:
        """Remove all worktrees and branches in this space, once others have landed their tasks; the work stays kept."""
        end = in_space("", self._space)
        for each in await registered(self._repository):
            if each.path.parent == self.root and end in each.path.name:
                if not each.path.name.startswith("_"):
                    await keep(self._repository, each.path, each.path.name, beyond="")
                await self._remove(each.path)
        listing = await self._repository.run("for-each-ref", "--format=%(refname)", OURS)
        for ref in listing.stdout.split():
            if ref.endswith(end):
                await self._drop_branch(ref.removeprefix(f"{OURS}/"))

    async def supersede(self, task_id: str) -> None:
        """Remove the worktree and branch of a task that somebody else has landed; what they hold stays kept."""
        path, name = self.path_of(task_id), self._name(task_id)
        if path.exists():
            await keep(
                self._repository, path, name, beyond=await self._repository.commit_of(f"{OURS}/{name}") or ""
            )
            await self._remove(path)
        await self._drop_branch(name)

    async def _drop_branch(self, name: str) -> None:
        """Delete a task's branch; its commit stays kept."""
        branch = f"refs/heads/task/{name}"
        tip = await self._repository.commit_of(branch)
        lines = [f"delete {OURS}/{name}\n"]
        if tip is not None:
            lines += [f"update {KEPT}/{name}/{tip[:12]} {tip}\n", f"delete {branch} {tip}\n"]
        await self._repository.run("update-ref", "--stdin", input="".join(lines).encode(), check=False)

    async def give_back(self, task_id: str, *, landed_in: str) -> bool:
        """Remove the worktree and branch of a task that failed, where they hold nothing; gives whether they went.

        What earlier attempts made stays kept.
        """
        run, path, branch = (
            self._repository.run,
            self.path_of(task_id),
            f"refs/heads/{self.branch_of(task_id)}",
        )
        tip = await self._repository.commit_of(branch)
        if tip is None or not await self._repository.is_ancestor(tip, landed_in):
            return False
        if path.exists():
            status = await run("status", "--porcelain", "-z", *self._but_the_board(), cwd=path, check=False)
            head = await self._repository.commit_of_head(path)
            if status.status != 0 or status.stdout or head != tip:
                return False
        await self._remove(path)
        lines = f"delete {OURS}/{self._name(task_id)}\ndelete {branch} {tip}\n"
        return (await run("update-ref", "--stdin", input=lines.encode(), check=False)).status == 0

    async def put_away(self, worktree: Worktree) -> bool:
        """Remove the folder of a committed attempt; its branch stays, and `create` makes the folder again.

        A worktree with edits to tracked files stays; gives whether it went.
        """
        if not worktree.path.exists() or await self._is_edited(worktree.path):
            return False
        await self._remove(worktree.path)
        return True

    async def _is_edited(self, path: Path) -> bool:
        status = await self._repository.run(
            "status",
            "--porcelain",
            "-z",
            "--untracked-files=no",
            *self._but_the_board(),
            cwd=path,
            check=False,
        )
        return bool(status.stdout)

    def _but_the_board(self) -> tuple[str, ...]:
        """The arguments for all files but the board, which no attempt changes."""
        return "--", ":/", f":(top,exclude,literal){self._board}"

    async def _remove(self, path: Path) -> None:
        async with self._registering():
            await remove_worktree(self._repository, path)
        if path.exists():
            await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)

    async def mend(self) -> tuple[str, ...]:
        """Put right what a crash left behind, and trim; gives words about what a person should know."""
        async with self._registering():
            told = await mend(self._repository, self.root, self._space)
        gone = await self.trim()
        if not gone:
            return told
        words = f"removed {count_of(len(gone), 'idle worktree')} to save space, all work kept"
        return (*told, f"{words}: {', '.join(gone)}")

    async def trim(self) -> tuple[str, ...]:
        """Remove idle worktrees until the limits hold, their work kept; gives the names of their folders."""
        ours = [each for each in await task_worktrees(self._repository, self.root) if each.path.exists()]
        return await trim(self._repository, ours, max_count=self._max_count, max_bytes=self._max_bytes)

    async def _git_dir_of(self, path: Path) -> Path | None:
        """Give the worktree's git folder, if git still finds it from here and a checkout was once finished."""
        found = await self._repository.run("rev-parse", "--absolute-git-dir", cwd=path, check=False)
        git_dir = Path(found.stdout.strip())
        whole = found.status == 0 and is_linked(self._repository, git_dir) and is_ready(git_dir)
        return git_dir if whole else None

    @contextlib.asynccontextmanager
    async def _registering(self) -> AsyncIterator[None]:
        """Hold the one lock for registrations, against our tasks and against other processes."""
        async with self._lock, registering(self._repository):
            yield
