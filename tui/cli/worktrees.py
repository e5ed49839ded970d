"""`taskyard worktrees`: the worktrees that runs left, what in them has not landed, and what else is kept."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tui.cli.console import say, say_json, say_table
from tui.cli.options import AsJson
from tui.cli.place import Place, find_place

if TYPE_CHECKING:
    from pathlib import Path

    from engine.git.leftovers import Kept, Leftover


def worktrees(as_json: AsJson = False) -> int:
    """List worktrees with what in them has not landed, and what is kept of earlier attempts.

    Nothing is removed here: all of it goes when its task has landed. How to take it back or remove it by hand stands
    below the list.
    """
    import asyncio

    place = find_place()
    found, kept = asyncio.run(_look(place))
    aside = _set_aside(place.paths.worktrees)
    if as_json:
        say_json({"worktrees": found, "kept": kept, "set_aside": aside})
        return 0
    if not (found or kept or aside):
        say("there are no worktrees")
        return 0
    if found:
        _say_worktrees(found)
    if kept:
        _say_kept(kept, time.time())
    for path in aside:
        say(f"set aside, since git no longer knows it: {path}")
    return 0


def _say_worktrees(found: Sequence[Leftover]) -> None:
    rows = [
        (
            each.branch,
            each.commit[:7],
            str(each.unlanded),
            "–" if each.missing else str(each.dirty),
            str(each.kept),
        )
        for each in found
    ]
    header = ("Branch", "Commit", "Unlanded", "Changed files", "Kept")
    folders = [f"{each.path}{' (gone)' if each.missing else ''}" for each in found]
    say_table(header, rows, right=frozenset({2, 3, 4}), below=folders)
    say(
        "A worktree stays until its task has landed: the next attempt works in it, and what it holds is kept first."
    )
    say(
        "Take it over: git -C FOLDER diff HEAD, git merge BRANCH. Remove it: git worktree remove --force FOLDER"
    )


def _say_kept(kept: Sequence[Kept], now: float) -> None:
    from tui.plain import ago

    say()
    rows = [
        (each.name, each.commit[:7], f"{ago(max(0.0, now - each.made_at))} ago", each.title) for each in kept
    ]
    say_table(("Kept of", "Commit", "Made", "Title"), rows, below=[each.ref for each in kept])
    say("These are what earlier attempts left, committed or not. Each goes when its task has landed.")
    say("Take it back: git switch -c NAME COMMIT. Remove it: git update-ref -d REF")


async def _look(place: Place) -> tuple[tuple[Leftover, ...], tuple[Kept, ...]]:
    from engine.errors import GitError
    from engine.git.leftovers import kept_states, leftovers
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
    found = await leftovers(repository, place.paths.worktrees, landed_in=landed_in)
    return found, await kept_states(repository)


def _set_aside(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.lost-*")) if folder.is_dir() else []
