"""A pipe or a device in the place of a file is told, and holds nobody up."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.board.parse import read_board
from engine.errors import BoardError, SettingsError, StoreError, TemplateError
from engine.log_times import LogTimesReader
from engine.regular import read_regular, read_regular_text
from engine.roles.prompt_library import PromptLibrary
from engine.settings import load_settings
from engine.store.connection import connect_reader
from engine.store.database import Schema, open_database
from engine.store.lessons.file import LessonsFile, Position
from engine.templates import TemplateEngine
from tui.call_record import prompt_lines, record_lines
from tui.log_tail import LogTail

KINDS: dict[str, Callable[[Path], None]] = {
    "a pipe": os.mkfifo,
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "full": lambda path: path.symlink_to("/dev/full"),
}


@pytest.fixture(params=KINDS)
def odd(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "odd.md.j2"
    KINDS[request.param](path)
    return path


def test_a_board_is_told(odd: Path) -> None:
    with pytest.raises(BoardError, match=r"cannot be read \(it is no regular file\)"):
        read_board(odd)


def test_settings_are_told(odd: Path, tmp_path: Path) -> None:
    odd.rename(tmp_path / "taskyard.toml")
    with pytest.raises(SettingsError, match=r"taskyard\.toml cannot be read \(it is no regular file\)"):
        load_settings(tmp_path, environ={})


def test_a_prompt_is_told(odd: Path) -> None:
    with pytest.raises(TemplateError, match="no regular file"):
        PromptLibrary(TemplateEngine(), overrides=odd.parent).load()


def test_a_lessons_file_is_told(odd: Path) -> None:
    with pytest.raises(StoreError, match="cannot be read: it is no regular file"):
        LessonsFile(odd).read(Position())
    with pytest.raises(StoreError, match="cannot be appended to: it is no regular file"):
        LessonsFile(odd).append(b"{}\n")


def test_a_database_is_told(odd: Path) -> None:
    with pytest.raises(StoreError, match="cannot be used: it is no regular file"):
        connect_reader(odd)
    with pytest.raises(StoreError, match="cannot be used: it is no regular file"):
        open_database(odd, schema=Schema(()), synchronous="FULL")


def test_a_log_and_a_record_are_told(odd: Path) -> None:
    assert not LogTail(odd).read()
    odd.rename(odd.with_name("log.times"))
    assert LogTimesReader(odd.with_name("log")).read() == []
    for lines in (record_lines, prompt_lines):
        ((content, _),) = lines(odd.with_name("log.times"), 80)[0]
        assert content.endswith("cannot be read: it is no regular file")


def test_what_is_always_empty_is_an_empty_file() -> None:
    assert read_regular(Path(os.devnull)) == b""
    file = LessonsFile(Path(os.devnull))
    file.append(b"{}\n")
    assert file.read(Position()).lines == ()


def test_lines_end_in_newlines_however_they_ended(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("\ufeffone\r\ntwo\rthree\n".encode())
    assert read_regular_text(tmp_path / "a", "utf-8-sig") == "one\ntwo\nthree\n"


def test_a_file_too_large_to_be_written_by_hand_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "board.md").open("wb") as file:
        file.truncate(2 << 30)
    with pytest.raises(BoardError, match="it is larger than 64 MB"):
        read_board(tmp_path / "board.md")
