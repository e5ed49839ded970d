"""The files that a plan names, read from a commit: the economy lane needs no worktree to ask."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from engine.git.repository import Repository
from engine.roles.requests import SourceFile

MAX_CHARS = 150_000  # of all files together


async def read_sources(repository: Repository, commit: str, paths: Sequence[str]) -> tuple[SourceFile, ...]:
    """Give the files in the order named, as many as fit into a prompt.

    One that does not exist has no text. What is no plain UTF-8 file, or too large to show whole, is left out: the model
    must not edit what it has not seen.
    """
    wanted = [path for path in dict.fromkeys(paths) if _is_plain(path)]
    if not wanted:
        return ()
    listing = await repository.run("ls-tree", "-z", commit, "--", *(f":(literal){path}" for path in wanted))
    found: dict[str, tuple[str, str]] = {}
    for entry in listing.stdout.split("\0"):
        head, _, name = entry.partition("\t")
        if name:
            mode, _, blob = head.split(" ")
            found[name] = mode, blob
    files = []
    left = MAX_CHARS
    for path in wanted:
        mode, blob = found.get(path, ("", ""))
        text = None
        if mode:
            text = await _text(repository, blob) if mode.startswith("100") else None
            if text is None or len(text) > left:
                continue
            left -= len(text)
        files.append(SourceFile(path, text))
    return tuple(files)


async def _text(repository: Repository, blob: str) -> str | None:
    size = int(await repository.line("cat-file", "-s", blob))
    if size > MAX_CHARS * 4:
        return None
    content = (await repository.run("cat-file", "blob", blob)).stdout
    return None if any("\udc80" <= letter <= "\udcff" for letter in content) else content


def _is_plain(path: str) -> bool:
    """Whether a path is relative, stays inside, and is none of git's own."""
    pure = PurePosixPath(path)
    return (
        bool(path)
        and not pure.is_absolute()
        and ".." not in pure.parts
        and ".git" not in pure.parts
        and "\0" not in path
    )
