"""The task board: a Markdown table in the repository, read whole and written one character at a time.

    board = read_board(Path("tasks/board.md"))
    for diagnostic in board.diagnostics:
        print(diagnostic)
    for task in board.runnable:
        ...
    write_statuses(board.path, {"T1": BoardStatus.LANDED})

The board of a file is the first table with the columns ID, Scope, Status and Verification, in any order and case;
Branch, After, Type, Lane and Priority are understood too, and any other column is left alone.
"""

from __future__ import annotations

from engine.board.combine import combined
from engine.board.parse import (
    NEEDED,
    OPTIONAL,
    Board,
    Diagnostic,
    Stamp,
    board_stamp,
    parse_board,
    read_board,
    read_statuses,
)
from engine.board.starter import starter_board
from engine.board.write import with_statuses, write_statuses

__all__ = [
    "NEEDED",
    "OPTIONAL",
    "Board",
    "Diagnostic",
    "Stamp",
    "board_stamp",
    "combined",
    "parse_board",
    "read_board",
    "read_statuses",
    "starter_board",
    "with_statuses",
    "write_statuses",
]
