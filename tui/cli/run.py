"""`taskyard run`: work the board off, in the dashboard or as plain lines."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tui.cli.boards import read_board_of
from tui.cli.console import complain, on_terminal
from tui.cli.options import CacheDir, Concurrency, EventsAsJson, Headless
from tui.cli.place import Place, find_place, require_writable

if TYPE_CHECKING:
    from engine.settings import Settings

Board = Annotated[Path | None, typer.Argument(metavar="BOARD", help="The board; by default [run] board.")]
Target = Annotated[str | None, typer.Option("--target", metavar="BRANCH", help="Land on this branch.")]
Remote = Annotated[
    str | None, typer.Option("--remote", metavar="NAME", help='Push there; "" keeps all local.')
]
Attempts = Annotated[
    int | None,
    typer.Option("--max-attempts", min=1, metavar="N", help="Give a task up after N failed attempts."),
]
FollowBoard = Annotated[
    str | None,
    typer.Option(
        "--follow-board",
        metavar="WHEN",
        help="Take edits of the board in: always, never, or (dashboard) ask.",
    ),
]
Budget = Annotated[
    float | None, typer.Option("--budget", min=0.0, metavar="USD", help="Spend at most this much on the run.")
]

Join = Annotated[
    bool,
    typer.Option(
        "--join", help="Work beside other runs of this board, sharing its tasks; they were started so too."
    ),
]


def run(
    board: Board = None,
    headless: Headless = False,
    as_json: EventsAsJson = False,
    target: Target = None,
    remote: Remote = None,
    max_concurrency: Concurrency = None,
    max_attempts: Attempts = None,
    budget: Budget = None,
    follow_board: FollowBoard = None,
    cache_dir: CacheDir = None,
    join: Join = False,
) -> int:
    """Work the board off.

    A run that was interrupted or killed is taken up where it was.

    Exit status: 0 all landed, 1 some failed, 2 usage or settings, 3 budget reached, 130 interrupted.
    """
    overrides = {
        "git.target": target,
        "git.remote": remote,
        "run.max_concurrency": max_concurrency,
        "run.max_attempts": max_attempts,
        "budget.usd": budget,
        "run.follow_board": follow_board,
        "locks.shared": True if join else None,
        "run.cache_dir": None if cache_dir is None else str(cache_dir.absolute()),
    }
    place = find_place(overrides, board=board)
    return run_place(place, headless=headless, as_json=as_json, environ=os.environ)


def run_place(
    place: Place, *, headless: bool, as_json: bool, environ: Mapping[str, str], kept: bool = True
) -> int:
    """Run the board of a place; gives the exit status. Without a terminal progress is plain, and that is said.

    `kept`: whether the place is there afterwards, so that an interrupted run can be taken up.
    """
    require_writable(place)
    read_board_of(place)  # the commonest mistake is told before the screen changes
    if not (headless or as_json or on_terminal()):
        complain("no terminal for the dashboard, so progress is printed as plain lines")
        headless = True
    if headless or as_json:
        return run_headless(place.settings, as_json=as_json, environ=environ, kept=kept)
    from tui.cli.dashboard import show_run

    return show_run(place, environ, kept=kept)


def run_headless(settings: Settings, *, as_json: bool, environ: Mapping[str, str], kept: bool = True) -> int:
    """Run the board and print its events, as lines or as JSON; gives the exit status."""
    import asyncio

    from tui.cli.foreground import run_and_print

    return asyncio.run(run_and_print(settings, as_json=as_json, environ=environ, kept=kept))
