"""Is the repository in a state that a run can start from? Each answer is one clear sentence.

Nothing is written but, where commits are signed, one loose object that proves it works.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from engine.errors import GitError, PreflightError, PushRejectedError
from engine.git.registry import checked_out_at
from engine.git.repository import Repository
from engine.git.upstream import Upstream
from engine.git.versions import INSTALL, MERGE_TREE, NEEDED, SPARSE, named
from engine.git.words import count_of

SIGN_TIMEOUT = 15.0  # seconds: a key agent may ask a person
MANY_FILES = 50_000  # of which a worktree for each task takes its time


class Preflight(msgspec.Struct, frozen=True):
    """What a run starts from. `base` is the commit tasks begin at, `tip` the target's tip (None: not there yet).

    `remote` None means that work lands in this repository only. `notices` are sentences for a person.
    """

    base: str
    target: str
    remote: str | None
    tip: str | None
    notices: tuple[str, ...] = ()


async def preflight(
    repository: Repository,
    *,
    remote: str,
    target: str,
    timeout: float,
    sparse: Sequence[str] = (),
    ours: Sequence[Path] = (),
) -> Preflight:
    """Check the repository; raises PreflightError with what to do. `timeout` bounds the fetch, in seconds.

    `sparse` are the folders that tasks get to see; none: all. `ours` are files that are read where they lie, or written
    by ourselves: what was changed there is nothing that a task misses.
    """
    notices: list[str] = []
    if repository.bare:
        raise PreflightError(
            f"{repository.root} is a bare repository, without a board to read",
            "run in a clone, or in a worktree: git worktree add ../checkout",
        )
    await _git_is_new_enough(repository, notices, sparse)
    head = await repository.commit_of("HEAD")
    if head is None:
        raise PreflightError(
            f"{repository.root} has no commit yet", "make a first commit: git add -A && git commit"
        )
    if (await repository.line("rev-parse", "--is-shallow-repository")) == "true":
        raise PreflightError("the repository is a shallow clone", "run git fetch --unshallow")
    await _commits_can_be_made(repository, head)
    found = await _remote(repository, remote, notices)
    await _names_are_free(repository, found, target)
    upstream = Upstream(repository, found, target, timeout=timeout)
    try:
        tip = await upstream.fetch()
    except PushRejectedError as error:
        raise PreflightError(
            error.message, 'check the network and your access, or set [git] remote = "" to land here only'
        ) from error
    base = await _base(repository, head, upstream, tip, notices)
    notices += await _odd_things(repository, base, sparse, ours)
    return Preflight(base, target, found, tip, tuple(notices))


async def _git_is_new_enough(repository: Repository, notices: list[str], sparse: Sequence[str]) -> None:
    version = await repository.version()
    if version < NEEDED:
        raise PreflightError(f"git {named(version)} is too old", INSTALL)
    if sparse and version < SPARSE:
        raise PreflightError(
            f"git {named(version)} is too old for [git] sparse",
            f"install git {named(SPARSE)} or newer, or remove that setting",
        )
    if version < MERGE_TREE:
        notices.append(
            f"git {named(version)} cannot merge without a checkout: "
            f"landing is slower than with git {named(MERGE_TREE)} or newer"
        )


async def _commits_can_be_made(repository: Repository, head: str) -> None:
    if (await repository.run("var", "GIT_COMMITTER_IDENT", check=False)).status != 0:
        raise PreflightError(
            "git does not know who you are",
            'run git config user.name "You" and git config user.email you@example.org',
        )
    signs = await repository.run("config", "--type=bool", "commit.gpgSign", check=False)
    if signs.stdout.strip() == "true":
        try:
            await repository.run(
                "commit-tree", "-S", "-m", "Can I sign?", f"{head}^{{tree}}", timeout=SIGN_TIMEOUT
            )
        except GitError as error:
            raise PreflightError(
                f"your commits are to be signed (commit.gpgSign), and git cannot ({error.message})",
                "unlock the key with its agent, or run git config commit.gpgSign false",
            ) from error


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


async def _names_are_free(repository: Repository, remote: str | None, target: str) -> None:
    legal = await repository.run("check-ref-format", "--branch", target, check=False)
    if legal.status != 0 or legal.stdout.strip() != target:
        raise PreflightError(f"{target!r} is no legal branch name", "set [git] target")
    if await repository.commit_of("refs/heads/task") is not None:
        raise PreflightError(
            "a branch named `task` is in the way of task/<ID>", "rename it: git branch -m task other"
        )
    place = f"refs/remotes/{remote}" if remote else "refs/heads"
    for parent in list(Path(target).parents)[:-1]:
        if await repository.commit_of(f"{place}/{parent}") is not None:
            raise PreflightError(
                f"a branch named `{parent}` is in the way of {target}", "rename it, or set [git] target"
            )


async def _base(
    repository: Repository, head: str, upstream: Upstream, tip: str | None, notices: list[str]
) -> str:
    """Tasks begin from the user's commit; where they land on the user's own branch, from what is pushed of it."""
    remote, target = upstream.remote, upstream.target
    current = (await repository.run("symbolic-ref", "--quiet", "HEAD", check=False)).stdout.strip()
    if remote is None:
        holder = await checked_out_at(repository, upstream.ref)
        if holder is not None:
            raise PreflightError(
                f"{target} is checked out in {holder}, and is never moved there",
                "set [git] target to another branch, or add a remote",
            )
    if not current:
        notices.append(f"HEAD is detached at {head[:10]}: tasks begin there and land on {target}")
    if remote is None:
        return head
    if current == upstream.ref and tip is not None:
        if tip != head:
            ahead = int(await repository.line("rev-list", "--count", f"{tip}..{head}"))
            what = f"your {target} is behind"
            if ahead:
                what = f"your {target} has {count_of(ahead, 'commit')} that {remote} has not"
            notices.append(f"{what}: tasks begin from {remote}/{target}")
        return tip
    unpushed = int(await repository.line("rev-list", "--count", head, "--not", f"--remotes={remote}"))
    if unpushed:
        notices.append(
            f"{remote} lacks {count_of(unpushed, 'commit')} of yours: what lands on {target} brings them along"
        )
    return head


async def _odd_things(
    repository: Repository, base: str, sparse: Sequence[str], ours: Sequence[Path]
) -> list[str]:
    """Name what works, but not as one might expect."""
    run = repository.run
    notices = []
    listing = (await run("ls-tree", "-r", "-z", base)).stdout
    if "\x00160000 " in f"\0{listing}":
        notices.append(
            "the repository has submodules: each task's worktree checks them out, which takes time"
        )
    if not sparse and (files := listing.count("\0")) > MANY_FILES:
        notices.append(
            f"the repository has {files:,} files, and each running task checks out all of them: "
            'name the folders that tasks need, [git] sparse = ["src", "tests"]'
        )
    notices += [
        f"[git] sparse names {folder}, which is no folder of the repository"
        for folder in sparse
        if f"\t{folder}/" not in listing
    ]
    if not repository.has_lfs:
        attributes = await run(
            "grep", "-l", "filter=lfs", base, "--", ":(glob)**/.gitattributes", check=False
        )
        if attributes.status == 0:
            notices.append("files are kept in LFS, but git-lfs is not installed: tasks see their pointers")
    hooks = (await run("config", "--type=path", "core.hooksPath", check=False, hooks=True)).stdout.strip()
    if hooks and not (repository.root / hooks).is_dir():
        notices.append(f"core.hooksPath names {hooks}, which does not exist: no hooks run")
    root = repository.root.resolve()
    apart = [
        f":(top,exclude,literal){path.resolve().relative_to(root)}"
        for path in ours
        if path.resolve().is_relative_to(root)
    ]
    asked = ("status", "--porcelain", "--untracked-files=no", "--no-renames", "-z", "--", ":(top)", *apart)
    if files := (await run(*asked, check=False)).stdout.count("\0"):
        changed = count_of(files, "changed file")
        notices.append(f"tasks do not see {changed} of your checkout: they begin from the commit {base[:10]}")
    return notices
