"""`taskyard init`: the files a project needs, where they are missing."""

from __future__ import annotations

import os
from pathlib import Path

from engine.errors import UsageError
from tui.cli.console import say
from tui.cli.place import find_checkout, read_only_above


def init() -> int:
    """Write a board and settings to start from.

    What exists already is left as it is.
    """
    from engine.board import starter_board
    from engine.settings import FILE_NAME, load_settings, starter_settings

    root, _ = find_checkout(Path.cwd(), os.environ)
    settings_file = root / FILE_NAME
    board = load_settings(root, environ=os.environ).run.board
    wanted = {settings_file: starter_settings, board: starter_board}
    missing = [path for path in wanted if not path.exists()]
    for path in missing:
        _require_writable(path)
    for path in wanted:
        name = _shown(path, root)
        if path not in missing:
            say(f"{name} is there already")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(wanted[path]())
        say(f"{name} written")
    name = _shown(board, root)
    say(f"Next: put your tasks into {name}, commit it, look at `taskyard doctor`, then `taskyard run`.")
    return 0


def _shown(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _require_writable(path: Path) -> None:
    closed = read_only_above(path.parent)
    if closed is not None:
        raise UsageError(f"{path} cannot be written, for {closed} is read-only", "mend its permissions")
