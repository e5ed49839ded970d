"""Combine branches into one tree without any checkout: the user's files, index and stash are never touched."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from engine.errors import GitError, MergeConflictError
from engine.git.cargo import BoardFile
from engine.git.checkout import check_out
from engine.git.registry import add_detached
from engine.git.repository import Repository
from engine.git.versions import MERGE_TREE

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")  # all but tabs and line ends


class Combiner:
    """Merges commits by `merge-tree`; with a git that has none in a worktree of its own, the folder `scratch`.

    The file `board` is no cause of a conflict: only we and people write it, and it is combined by its rows.
    """

    def __init__(self, repository: Repository, scratch: Path, board: BoardFile) -> None:
        self._repository = repository
        self._scratch = scratch
        self._board = board
        self._signs: bool | None = None

    async def merge(self, ours: str, theirs: str, message: str) -> str:
        """Give a commit that merges `theirs` into `ours`. Raises MergeConflictError with the paths, or GitError."""
        return await self.commit(await self.merge_tree(ours, theirs), (ours, theirs), message)

    async def merge_tree(self, ours: str, theirs: str) -> str:
        """Give the tree of that merge, without a commit. Raises MergeConflictError with the paths, or GitError."""
        try:
            return await self._merged(ours, theirs)
        except MergeConflictError as error:
            if self._board.path not in error.paths:
                raise
            tree = await self._with_rows(ours, theirs)
            if tree is None:
                raise
            return tree

    async def _with_rows(self, ours: str, theirs: str) -> str | None:
        """Merge with the board combined by its rows; None where one side has none.

        Two orchestrators may each have merged the same two commits, with boards that git finds in conflict: then it
        finds that conflict again in whatever is built on the one and on the other.
        """
        common = await self._repository.line("merge-base", ours, theirs)
        before, mine, other = [
            await self._repository.blob(commit, self._board.path) for commit in (common, ours, theirs)
        ]
        if mine is None or other is None:
            return None
        # Whatever the history says, what is the same on both sides is no conflict.
        same = await self._tree_with(ours, self._board.path, lambda _: other)
        if same is not None:
            ours = await self._repository.line("commit-tree", "-p", ours, "-m", "With the other board", same)
        tree = await self._merged(ours, theirs)
        board = self._board.combine(before, mine, other)
        return await self._tree_with(tree, self._board.path, lambda _: board) or tree

    async def _merged(self, ours: str, theirs: str) -> str:
        if await self._repository.version() < MERGE_TREE:
            return await self._merge_in_worktree(ours, theirs)
        result = await self._repository.run(
            "merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", ours, theirs, check=False
        )
        fields = result.stdout.split("\0")
        # Status 1 also means a bad name: it is a conflict only when a tree comes first.
        if result.status == 1 and len(fields[0]) in (40, 64):
            raise _conflict(fields[1:])
        if result.status != 0:
            raise GitError(
                f"git merge-tree failed: {result.stderr.strip() or result.status}",
                status=result.status,
                stderr=result.stderr,
            )
        return fields[0].strip()

    async def _merge_in_worktree(self, ours: str, theirs: str) -> str:
        run, scratch = self._repository.run, self._scratch
        await add_detached(self._repository, scratch, ours)
        await check_out(self._repository, scratch, ours, keep_ignored=False)
        merged = await run(
            "merge", "--quiet", "--no-ff", "--no-commit", "--no-verify", theirs, cwd=scratch, check=False
        )
        if merged.status != 0:
            unmerged = await run("diff", "--name-only", "--diff-filter=U", "-z", cwd=scratch)
            if unmerged.stdout:
                raise _conflict(unmerged.stdout.split("\0"))
            raise GitError(
                f"git merge failed: {merged.stderr.strip()}", status=merged.status, stderr=merged.stderr
            )
        return await self._repository.line("write-tree", cwd=scratch)

    async def signs(self) -> bool:
        """Whether the user's commits are signed."""
        if self._signs is None:
            asked = await self._repository.run("config", "--type=bool", "commit.gpgSign", check=False)
            self._signs = asked.stdout.strip() == "true"
        return self._signs

    async def commit(self, tree: str, parents: Sequence[str], message: str) -> str:
        """Make a commit object, signed if the user signs theirs. The identity is the user's own."""
        signing = ("-S",) if await self.signs() else ()
        flags = [flag for parent in parents for flag in ("-p", parent)]
        result = await self._repository.run(
            "commit-tree", *signing, *flags, "-F", "-", tree,
            input=message.encode("utf-8", "surrogateescape"),
        )  # fmt: skip
        return result.stdout.strip()

    async def with_file(self, commit: str, path: str, change: Callable[[bytes], bytes], message: str) -> str:
        """Give a child of `commit` in which one file's bytes are changed; `commit` itself when nothing changes."""
        tree = await self._tree_with(commit, path, change)
        return await self.commit(tree, (commit,), message) if tree is not None else commit

    async def _tree_with(self, commit: str, path: str, change: Callable[[bytes], bytes]) -> str | None:
        """Give the tree of a commit (or that tree) with one file's bytes changed; None when nothing changes."""
        run = self._repository.run
        entry = (await run("ls-tree", "-z", commit, "--", f":(top,literal){path}", check=False)).stdout
        if not entry:
            return None
        mode, _, rest = entry.partition(" ")
        blob = rest.split("\t", 1)[0].split(" ")[-1]
        old = (await run("cat-file", "blob", blob)).stdout.encode("utf-8", "surrogateescape")
        new = change(old)
        if new == old:
            return None
        # --no-filters: the bytes in the repository change where we change them, and nowhere else.
        written = await run("hash-object", "-w", "--no-filters", "--stdin", input=new)
        with tempfile.TemporaryDirectory(prefix="taskyard-") as folder:
            env = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
            await run("read-tree", commit, env=env)
            await run("update-index", "--cacheinfo", f"{mode},{written.stdout.strip()},{path}", env=env)
            return (await run("write-tree", env=env)).stdout.strip()


def _conflict(paths: Sequence[str]) -> MergeConflictError:
    found = tuple(dict.fromkeys(path for path in paths if path))
    return MergeConflictError(f"conflict in {', '.join(found)}", found)


def trailers_of(*keys: str) -> str:
    """Give the part of a `git log` format that tells these trailers' values, with NUL bytes between the keys."""
    return "%x00".join(f"%(trailers:key={key},valueonly,separator=%x01)" for key in keys)


def with_trailers(message: str, trailers: Mapping[str, str]) -> str:
    """Give a commit message that ends in the trailers, without control characters: git refuses a NUL byte in it."""
    message = _CONTROL.sub("", message)
    return f"{message.rstrip()}\n\n" + "".join(f"{key}: {value}\n" for key, value in trailers.items())
