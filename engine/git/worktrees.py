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
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import msgspec

from engine.errors import GitError
from engine.git.checkout import check_out
from engine.git.combine import with_trailers
from engine.git.idle import is_ready, mark_ready, trim
from engine.git.keeping import keep, kept_refs
from engine.git.names import branch_of, slug
from engine.git.registry import Registered, registered, registering
from engine.git.repository import Repository
from engine.git.strays import OURS, Stray, strays, take_back
from engine.git.words import count_of
from engine.model import Change

CHECKOUTS = max(2, os.cpu_count() or 2)
COMMIT_TIMEOUT = 600.0
MAX_COUNT = 100
MAX_BYTES = 20_000_000_000


class Worktree(msgspec.Struct, frozen=True):
    """One worktree, checked out on `branch`, whose attempt began from the commit `base`."""

    task_id: str
    path: Path
    branch: str
    base: str


class Leftover(msgspec.Struct, frozen=True):
    """A worktree as `taskyard worktrees` lists it.

    `unlanded` counts commits that the target does not have, `dirty` changed files, `kept` the states of earlier
    attempts that are reachable under `refs/taskyard/kept/`. `branch` is empty when HEAD is on none.
    """

    path: Path
    branch: str
    commit: str
    dirty: int
    unlanded: int
    missing: bool = False
    kept: int = 0


