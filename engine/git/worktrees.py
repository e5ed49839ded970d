"""The worktrees that attempts work in: outside the repository, one a task, never lost with work in them.

A worktree is registered under one lock (parallel `worktree add` fails in git itself) and checked out beside others. A
new attempt reuses its task's worktree; the commit of the attempt before stays reachable under `refs/taskyard/kept/`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import msgspec

from engine.errors import GitError
from engine.git.combine import with_trailers
from engine.git.names import branch_of, slug
from engine.git.repository import Repository
from engine.model import Change

OURS = "refs/taskyard/branches"
KEPT = "refs/taskyard/kept"
READY = "taskyard-ready"
CHECKOUTS = max(2, os.cpu_count() or 2)


class Worktree(msgspec.Struct, frozen=True):
    """One worktree, checked out on `branch`, whose attempt began from the commit `base`."""

    task_id: str
    path: Path
    branch: str
    base: str


class Leftover(msgspec.Struct, frozen=True):
    """A worktree as `taskyard worktrees` lists it.

    `unlanded` counts commits that the target does not have, `dirty` changed files.
    """

    path: Path
    branch: str
    commit: str
    dirty: int
    unlanded: int
    missing: bool = False


class Worktrees:
    """Makes and removes the worktrees of one repository under `root`. `board` is the board's path in it."""

    def __init__(self, repository: Repository, root: Path, board: str) -> None:
        self._repository = repository
        self.root = root
        self._board = board
        self._lock = asyncio.Lock()
        self._checkouts = asyncio.Semaphore(CHECKOUTS)

    async def create(self, task_id: str, base: str, *, branch: str = "") -> Worktree:
        """Make the task's worktree stand clean at `base`, on the task's branch.

        Raises GitError when a branch of that name is somebody else's, or is checked out elsewhere.
        """
        name = branch or branch_of(task_id)
        path = self.root / slug(task_id)
        async with self._registering():
            registered = await self._registered()
            elsewhere = registered.get(f"refs/heads/{name}")
            if elsewhere is not None and elsewhere != path:
                raise GitError(
                    f"branch {name} is checked out in {elsewhere}", "switch it to another branch there"
                )
            if not (elsewhere == path and await self._is_whole(path)):
                await self._register(path, name, base, task_id)
        async with self._checkouts:
            await self._keep(path, task_id, base)
            # Of our own worktree only: the branch is checked out here and nowhere else.
            await self._repository.run("reset", "--hard", "--quiet", base, cwd=path)
            await self._repository.run("clean", "-ffdxq", cwd=path)
            (await self._git_dir(path) / READY).touch()
        return Worktree(task_id, path, name, base)

    async def _register(self, path: Path, branch: str, base: str, task_id: str) -> None:
        run = self._repository.run
        ours = await self._repository.commit_of(f"{OURS}/{slug(task_id)}")
        tip = await self._repository.commit_of(f"refs/heads/{branch}")
        if tip is not None and ours is None:
            raise GitError(
                f"branch {branch} exists and is not Taskyard's", "rename or delete it, then retry the task"
            )
        await run("worktree", "remove", "-f", "-f", str(path), check=False)
        if path.exists():
            self._set_aside(path)
        self.root.mkdir(parents=True, exist_ok=True)
        await run("update-ref", f"{OURS}/{slug(task_id)}", base)
        new = ("-b", branch, str(path), base) if tip is None else (str(path), branch)
        await run("worktree", "add", "--quiet", "--no-track", "--no-checkout", *new)

    async def _keep(self, path: Path, task_id: str, base: str) -> None:
        """Keep what the branch holds beyond `base` reachable before the branch goes back to it."""
        tip = await self._repository.commit_of_head(path)
        if tip is not None and tip != base and not await self._repository.is_ancestor(tip, base):
            await self._repository.run("update-ref", f"{KEPT}/{slug(task_id)}/{tip[:12]}", tip)

    async def commit(self, worktree: Worktree, message: str, trailers: Mapping[str, str]) -> Change | None:
        """Commit everything that differs from the base as one commit; None when nothing does.

        Commits that an agent made itself are folded in, and the board stays as it is in the base. The user's hooks run.
        Raises GitError when the branch is no longer the task's, or a hook refuses.
        """
        run, path = self._repository.run, worktree.path
        head = await run("symbolic-ref", "--quiet", "HEAD", cwd=path, check=False)
        if head.stdout.strip() != f"refs/heads/{worktree.branch}":
            raise GitError("the attempt switched to another branch", f"stay on {worktree.branch}")
        await run("reset", "--soft", worktree.base, cwd=path)
        await run("add", "--all", cwd=path)
        await run("reset", "--quiet", worktree.base, "--", self._board, cwd=path, check=False)
        if (await run("diff", "--cached", "--quiet", worktree.base, cwd=path, check=False)).status == 0:
            return None
        text = with_trailers(message, trailers)
        await run(
            "commit",
            "--quiet",
            "--cleanup=verbatim",
            "--file=-",
            cwd=path,
            hooks=True,
            input=text.encode("utf-8", "surrogateescape"),
            timeout=600.0,
        )
        commit = await self._repository.line("rev-parse", "HEAD", cwd=path)
        return await self.describe(worktree.base, commit)

    async def describe(self, base: str, commit: str) -> Change:
        """Give the change between two commits, in numbers and paths."""
        result = await self._repository.run("diff", "--numstat", "-z", "--no-renames", base, commit)
        rows = [row.split("\t") for row in result.stdout.split("\0") if row]
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

    async def release(self, task_id: str, *, landed_in: str) -> bool:
        """Remove the worktree, branch and kept commits of a task whose work is in `landed_in`; False when it is not."""
        run = self._repository.run
        path = self.root / slug(task_id)
        tip = await self._repository.commit_of_head(path) if path.exists() else None
        if tip is not None and not await self._repository.is_ancestor(tip, landed_in):
            return False
        branch = (
            await run("symbolic-ref", "--quiet", "--short", "HEAD", cwd=path, check=False)
        ).stdout.strip()
        async with self._registering():
            await run("worktree", "remove", "-f", "-f", str(path), check=False)
        if path.exists():
            await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
        refs = (
            await run(
                "for-each-ref", "--format=%(refname)", f"{KEPT}/{slug(task_id)}/", f"{OURS}/{slug(task_id)}"
            )
        ).stdout
        lines = [f"delete {ref}\n" for ref in refs.split()]
        if branch and tip:
            lines.append(f"delete refs/heads/{branch} {tip}\n")
        await run("update-ref", "--stdin", input="".join(lines).encode(), check=False)
        return True

    async def list(self, *, landed_in: str | None) -> tuple[Leftover, ...]:
        """Give all worktrees under the root that are registered, with what they hold that has not landed."""
        found = []
        for ref, path in (await self._registered()).items():
            if not path.is_relative_to(self.root):
                continue
            commit = await self._repository.commit_of(ref) or ""
            missing = not path.exists()
            status = (
                ""
                if missing
                else (await self._repository.run("status", "--porcelain", "-z", cwd=path, check=False)).stdout
            )
            beyond = ("--not", landed_in) if landed_in else ()
            count = (
                await self._repository.run(
                    "rev-list", "--count", commit, *beyond, "--max-count=1000", check=False
                )
                if commit
                else None
            )
            unlanded = int(count.stdout or 0) if count is not None and count.status == 0 else 0
            found.append(
                Leftover(
                    path,
                    ref.removeprefix("refs/heads/"),
                    commit,
                    len([x for x in status.split("\0") if x]),
                    unlanded,
                    missing,
                )
            )
        return tuple(found)

    async def mend(self) -> tuple[str, ...]:
        """Put right what a crash left behind; gives words about what a person should know.

        A registration without its folder is removed (the branch and its commits stay), a half-made folder is removed,
        and a whole folder that git no longer knows is set aside. What is alive is left alone.
        """
        told = []
        async with self._registering():
            registered = set((await self._registered(detached=True)).values())
            for path in registered:
                if path.is_relative_to(self.root):
                    self._drop_stale_lock(await self._admin_dir(path))
                    if not path.exists():
                        await self._repository.run("worktree", "remove", "-f", "-f", str(path), check=False)
            for path in sorted(self.root.iterdir()) if self.root.is_dir() else ():
                if path.is_dir() and path not in registered and ".lost-" not in path.name:
                    aside = self._set_aside(path)
                    if aside is not None:
                        told.append(
                            f"git no longer knows the worktree {path.name}; its files are kept in {aside}"
                        )
        return tuple(told)

    def _set_aside(self, path: Path) -> Path | None:
        """Move a folder out of the way, or remove it when it holds nothing; gives where it went."""
        if not any(child.name != ".git" for child in path.iterdir()):
            shutil.rmtree(path)
            return None
        number = next(n for n in range(1, 10_000) if not path.with_name(f"{path.name}.lost-{n}").exists())
        return path.rename(path.with_name(f"{path.name}.lost-{number}"))

    @staticmethod
    def _drop_stale_lock(admin: Path | None) -> None:
        """Remove an index lock of our own worktree: the run is claimed, so whoever held it is dead."""
        if admin is not None:
            with contextlib.suppress(FileNotFoundError):
                (admin / "index.lock").unlink()

    async def _is_whole(self, path: Path) -> bool:
        admin = await self._admin_dir(path)
        return admin is not None and (admin / READY).exists() and (path / ".git").is_file()

    async def _git_dir(self, path: Path) -> Path:
        return Path(await self._repository.line("rev-parse", "--absolute-git-dir", cwd=path))

    async def _admin_dir(self, path: Path) -> Path | None:
        for folder in _folders(self._repository.common_dir / "worktrees"):
            with contextlib.suppress(OSError):
                if Path((folder / "gitdir").read_text().strip()).parent == path:
                    return folder
        return None

    async def _registered(self, *, detached: bool = False) -> dict[str, Path]:
        """Give the registered worktrees by the full name of their branch (by path for detached ones, if asked)."""
        listing = await self._repository.run("worktree", "list", "--porcelain", "-z")
        found: dict[str, Path] = {}
        for entry in listing.stdout.split("\0\0"):
            lines = dict(line.partition(" ")[::2] for line in entry.split("\0") if line)
            if "branch" in lines:
                found[lines["branch"]] = Path(lines["worktree"])
            elif detached and "worktree" in lines:
                found[lines["worktree"]] = Path(lines["worktree"])
        return found

    @contextlib.asynccontextmanager
    async def _registering(self) -> AsyncIterator[None]:
        """Hold the one lock for registrations, against our tasks and against other processes."""
        async with self._lock:
            with await asyncio.to_thread(
                _locked_open, self._repository.common_dir / "taskyard" / "worktrees.lock"
            ):
                yield


def _locked_open(path: Path) -> contextlib.AbstractContextManager[None]:
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    fcntl.flock(descriptor, fcntl.LOCK_EX)

    @contextlib.contextmanager
    def held() -> Iterator[None]:
        try:
            yield
        finally:
            os.close(descriptor)

    return held()


def _folders(path: Path) -> tuple[Path, ...]:
    return tuple(child for child in path.iterdir() if child.is_dir()) if path.is_dir() else ()
