"""Combine branches into one tree without any checkout: the user's files, index and stash are never touched."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from engine.errors import GitError, MergeConflictError
from engine.git.repository import Repository


class Combiner:
    """Merges commits by `merge-tree`; before git 2.38 in a worktree of its own."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    async def merge(self, ours: str, theirs: str, message: str) -> str:
        """Give a commit that merges `theirs` into `ours`, or `theirs` itself where `ours` is part of it.

        Raises MergeConflictError with the paths, GitError for anything else.
        """
        result = await self._repository.run(
            "merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", ours, theirs, check=False
        )
        fields = result.stdout.split("\0")
        tree = fields[0]
        # Status 1 also means a bad name: it is a conflict only when a tree comes first.
        if result.status == 1 and len(tree) in (40, 64):
            paths = tuple(dict.fromkeys(path for path in fields[1:] if path))
            raise MergeConflictError(f"conflict in {', '.join(paths)}", paths)
        if result.status != 0:
            raise GitError(
                f"git merge-tree failed: {result.stderr.strip() or result.status}",
                "git 2.38 or newer is needed",
                status=result.status,
                stderr=result.stderr,
            )
        return await self.commit(tree, (ours, theirs), message)

    async def commit(self, tree: str, parents: Sequence[str], message: str) -> str:
        """Make a commit object. The identity is the user's own."""
        flags = [flag for parent in parents for flag in ("-p", parent)]
        result = await self._repository.run(
            "commit-tree", *flags, "-F", "-", tree, input=message.encode("utf-8", "surrogateescape")
        )
        return result.stdout.strip()

    async def with_file(self, commit: str, path: str, change: Callable[[bytes], bytes], message: str) -> str:
        """Give a child of `commit` in which one file's bytes are changed; `commit` itself when nothing changes."""
        run = self._repository.run
        entry = (await run("ls-tree", "-z", commit, "--", f":(literal){path}", check=False)).stdout
        if not entry:
            return commit
        mode, _, rest = entry.partition(" ")
        blob = rest.split("\t", 1)[0].split(" ")[-1]
        old = (await run("cat-file", "blob", blob)).stdout.encode("utf-8", "surrogateescape")
        new = change(old)
        if new == old:
            return commit
        # --no-filters: the bytes in the repository change where we change them, and nowhere else.
        written = await run("hash-object", "-w", "--no-filters", "--stdin", input=new)
        with tempfile.TemporaryDirectory(prefix="taskyard-") as folder:
            env = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
            await run("read-tree", commit, env=env)
            await run("update-index", "--cacheinfo", f"{mode},{written.stdout.strip()},{path}", env=env)
            tree = (await run("write-tree", env=env)).stdout.strip()
        return await self.commit(tree, (commit,), message)


def with_trailers(message: str, trailers: Mapping[str, str]) -> str:
    """Give a commit message that ends in the trailers."""
    return f"{message.rstrip()}\n\n" + "".join(f"{key}: {value}\n" for key, value in trailers.items())
