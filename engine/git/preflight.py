"""Is the repository in a state that a run can start from? Each answer is one clear sentence; nothing is written."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from engine.errors import PreflightError
from engine.git.repository import Repository
from engine.git.upstream import Upstream

OLDEST = (2, 38)


class Preflight(msgspec.Struct, frozen=True):
    """What a run starts from. `base` is the commit tasks begin at, `tip` the target's tip (None: not there yet).

    `remote` None means that work lands in this repository only. `notices` are sentences for a person.
    """

    base: str
    target: str
    remote: str | None
    tip: str | None
    notices: tuple[str, ...] = ()


async def preflight(repository: Repository, *, remote: str, target: str, timeout: float) -> Preflight:
    """Check the repository; raises PreflightError with what to do."""
    run = repository.run
    notices: list[str] = []
    await _git_is_new_enough(repository)
    head = await repository.commit_of("HEAD")
    if head is None:
        raise PreflightError(
            f"{repository.root} has no commit yet", "make a first commit: git add -A && git commit"
        )
    if (await repository.line("rev-parse", "--is-shallow-repository")) == "true":
        raise PreflightError("the repository is a shallow clone", "run git fetch --unshallow")
    current = (await run("symbolic-ref", "--quiet", "HEAD", check=False)).stdout.strip()
    if (await run("var", "GIT_COMMITTER_IDENT", check=False)).status != 0:
        raise PreflightError(
            "git does not know who you are",
            'run git config user.name "You" and git config user.email you@example.org',
        )
    if (await run("check-ref-format", f"refs/heads/{target}", check=False)).status != 0:
        raise PreflightError(f"{target!r} is no legal branch name", "set [git] target")
    if await repository.commit_of("refs/heads/task") is not None:
        raise PreflightError(
            "a branch named `task` is in the way of task/<ID>", "rename it: git branch -m task other"
        )
    found = await _remote(repository, remote, notices)
    upstream = Upstream(repository, found, target, timeout=timeout)
    tip = await upstream.fetch()
    base = await _base(repository, head, current, upstream, tip, notices)
    notices += await _odd_things(repository, base)
    return Preflight(base, target, found, tip, tuple(notices))


async def _git_is_new_enough(repository: Repository) -> None:
    words = await repository.line("version")
    found = re.search(r"(\d+)\.(\d+)", words)
    if found and (int(found[1]), int(found[2])) < OLDEST:
        raise PreflightError(
            f"{words} cannot merge without a checkout", f"install git {OLDEST[0]}.{OLDEST[1]} or newer"
        )


async def _remote(repository: Repository, remote: str, notices: list[str]) -> str | None:
    if not remote:
        notices.append("no remote is set: work lands in this repository only")
        return None
    names = (await repository.run("remote")).stdout.split()
    if remote in names:
        return remote
    if names:
        raise PreflightError(
            f"there is no remote {remote}", f"set [git] remote to one of: {', '.join(names)}"
        )
    notices.append(f"there is no remote {remote}: work lands in this repository only")
    return None


async def _base(
    repository: Repository, head: str, current: str, upstream: Upstream, tip: str | None, notices: list[str]
) -> str:
    """Tasks begin from the user's commit; where they land on the user's own branch, from what is pushed of it."""
    direct = current == upstream.ref
    if upstream.remote is None:
        holder = await _checked_out(repository, upstream.ref)
        if holder is not None:
            raise PreflightError(
                f"{upstream.target} is checked out in {holder}, and is never moved there",
                "set [git] target to another branch, or add a remote",
            )
        return head
    if direct and tip is not None and tip != head:
        if await repository.is_ancestor(tip, head):
            count = await repository.line("rev-list", "--count", f"{tip}..{head}")
            notices.append(
                f"{count} commits of {upstream.target} are not pushed: "
                f"tasks begin from {upstream.remote}/{upstream.target}"
            )
        return tip
    if not current:
        notices.append(f"HEAD is detached at {head[:10]}: tasks begin there and land on {upstream.target}")
    return head


async def _checked_out(repository: Repository, ref: str) -> Path | None:
    listing = (await repository.run("worktree", "list", "--porcelain", "-z")).stdout
    for entry in listing.split("\0\0"):
        lines = dict(line.partition(" ")[::2] for line in entry.split("\0") if line)
        if lines.get("branch") == ref and "bare" not in lines:
            return Path(lines["worktree"])
    return None


async def _odd_things(repository: Repository, base: str) -> list[str]:
    """Name what works, but not as one might expect."""
    notices = []
    listing = (await repository.run("ls-tree", "-r", "-z", base, check=False)).stdout
    if "160000 commit" in listing:
        notices.append("the repository has submodules: they are not checked out in the tasks' worktrees")
    attributes = await repository.run(
        "grep", "-l", "filter=lfs", base, "--", "*.gitattributes", ".gitattributes", check=False
    )
    if attributes.status == 0 and (await repository.run("lfs", "version", check=False)).status != 0:
        notices.append("files are kept in LFS, but git-lfs is not installed: tasks see their pointers")
    hooks = (await repository.run("config", "core.hooksPath", check=False, hooks=True)).stdout.strip()
    if hooks and not (repository.root / Path(hooks).expanduser()).is_dir():
        notices.append(f"core.hooksPath names {hooks}, which does not exist: no hooks run")
    dirty = (await repository.run("status", "--porcelain", "--untracked-files=no", "-z", check=False)).stdout
    if dirty and not repository.bare:
        count = len([entry for entry in dirty.split("\0") if entry])
        notices.append(
            f"{count} changed files in your checkout are not part of what tasks see: they begin from {base[:10]}"
        )
    return notices
