"""The boards of a checkout, for somebody who named a file that is not there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.board import Board
    from tui.cli.place import Place

LARGEST = 1_000_000  # bytes of a file that is looked into
SHOWN = 3  # boards that are named
LISTED_WITHIN = 5.0  # seconds for git to list the files


def read_board_of(place: Place) -> Board:
    """Read the place's board. Raises BoardError: where there is none, with those that the checkout has instead."""
    from engine.board import read_board
    from engine.errors import BoardError

    path = place.settings.run.board
    if not path.exists() and (found := boards_in(place.root)):
        named = [os.path.relpath(board) for board in found[:SHOWN]]
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise BoardError(
            f"there is no board at {path}",
            f"this repository has {', '.join(named)}{more}; start with: taskyard run {named[0]}",
        )
    return read_board(path)


def boards_in(root: Path) -> list[Path]:
    """The Markdown files of a checkout that hold a task table, by name; those that git ignores are left out."""
    from engine.board import read_board
    from engine.errors import BoardError
    from engine.git.environment import clean_environment

    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"]
    try:
        listed = subprocess.run(
            command, capture_output=True, env=clean_environment(os.environ), timeout=LISTED_WITHIN
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    found = []
    for name in sorted(filter(None, listed.split(b"\0"))):
        path = root / os.fsdecode(name)
        try:
            if path.stat().st_size <= LARGEST:
                read_board(path)
                found.append(path)
        except (OSError, BoardError):
            continue
    return found
