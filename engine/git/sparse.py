"""Worktrees that hold only some folders of a very large repository.

Folders mean what they mean to `git sparse-checkout set`: each of them whole, and the files that lie directly in the
root and in the folders above them. Git reads them from the worktree's own `info/sparse-checkout`. That it has to, is
said with every command of ours in a worktree (see `Repository.run`), since `git sparse-checkout` would write it into
the config that the user's checkout shares. Any other git there, an agent's or the check's, sees by the index that what
is not checked out has not changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from engine.git.repository import Repository

_ADD_SPARSE_SINCE = (2, 34)  # the git from which `add` must be told to take files outside the folders
_LITERAL = {"GIT_LITERAL_PATHSPECS": "1"}


def is_inside(path: str, folders: Sequence[str]) -> bool:
    """Whether the file is checked out where only these folders are; without any, all are."""
    parent = PurePosixPath(path).parent
    return not folders or any(
        parent.is_relative_to(folder) or PurePosixPath(folder).is_relative_to(parent) for folder in folders
    )


def choose(git_dir: Path, folders: Sequence[str]) -> None:
    """Have the next checkout of the worktree with this git folder take only the folders."""
    file = git_dir / "info" / "sparse-checkout"
    file.parent.mkdir(exist_ok=True)
    file.write_text(patterns(folders), encoding="utf-8")


def patterns(folders: Sequence[str]) -> str:
    """Give the folders as git's patterns."""
    wanted = {PurePosixPath(folder) for folder in folders}
    whole = {folder for folder in wanted if not wanted.intersection(folder.parents)}
    above = {parent for folder in whole for parent in folder.parents if parent.parts}
    lines = ["/*", "!/*/"]
    for parent in sorted(above):
        lines += [f"/{_escaped(parent)}/", f"!/{_escaped(parent)}/*/"]
    lines += [f"/{_escaped(folder)}/" for folder in sorted(whole)]
    return "\n".join(lines) + "\n"


def _escaped(folder: PurePosixPath) -> str:
    return "".join(f"\\{letter}" if letter in "\\*?[" else letter for letter in str(folder))


async def stage_all(
    repository: Repository,
    worktree: Path,
    base: str,
    folders: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    lenient: bool = False,
) -> None:
    """Stage all that differs from `base` in a worktree of these folders, files outside them too.

    `lenient`: pass over what cannot be read. What was never checked out cannot have been deleted: should an agent's
    git have lost sight of that, it is put back.
    """
    run = repository.run
    also_outside = ("--sparse",) if await repository.version() >= _ADD_SPARSE_SINCE else ()
    errors = ("--ignore-errors",) if lenient else ()
    await run("add", "--all", *also_outside, *errors, cwd=worktree, env=env, check=not lenient)
    if not folders:
        return
    listing = await run(
        "diff", "--cached", "--name-only", "--no-renames", "--diff-filter=D", "-z", base, cwd=worktree, env=env
    )  # fmt: skip
    lost = [path for path in listing.stdout.split("\0") if path and not is_inside(path, folders)]
    if lost:
        names = _lines(lost)
        await run(
            "reset", "--quiet", base, "--pathspec-from-file=-", "--pathspec-file-nul",
            cwd=worktree, env={**(env or {}), **_LITERAL}, input=names, check=False,
        )  # fmt: skip
        await run("update-index", "--skip-worktree", "-z", "--stdin", cwd=worktree, env=env, input=names)


async def bring(repository: Repository, worktree: Path, paths: Sequence[str]) -> None:
    """Check out files that the worktree's folders leave out; paths of no such file are passed over."""
    run = repository.run
    listing = await run("ls-files", "-t", "-z", "--", *paths, cwd=worktree, env=_LITERAL, check=False)
    out = [entry[2:] for entry in listing.stdout.split("\0") if entry.startswith("S ")]
    if out:
        await run("update-index", "--no-skip-worktree", "-z", "--stdin", cwd=worktree, input=_lines(out))
        await run("checkout-index", "--quiet", "-z", "--stdin", cwd=worktree, input=_lines(out))


def _lines(paths: Sequence[str]) -> bytes:
    return "".join(f"{path}\0" for path in paths).encode("utf-8", "surrogateescape")
