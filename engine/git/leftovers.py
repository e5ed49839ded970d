"""What runs left: the worktrees of tasks with what in them has not landed, and what of earlier attempts is kept."""

from __future__ import annotations

from pathlib import Path

import msgspec

from engine.git.keeping import KEPT, kept_refs
from engine.git.registry import Registered, task_worktrees
from engine.git.repository import Repository
from engine.git.strays import Stray, strays


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


class Kept(msgspec.Struct, frozen=True):
    """A state that an earlier attempt left, committed or not; it goes when its task has landed.

    `name` is that of the task's worktree, `ref` what keeps the commit, `made_at` seconds since the epoch.
    """

    name: str
    ref: str
    commit: str
    made_at: float
    title: str


async def kept_states(repository: Repository) -> tuple[Kept, ...]:
    """Give all that is kept of earlier attempts, whether their worktrees still stand or not, oldest first."""
    fields = "%00".join(("%(refname)", "%(objectname)", "%(committerdate:unix)", "%(subject)"))
    listing = await repository.run("for-each-ref", "--sort=committerdate", f"--format={fields}", f"{KEPT}/")
    found = []
    for line in listing.stdout.splitlines():
        ref, commit, made_at, title = line.split("\0", 3)
        found.append(
            Kept(ref.removeprefix(f"{KEPT}/").rpartition("/")[0], ref, commit, float(made_at), title)
        )
    return tuple(found)


async def leftovers(repository: Repository, root: Path, *, landed_in: str | None) -> tuple[Leftover, ...]:
    """Give the worktrees of tasks, under the root and elsewhere, with what they hold that has not landed."""
    root = root.resolve()  # Git tells real paths.
    here = [await _leftover(repository, each, landed_in) for each in await task_worktrees(repository, root)]
    elsewhere = await strays(repository, root)
    return (*here, *[await _leftover(repository, each.found, landed_in, each) for each in elsewhere])


async def _leftover(
    repository: Repository, found: Registered, landed_in: str | None, stray: Stray | None = None
) -> Leftover:
    run, path = repository.run, found.path
    commit = found.commit or (await repository.commit_of(found.branch) if found.branch else "") or ""
    missing = not path.exists() or (stray is not None and stray.foreign)
    # The folder of a repository that was moved does not lead to it any more.
    at = (f"--git-dir={stray.admin}", f"--work-tree={path}") if stray is not None else ()
    status = "" if missing else (await run(*at, "status", "--porcelain", "-z", cwd=path, check=False)).stdout
    beyond = ("--not", landed_in) if landed_in else ()
    count = await run("rev-list", "--count", "--max-count=1000", commit, *beyond, check=False)
    return Leftover(
        path,
        found.branch.removeprefix("refs/heads/"),
        commit,
        len([line for line in status.split("\0") if line]),
        int(count.stdout or 0) if count.status == 0 else 0,
        missing,
        len(await kept_refs(repository, path.name)),
    )
