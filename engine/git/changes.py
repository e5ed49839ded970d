"""What an attempt leaves in its worktree: one commit over its base, and that commit in numbers, as text, as a patch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from engine.errors import GitError
from engine.git.combine import with_trailers
from engine.git.ready import folders_in
from engine.git.registry import is_linked
from engine.git.repository import Repository
from engine.git.sparse import stage_all
from engine.model import Change

COMMIT_TIMEOUT = 600.0  # seconds: the repository's own hooks may run its tests


class Worktree(msgspec.Struct, frozen=True):
    """One worktree, checked out on `branch`, whose attempt began from the commit `base`."""

    task_id: str
    path: Path
    branch: str
    base: str


async def commit_all(
    repository: Repository, worktree: Worktree, message: str, trailers: Mapping[str, str], *, but: str
) -> Change | None:
    """Commit everything that differs from the base as one commit; None when nothing does.

    Commits that an agent made itself are folded in, and the file `but` (the board) stays as it is in the base. The
    user's hooks run. Raises GitError when the branch is no longer the task's, or a hook refuses.
    """
    run, path = repository.run, worktree.path
    git_dir = await _require_its_branch(repository, worktree)
    await run("reset", "--soft", worktree.base, cwd=path)
    await stage_all(repository, path, worktree.base, folders_in(git_dir))
    await run("reset", "--quiet", worktree.base, "--", f":(top,literal){but}", cwd=path, check=False)
    if (await run("diff", "--cached", "--quiet", worktree.base, cwd=path, check=False)).status == 0:
        return None
    await _refuse_repositories(repository, worktree)
    text = with_trailers(message, trailers).encode("utf-8", "surrogateescape")
    await run(
        "commit", "--quiet", "--cleanup=verbatim", "--file=-",
        cwd=path, hooks=True, secrets=False, input=text, timeout=COMMIT_TIMEOUT,
    )  # fmt: skip
    return await describe(repository, worktree.base, await repository.line("rev-parse", "HEAD", cwd=path))


async def describe(repository: Repository, base: str, commit: str) -> Change:
    """Give the change between two commits, in numbers and paths."""
    result = await repository.run("diff", "--numstat", "-z", "--no-renames", base, commit)
    rows = [row.split("\t", 2) for row in result.stdout.split("\0") if row]
    return Change(
        commit=commit,
        base=base,
        files=len(rows),
        added=sum(int(row[0]) for row in rows if row[0] != "-"),
        removed=sum(int(row[1]) for row in rows if row[1] != "-"),
        paths=tuple(row[2].encode("utf-8", "replace").decode() for row in rows),
    )


async def diff_of(repository: Repository, base: str, commit: str) -> str:
    """Give the change as text to read; bytes that are no UTF-8 are replaced."""
    result = await repository.run("diff", "--no-color", "--no-ext-diff", base, commit)
    return result.stdout.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


async def patch_of(repository: Repository, base: str, commit: str) -> bytes:
    """Give the change as a patch that `git apply` takes to the letter."""
    result = await repository.run("diff", "--binary", "--full-index", "--no-ext-diff", base, commit)
    return result.stdout.encode("utf-8", "surrogateescape")


async def _require_its_branch(repository: Repository, worktree: Worktree) -> Path:
    """Give the worktree's git folder. Raises GitError unless it still stands on its task's branch."""
    if not worktree.path.is_dir():
        raise GitError("the attempt removed the folder it works in", "leave the folder itself in place")
    head = await repository.run(
        "rev-parse", "--absolute-git-dir", "--symbolic-full-name", "HEAD", cwd=worktree.path, check=False
    )
    git_dir, _, branch = head.stdout.rstrip("\n").partition("\n")
    if not (git_dir and is_linked(repository, Path(git_dir))):
        raise GitError(
            "the attempt removed or replaced the .git file of its folder",
            "leave that file alone: the folder is under version control already",
        )
    if branch != f"refs/heads/{worktree.branch}":
        raise GitError("the attempt switched to another branch", f"stay on {worktree.branch}")
    return Path(git_dir)


async def _refuse_repositories(repository: Repository, worktree: Worktree) -> None:
    """Refuse a change that holds a git repository of its own: git would keep its name, and lose its files."""
    listing = await repository.run(
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
