"""The repository as every prompt shows it: its files, and what its people say about working in it.

Made once for a run, over the tree it starts from: the same bytes for all tasks are what a prompt cache can keep. What
landed since is found by the tools.
"""

from __future__ import annotations

import msgspec

from engine.git.repository import Repository

MAX_LISTED = 1_500  # file names
MAX_GUIDE = 8_000  # characters
GUIDES = ("AGENTS.md", "CLAUDE.md", "CONTRIBUTING.md")


class RepositoryContext(msgspec.Struct, frozen=True):
    """What the template `repository` is rendered with. `omitted` counts files that are not listed."""

    files: tuple[str, ...]
    omitted: int
    guide: str


async def read_context(repository: Repository, commit: str) -> RepositoryContext:
    """Read the context at one commit."""
    listing = await repository.run("ls-tree", "-r", "--name-only", "-z", commit)
    names = tuple(name for name in listing.stdout.split("\0") if name)
    guide = ""
    for name in GUIDES:
        if name in names:
            result = await repository.run("cat-file", "blob", f"{commit}:{name}", check=False)
            guide = result.stdout[:MAX_GUIDE].encode("utf-8", "replace").decode()
            break
    shown = tuple(name.encode("utf-8", "replace").decode() for name in names[:MAX_LISTED])
    return RepositoryContext(shown, len(names) - len(shown), guide)