class Worktrees:
    """Makes and removes the worktrees of one repository under `root`. `board` is the board's path in it.

    Beyond `max_count` worktrees, or `max_bytes` in idle ones, idle ones of earlier runs go, their work kept.
    """

    def __init__(
        self,
        repository: Repository,
        root: Path,
        board: str,
        *,
        max_count: int = MAX_COUNT,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._repository = repository
        # Git tells real paths.
        self.root = root.resolve()
        self._board = board
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._lock = asyncio.Lock()
        self._checkouts = asyncio.Semaphore(CHECKOUTS)

    def path_of(self, task_id: str) -> Path:
        """Give the place of a task's worktree, whether it is made yet or not."""
        return self.root / slug(task_id)

    async def create(self, task_id: str, base: str) -> Worktree:
        """Make the task's worktree stand clean at the commit `base`, on the task's branch.

        Raises GitError when a branch of that name is somebody else's, or is checked out elsewhere.
        """
        branch = branch_of(task_id)
        path = self.path_of(task_id)
        async with self._registering():
            known = {each.path: each.branch for each in await registered(self._repository)}
            elsewhere = [
                where for where, there in known.items() if there == f"refs/heads/{branch}" and where != path
            ]
            if elsewhere:
                await self._free(branch, elsewhere[0], base)
            whole = path.exists() and await self._is_whole(path)
            if whole and known.get(path) != f"refs/heads/{branch}":
                # An attempt has left the branch, and may have worked on elsewhere.
                await keep(self._repository, path, slug(task_id), beyond=base)
                whole = False
            if not whole:
                if path in known or path.exists():
                    await self._clear(path)
                await self._register(path, branch, base, task_id)
        async with self._checkouts:
            await keep(self._repository, path, slug(task_id), beyond=base, with_files=whole)
            git_dir = await check_out(self._repository, path, base, keep_ignored=False)
            mark_ready(git_dir)
        return Worktree(task_id, path, branch, base)

    async def _free(self, branch: str, where: Path, base: str) -> None:
        """Free a branch that a worktree of ours holds at another place than now; anybody else's is left alone."""
        for stray in await strays(self._repository, self.root):
            if stray.found.path == where:
                await take_back(self._repository, stray, beyond=base)
                return
        raise GitError(f"branch {branch} is checked out in {where}", "switch it to another branch there")

    async def _clear(self, path: Path) -> None:
        await self._repository.run("worktree", "remove", "-f", "-f", str(path), check=False)
        if path.exists():
            self._set_aside(path)
            await self._repository.run("worktree", "remove", "-f", "-f", str(path), check=False)

    async def _register(self, path: Path, branch: str, base: str, task_id: str) -> None:
        run = self._repository.run
        ours = f"{OURS}/{slug(task_id)}"
        tip = await self._repository.commit_of(f"refs/heads/{branch}")
        if tip is not None and await self._repository.commit_of(ours) is None:
            raise GitError(
                f"branch {branch} exists and is not Taskyard's", "rename or delete it, then retry the task"
            )
        self.root.mkdir(parents=True, exist_ok=True)
        await run("update-ref", ours, base)
        new = ("--no-track", "-b", branch, str(path), base) if tip is None else (str(path), branch)
        await run("worktree", "add", "--quiet", "--no-checkout", *new)

    # What attempts leave

    async def commit(self, worktree: Worktree, message: str, trailers: Mapping[str, str]) -> Change | None:
        """Commit everything that differs from the base as one commit; None when nothing does.

        Commits that an agent made itself are folded in, and the board stays as it is in the base. The user's hooks run.
        Raises GitError when the branch is no longer the task's, or a hook refuses.
        """
        run, path = self._repository.run, worktree.path
        if not path.is_dir():
            raise GitError("the attempt removed the folder it works in", "leave the folder itself in place")
        head = await run(
            "rev-parse", "--absolute-git-dir", "--symbolic-full-name", "HEAD", cwd=path, check=False
        )
        git_dir, _, branch = head.stdout.rstrip("\n").partition("\n")
        if not (git_dir and self._is_ours(Path(git_dir))):
            raise GitError(
                "the attempt removed or replaced the .git file of its folder",
                "leave that file alone: the folder is under version control already",
            )
        if branch != f"refs/heads/{worktree.branch}":
            raise GitError("the attempt switched to another branch", f"stay on {worktree.branch}")
        await run("reset", "--soft", worktree.base, cwd=path)
        await run("add", "--all", cwd=path)
        await run(
            "reset", "--quiet", worktree.base, "--", f":(top,literal){self._board}", cwd=path, check=False
        )
        if (await run("diff", "--cached", "--quiet", worktree.base, cwd=path, check=False)).status == 0:
            return None
        await self._refuse_repositories(worktree)
        text = with_trailers(message, trailers).encode("utf-8", "surrogateescape")
        await run(
            "commit", "--quiet", "--cleanup=verbatim", "--file=-",
            cwd=path, hooks=True, secrets=False, input=text, timeout=COMMIT_TIMEOUT,
        )  # fmt: skip
        commit = await self._repository.line("rev-parse", "HEAD", cwd=path)
        return await self.describe(worktree.base, commit)

    async def _refuse_repositories(self, worktree: Worktree) -> None:
        """Refuse a change that holds a git repository of its own: git would keep its name, and lose its files."""
        listing = await self._repository.run(
            "diff", "--cached", "--raw", "-z", "--no-renames", worktree.base, cwd=worktree.path
        )
        fields = listing.stdout.split("\0")
        inside = [
            path
            for entry, path in zip(fields[::2], fields[1::2], strict=False)
            if entry.split(" ")[:2] == [":000000", "160000"]
        ]
        if inside:
            raise GitError(
                f"{', '.join(inside)} is a git repository of its own, whose files would not be kept",
                "remove the .git folder inside it",
            )

    async def describe(self, base: str, commit: str) -> Change:
        """Give the change between two commits, in numbers and paths."""
        result = await self._repository.run("diff", "--numstat", "-z", "--no-renames", base, commit)
        rows = [row.split("\t", 2) for row in result.stdout.split("\0") if row]
        return Change(
            commit=commit,
            base=base,
            files=len(rows),
            added=sum(int(row[0]) for row in rows if row[0] != "-"),
            removed=sum(int(row[1]) for row in rows if row[1] != "-"),
            paths=tuple(row[2].encode("utf-8", "replace").decode() for row in rows),
        )

    async def diff(self, base: str, commit: str) -> str:
        """Give the change as text to read; bytes that are no UTF-8 are replaced."""
        result = await self._repository.run("diff", "--no-color", "--no-ext-diff", base, commit)
        return result.stdout.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

    async def patch(self, base: str, commit: str) -> bytes:
        """Give the change as a patch that `git apply` takes to the letter."""
        result = await self._repository.run("diff", "--binary", "--full-index", "--no-ext-diff", base, commit)
        return result.stdout.encode("utf-8", "surrogateescape")

    # The end of worktrees

    async def release(self, task_id: str, *, landed_in: str) -> bool:
        """Remove the worktree, branch and kept commits of a task whose work is in `landed_in`; False when it is not.

        A worktree with edits to tracked files beyond that stays too: somebody may have worked in it by hand.
        """
        run, path, branch = (
            self._repository.run,
            self.root / slug(task_id),
            f"refs/heads/{branch_of(task_id)}",
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
            for ref in (*await kept_refs(self._repository, slug(task_id)), f"{OURS}/{slug(task_id)}")
        ]
        if tips[0] is not None:
            lines.append(f"delete {branch} {tips[0]}\n")
        await run("update-ref", "--stdin", input="".join(lines).encode(), check=False)
        return True

    async def give_back(self, task_id: str, *, landed_in: str) -> bool:
        """Remove the worktree and branch of a task that failed, where they hold nothing; gives whether they went.

        What earlier attempts made stays kept.
        """
        run, path, branch = self._repository.run, self.path_of(task_id), f"refs/heads/{branch_of(task_id)}"
        tip = await self._repository.commit_of(branch)
        if tip is None or not await self._repository.is_ancestor(tip, landed_in):
            return False
        if path.exists():
            status = await run("status", "--porcelain", "-z", *self._but_the_board(), cwd=path, check=False)
            head = await self._repository.commit_of_head(path)
            if status.status != 0 or status.stdout or head != tip:
                return False
        await self._remove(path)
        lines = f"delete {OURS}/{slug(task_id)}\ndelete {branch} {tip}\n"
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
            await self._repository.run("worktree", "remove", "-f", "-f", str(path), check=False)
        if path.exists():
            await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)

    async def list(self, *, landed_in: str | None) -> tuple[Leftover, ...]:
        """Give the worktrees of tasks, under the root and elsewhere, with what they hold that has not landed."""
        here = [await self._leftover(each, landed_in) for each in await self._tasks()]
        elsewhere = await strays(self._repository, self.root)
        return (*here, *[await self._leftover(each.found, landed_in, each) for each in elsewhere])

    async def _tasks(self) -> tuple[Registered, ...]:
        """The registered worktrees of tasks; those whose name begins with _ are the train's."""
        return tuple(
            each
            for each in await registered(self._repository)
            if each.path.is_relative_to(self.root) and not each.path.name.startswith("_")
        )

    async def _leftover(
        self, found: Registered, landed_in: str | None, stray: Stray | None = None
    ) -> Leftover:
        run, path = self._repository.run, found.path
        commit = (
            found.commit or (await self._repository.commit_of(found.branch) if found.branch else "") or ""
        )
        missing = not path.exists() or (stray is not None and stray.foreign)
        # The folder of a repository that was moved does not lead to it any more.
        at = (f"--git-dir={stray.admin}", f"--work-tree={path}") if stray is not None else ()
        status = (
            "" if missing else (await run(*at, "status", "--porcelain", "-z", cwd=path, check=False)).stdout
        )
        beyond = ("--not", landed_in) if landed_in else ()
        count = await run("rev-list", "--count", "--max-count=1000", commit, *beyond, check=False)
        return Leftover(
            path,
            found.branch.removeprefix("refs/heads/"),
            commit,
            len([line for line in status.split("\0") if line]),
            int(count.stdout or 0) if count.status == 0 else 0,
            missing,
            len(await kept_refs(self._repository, path.name)),
        )

    async def mend(self) -> tuple[str, ...]:
        """Put right what a crash left behind; gives words about what a person should know.

        A registration without its folder is removed (the branch and its commits stay), an empty folder is removed, and
        a folder with files that git no longer knows is set aside. What is alive is left alone. Ends with `trim`.
        """
        async with self._registering():
            told = [*await self._take_back_all()]
            known = {each.path for each in await registered(self._repository)}
            for path in known:
                if path.parent == self.root and not path.exists():
                    await self._repository.run("worktree", "remove", "-f", "-f", str(path), check=False)
            for path in sorted(self.root.iterdir()) if self.root.is_dir() else ():
                if path.is_dir() and path not in known and ".lost-" not in path.name:
                    aside = self._set_aside(path)
                    if aside is not None:
                        told.append(
                            f"git no longer knows the worktree {path.name}; its files are kept in {aside}"
                        )
        gone = await self.trim()
        if gone:
            words = f"removed {count_of(len(gone), 'idle worktree')} to save space, all work kept"
            told.append(f"{words}: {', '.join(gone)}")
        return tuple(told)

    async def _take_back_all(self) -> tuple[str, ...]:
        """Take back what lies where the worktrees of this repository lay before; other boards' lie beside ours."""
        names = []
        for stray in await strays(self._repository, self.root.parent):
            with contextlib.suppress(GitError):
                await take_back(self._repository, stray, beyond=stray.found.commit)
                names.append(stray.name)
        if not names:
            return ()
        words = (
            f"{count_of(len(names), 'worktree')} of this repository lay elsewhere (was it moved or copied?)"
        )
        return (f"{words}; all work is kept: {', '.join(names)}",)

    async def trim(self) -> tuple[str, ...]:
        """Remove idle worktrees until the limits hold, their work kept; gives the names of their folders."""
        ours = [each for each in await self._tasks() if each.path.exists()]
        return await trim(self._repository, ours, max_count=self._max_count, max_bytes=self._max_bytes)

    @staticmethod
    def _set_aside(path: Path) -> Path | None:
        """Move a folder out of the way, or remove it when it holds nothing; gives where it went."""
        if not any(child.name != ".git" for child in path.iterdir()):
            shutil.rmtree(path)
            return None
        number = next(n for n in range(1, 10_000) if not path.with_name(f"{path.name}.lost-{n}").exists())
        return path.rename(path.with_name(f"{path.name}.lost-{number}"))

    async def _is_whole(self, path: Path) -> bool:
        """Whether a checkout was once finished here, and git still finds the worktree from its folder."""
        found = await self._repository.run("rev-parse", "--absolute-git-dir", cwd=path, check=False)
        git_dir = Path(found.stdout.strip())
        return found.status == 0 and self._is_ours(git_dir) and is_ready(git_dir)

    def _is_ours(self, git_dir: Path) -> bool:
        """Whether a git folder is that of a worktree of this repository."""
        return git_dir.parent == self._repository.common_dir / "worktrees"

    @contextlib.asynccontextmanager
    async def _registering(self) -> AsyncIterator[None]:
        """Hold the one lock for registrations, against our tasks and against other processes."""
        async with self._lock, registering(self._repository):
            yield
