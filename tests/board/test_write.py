"""Writing statuses: the one character changes, and nothing else does."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.board import parse_board, with_statuses, write_statuses
from engine.errors import BoardError
from engine.model import BoardStatus
from tests.board.boards import HEADER, row

LANDED, FAILED, OPEN = BoardStatus.LANDED, BoardStatus.FAILED, BoardStatus.OPEN
WILD = (
    "\ufeff# Board\r\n\r\n"
    "Status |  ID|Branch | Verification|Notes|Scope  \r\n"
    ":--|--|--|:-:|--|--\r\n"
    "[ ]|T1|b|`a | b`|x \\| y|café 漢字 |   \r\n"
    "|\t[!]  | `T2` | | `` `x` `` | | scope [ ] [x] |\r\n"
    "  [X] | T3 | | | | done\r\n"
    "\r\n[ ] T1 | T1 | [ ]\r\n"
).encode()


def test_only_the_status_character_changes() -> None:
    changed = with_statuses(WILD, {"T1": LANDED, "T2": OPEN, "T3": FAILED})
    assert len(changed) == len(WILD)
    differences = [
        (at, WILD[at : at + 1], changed[at : at + 1]) for at in range(len(WILD)) if WILD[at] != changed[at]
    ]
    assert [(old, new) for _, old, new in differences] == [(b" ", b"x"), (b"!", b" "), (b"X", b"!")]
    assert {task.id: task.status for task in parse_board(changed, Path("b")).tasks} == {
        "T1": LANDED, "T2": OPEN, "T3": FAILED,
    }  # fmt: skip


def test_what_stands_already_or_is_gone_changes_nothing() -> None:
    assert with_statuses(WILD, {"T1": OPEN, "T3": LANDED, "T9": FAILED}) == WILD


def test_a_status_that_a_person_edited_away_is_left_alone() -> None:
    data = (
        HEADER + row("T1", status="[-]") + "\n" + row("T2", status="later") + "\n| T3 | short |\n"
    ).encode()
    assert with_statuses(data, {"T1": LANDED, "T2": LANDED, "T3": LANDED}) == data.replace(b"[-]", b"[x]")


def test_the_file_is_replaced_whole_with_its_mode_through_a_symlink(tmp_path: Path) -> None:
    real = tmp_path / "real" / "board.md"
    real.parent.mkdir()
    real.write_bytes(WILD)
    real.chmod(0o640)
    link = tmp_path / "board.md"
    link.symlink_to(real)
    inode = real.stat().st_ino
    write_statuses(link, {"T1": LANDED})
    assert link.is_symlink()
    assert real.read_bytes() == with_statuses(WILD, {"T1": LANDED})
    assert real.stat().st_mode & 0o777 == 0o640
    assert real.stat().st_ino != inode, "replaced, so that a reader sees the old file or the new one"
    assert os.listdir(real.parent) == ["board.md"], "nothing is left behind"


def test_nothing_to_change_writes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "board.md"
    file.write_bytes(WILD)
    before = file.stat()
    write_statuses(file, {"T1": OPEN})
    assert file.stat().st_ino == before.st_ino
    assert file.stat().st_mtime_ns == before.st_mtime_ns


def test_a_failed_write_leaves_the_board_and_no_debris(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "board.md"
    file.write_bytes(WILD)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BoardError, match="No space left"):
        write_statuses(file, {"T1": LANDED})
    assert file.read_bytes() == WILD
    assert os.listdir(tmp_path) == ["board.md"]


def test_what_is_saved_while_we_write_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "board.md"
    file.write_bytes(WILD)
    edited = WILD.replace(b"done", b"done by hand").replace(b"[!]", b"[x]")
    sync = os.fsync

    def save_first(handle: int) -> None:
        monkeypatch.setattr(os, "fsync", sync)
        file.write_bytes(edited)
        sync(handle)

    monkeypatch.setattr(os, "fsync", save_first)
    write_statuses(file, {"T1": LANDED, "T2": OPEN})
    assert file.read_bytes() == with_statuses(edited, {"T1": LANDED, "T2": OPEN})
    assert os.listdir(tmp_path) == ["board.md"]


def test_a_board_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BoardError, match="no board"):
        write_statuses(tmp_path / "board.md", {"T1": LANDED})
    with pytest.raises(BoardError, match="holds no task board"):
        with_statuses(b"nothing", {"T1": LANDED})


@given(st.binary())
def test_any_bytes_are_a_board_or_an_error_of_ours(data: bytes) -> None:
    with contextlib.suppress(BoardError):
        parse_board(data, Path("b"))


TEXT = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=12)
HOSTILE = st.lists(
    st.sampled_from(["`", "``", "|", "\\", "\\|", " ", "x", "[ ]", "[x]", "\r", "漢", "\t"]), max_size=12
)
CELL = st.one_of(TEXT, HOSTILE.map("".join))
STATUS = st.sampled_from([OPEN, LANDED, FAILED])


@given(
    before=st.one_of(st.just(""), st.just("\ufeff"), TEXT.map(lambda text: text.replace("|", "") + "\n\n")),
    rows=st.lists(
        st.tuples(CELL, st.sampled_from(["[ ]", "[x]", "[X]", "[!]", "[-]", "?"]), CELL, CELL), max_size=6
    ),
    end=st.sampled_from(["\n", "\r\n"]),
    wanted=st.dictionaries(st.sampled_from([f"T{n}" for n in range(7)]), STATUS),
)
def test_a_write_changes_status_characters_only_and_reads_back(
    before: str, rows: list[tuple[str, str, str, str]], end: str, wanted: dict[str, BoardStatus]
) -> None:
    lines = [
        f"| T{n} | {scope} | {status} | {branch} | {verification} | |"
        for n, (scope, status, branch, verification) in enumerate(rows)
    ]
    data = (before + end.join([*HEADER.splitlines(), *lines, ""])).encode()
    try:
        old = parse_board(data, Path("b"))
    except BoardError:
        return  # the text before the board swallowed it, as an open code fence does
    changed = with_statuses(data, wanted)
    assert len(changed) == len(data)
    for at in range(len(data)):
        if changed[at] != data[at]:
            assert data[at - 1 : at] == b"["
            assert data[at + 1 : at + 2] == b"]"
    new = parse_board(changed, Path("b"))
    bad = {diagnostic.task for diagnostic in old.diagnostics if diagnostic.severity == "error"}
    for was, now in zip(old.tasks, new.tasks, strict=True):
        assert (was.id, was.scope, was.command, was.after) == (now.id, now.scope, now.command, now.after)
        if was.id not in bad:
            assert now.status == wanted.get(was.id, was.status)
