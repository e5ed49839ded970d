"""`taskyard worktrees`: the worktrees that runs left, and what in them has not landed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tui.cli.console import say, say_json, say_table
from tui.cli.options import AsJson
from tui.cli.place import Place, find_place

if TYPE_CHECKING:
    from pathlib import Path

    from engine.git.leftovers import Leftover


def worktrees(as_json: AsJson = False) -> int:
    """List worktrees and what in them has not landed.

    Nothing is removed here: a worktree goes when its work has landed, and its task's next attempt uses it again.
    """
    import asyncio

    place = find_place()
    found = asyncio.run(_list(place))
    aside = _set_aside(place.paths.worktrees)
    if as_json:
        say_json({"worktrees": found, "set_aside": aside})
        return 0
    if not found and not aside:
        say("there are no worktrees")
        return 0
    rows = [
        (
            each.branch,
            each.commit[:7],
            str(each.unlanded),
            "–" if each.missing else str(each.dirty),
            f"{each.path}{' (gone)' if each.missing else ''}",
        )
        for each in found
    ]
    header = ("Branch", "Commit", "Unlanded", "Changed files", "Folder")
    say_table(header, rows, right=frozenset({2, 3}))
    for path in aside:
        say(f"set aside, since git no longer knows it: {path}")
    return 0


async def _list(place: Place) -> tuple[Leftover, ...]:
    from engine.errors import GitError
    from engine.git.leftovers import leftovers
    from engine.git.repository import Repository
    from engine.git.upstream import Upstream

    settings = place.settings
    repository = await Repository.open(place.root, environ=os.environ)
    remotes = (await repository.run("remote")).stdout.split()
    remote = settings.git.remote if settings.git.remote in remotes else None
    upstream = Upstream(repository, remote, settings.git.target, timeout=settings.git.timeout)
    try:
        tip = await upstream.fetch()
    except GitError:
        tip = None  # The remote does not answer; what this checkout has is the next best to count from.
    landed_in = tip or await repository.commit_of("HEAD")
    return await leftovers(repository, place.paths.worktrees, landed_in=landed_in)


def _set_aside(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.lost-*")) if folder.is_dir() else []
