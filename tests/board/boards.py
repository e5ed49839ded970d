"""Short ways to write a board in a test."""

from __future__ import annotations

from pathlib import Path

from engine.board import Board, parse_board

HEADER = "| ID | Scope | Status | Branch | Verification | After |\n|---|---|---|---|---|---|\n"


def board(*rows: str, header: str = HEADER, before: str = "") -> Board:
    """Parse a board of these rows; the first row stands in line 3 unless there is text before."""
    return parse_board((before + header + "".join(f"{row}\n" for row in rows)).encode(), Path("board.md"))


def row(id: str, after: str = "", status: str = "[ ]", verification: str = "`true`") -> str:
    """One sound row."""
    return f"| {id} | do {id} | {status} | task/{id} | {verification} | {after} |"


def told(found: Board) -> list[str]:
    """The diagnostics as a person reads them."""
    return [str(diagnostic) for diagnostic in found.diagnostics]


def runnable(found: Board) -> list[str]:
    """The ids of what can run."""
    return [task.id for task in found.runnable]
