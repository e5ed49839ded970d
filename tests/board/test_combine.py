"""Two versions of a board become one by their rows: nobody's row, words or state is lost."""

from __future__ import annotations

import pytest

from engine.board import combined
from tests.board.boards import HEADER


def board(*rows: str, head: str = "# Board\n\n", tail: str = "\nNotes\n", header: str = HEADER) -> bytes:
    """A board with rows like `T1 x Scope`: the id, its state (`-` for open) and its scope."""
    cells = [row.split(" ", 2) for row in rows]
    lines = [f"| {name} | {scope} | [{box.replace('-', ' ')}] | | `true` | |\n" for name, box, scope in cells]
    return (head + header + "".join(lines) + tail).encode()


BEFORE = board("T1 - One", "T2 - Two", "T3 - Three")


@pytest.mark.parametrize(
    ("ours", "theirs", "result"),
    [
        # Marks beside a new row, a rewritten one and one that was taken out.
        (
            board("T1 x One", "T2 x Two", "T3 ! Three"),
            board("T1 - One", "T3 - The third", "T4 - Four"),
            board("T1 x One", "T3 ! The third", "T4 - Four"),
        ),
        # Both have added rows, at the same place.
        (
            board("T0 - Zero", "T1 - One", "T2 - Two", "T3 x Three", "V1 x Vee"),
            board("T1 - One", "T2 - Two", "T3 - Three", "W1 - Double"),
            board("T0 - Zero", "T1 - One", "T2 - Two", "T3 x Three", "W1 - Double", "V1 x Vee"),
        ),
        # What is said outside the rows is that of the side that has changed it.
        (
            board("T1 x One", "T2 - Two", "T3 - Three", head="# New\n"),
            board("T1 - One", "T2 - Two", "T3 - Three", "T4 - Four"),
            board("T1 x One", "T2 - Two", "T3 - Three", "T4 - Four", head="# New\n"),
        ),
        # States: a new one counts on either side, also one that is open again; where both are new, ours.
        (
            board("T1 x One", "T2 - Two", "T3 x Three"),
            board("T1 - One", "T2 x Two", "T3 ! Three"),
            board("T1 x One", "T2 x Two", "T3 x Three"),
        ),
        # Both have rewritten a row: theirs counts, and stands there once.
        (
            board("T1 x The first", "T2 - Two", "T3 - Three"),
            board("T1 - Number one", "T2 - Two", "T3 - Three"),
            board("T1 x Number one", "T2 - Two", "T3 - Three"),
        ),
    ],
)
def test_what_both_sides_have_changed_is_there(ours: bytes, theirs: bytes, result: bytes) -> None:
    assert combined(BEFORE, ours, theirs).decode() == result.decode()


def test_a_row_that_is_open_again_on_one_side_is_open() -> None:
    done = board("T1 x One", "T2 x Two")
    assert combined(done, board("T1 - One", "T2 x Two"), done) == board("T1 - One", "T2 x Two")
    assert combined(done, done, board("T1 - One", "T2 x Two")) == board("T1 - One", "T2 x Two")


def test_a_board_that_neither_side_had_before_has_the_rows_of_both() -> None:
    result = combined(None, board("T1 x One", "T2 - Two"), board("T1 - One", "T3 - Three"))
    assert result == board("T1 x One", "T2 - Two", "T3 - Three")


def test_boards_with_different_columns_are_not_mixed() -> None:
    wide = "| ID | Scope | Status | Branch | Verification | Owner |\n|---|---|---|---|---|---|\n"
    ours, theirs = board("T1 x One", "T2 - Two"), board("T1 - One", "T4 - Four", header=wide)
    expected = board("T1 x One", "T4 - Four", header=wide)
    assert combined(BEFORE, ours, theirs) == combined(BEFORE, theirs, ours) == expected


def test_what_is_no_board_gives_way() -> None:
    assert combined(BEFORE, b"gone\n", BEFORE) == BEFORE
    assert combined(b"none yet\n", BEFORE, b"gone\n") == b"gone\n"


def test_line_ends_and_a_last_line_without_one_are_kept() -> None:
    crlf = BEFORE.replace(b"\n", b"\r\n")
    ours = crlf.replace(b"[ ]", b"[x]", 1)
    theirs = crlf.replace(b"Two", b"2")
    assert combined(crlf, ours, theirs) == ours.replace(b"Two", b"2")
    bare = board("T1 - One", tail="").rstrip(b"\n")
    more = board("T1 - One", "T2 - Two", tail="").rstrip(b"\n")
    result = combined(bare, bare.replace(b"[ ]", b"[x]"), more)
    assert result.rstrip(b"\n") == more.replace(b"[ ]", b"[x]", 1)
