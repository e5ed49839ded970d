"""Edits of a board while it is worked off."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.board import read_board
from engine.board.watch import BoardEdit, BoardWatch

HEAD = "| ID | Scope | Status | Branch | Verification |\n|---|---|---|---|---|\n"
A, B, C = (f"| {name} | do {name} | [ ] | | `true` |\n" for name in "ABC")


@pytest.fixture
def board(tmp_path: Path) -> Path:
    path = tmp_path / "board.md"
    path.write_text(HEAD + A + B)
    return path


def test_each_edit_is_told_once_and_only_what_rows_ask_for_is_one(board: Path) -> None:
    watch = BoardWatch(read_board(board))
    assert watch.look() is None
    board.write_text(f"# A title\n\n{HEAD}{B}{A}")
    assert watch.look() is None
    board.write_text(HEAD + A.replace("do A", "do something else") + C)
    assert watch.look() == BoardEdit(rows=("B", "A", "C"))
    assert watch.look() is None
    board.write_text(HEAD + A + C)
    assert watch.look() == BoardEdit(rows=("A",))


def test_a_row_that_is_marked_by_hand(board: Path) -> None:
    watch = BoardWatch(read_board(board))
    board.write_text(HEAD + A + B.replace("[ ]", "[x]"))
    assert watch.look() == BoardEdit(marked=("B",))
    board.write_text(HEAD + A + B.replace("[ ]", "[X]"))
    assert watch.look() is None


def test_a_board_that_cannot_be_read_is_told_and_what_comes_back_is_compared(board: Path) -> None:
    watch = BoardWatch(read_board(board))
    board.unlink()
    edit = watch.look()
    assert edit is not None
    assert str(board) in edit.problem
    assert watch.look() is None
    board.write_text("garbage\n")
    edit = watch.look()
    assert edit is not None
    assert edit.problem
    board.write_text(HEAD + A + B)
    assert watch.look() is None


def test_many_rows_are_told_in_few_words() -> None:
    assert str(BoardEdit(rows=tuple("ABCDEFG"))) == "A, B, C, D, E and 2 more"
    assert str(BoardEdit(rows=("A",))) == "A"
