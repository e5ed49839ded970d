"""The lessons file: appending by several processes, and reading only what is new, whatever happens to the file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import StoreError
from engine.store.lessons.file import LessonsFile, Position


@pytest.fixture
def file(tmp_path: Path) -> LessonsFile:
    return LessonsFile(tmp_path / "shared" / "lessons.jsonl")


def position_after(file: LessonsFile) -> Position:
    return file.read(Position()).after


def test_a_file_that_is_not_there_is_empty(file: LessonsFile) -> None:
    chunk = file.read(Position())
    assert (chunk.lines, chunk.restarted, chunk.more, chunk.size) == ((), False, False, 0)
    assert file.unchanged_since(Position())
    assert file.size() == 0


def test_only_what_was_appended_is_read(file: LessonsFile) -> None:
    file.append(b"one\ntwo\n")
    after = position_after(file)
    assert file.unchanged_since(after)
    file.append(b"three\n")
    assert not file.unchanged_since(after)
    chunk = file.read(after)
    assert chunk.lines == (b"three",)
    assert not chunk.restarted
    assert chunk.after.lines == 3
    assert file.read(chunk.after).lines == ()


def test_a_large_file_is_read_in_parts(file: LessonsFile) -> None:
    lines = [b"x" * (n % 50) for n in range(1000)]
    file.append(b"\n".join(lines) + b"\n")
    found: list[bytes] = []
    position, more, parts = Position(), True, 0
    while more:
        chunk = file.read(position, 1000)
        found += chunk.lines
        position, more, parts = chunk.after, chunk.more, parts + 1
    assert found == lines
    assert parts > 10
    assert file.unchanged_since(position)


def test_a_line_longer_than_a_part_is_read_whole(file: LessonsFile) -> None:
    file.append(b"a\n" + b"x" * 200_000 + b"\nb\n")
    chunk = file.read(Position(), 10)
    assert chunk.lines == (b"a",)
    assert file.read(chunk.after, 10).lines == (b"x" * 200_000, b"b")


def test_a_torn_line_waits_and_spoils_no_other(file: LessonsFile) -> None:
    file.append(b"one\n")
    with file.path.open("ab") as torn:
        torn.write(b'{"torn')
    chunk = file.read(Position())
    assert chunk.lines == (b"one",)
    assert not chunk.more
    assert file.unfinished() == (2, 4, b'{"torn')
    file.append(b"two\n")
    assert file.read(chunk.after).lines == (b'{"torn', b"two")


def test_a_truncated_file_is_read_from_its_start(file: LessonsFile) -> None:
    file.append(b"one\ntwo\n")
    after = position_after(file)
    file.path.write_bytes(b"new\n")
    chunk = file.read(after)
    assert (chunk.restarted, chunk.lines) == (True, (b"new",))


def test_a_truncated_file_that_grew_past_the_position_is_read_from_its_start(file: LessonsFile) -> None:
    file.append(b"one\ntwo\n")
    after = position_after(file)
    file.path.write_bytes(b"another beginning\nand more\n")
    assert file.read(after).restarted


def test_a_rotated_file_is_read_from_its_start(file: LessonsFile) -> None:
    file.append(b"one\ntwo\n")
    after = position_after(file)
    file.path.rename(file.path.with_suffix(".1"))
    assert file.read(after).restarted
    file.append(b"fresh start\n")
    chunk = file.read(after)
    assert (chunk.restarted, chunk.lines) == (True, (b"fresh start",))


def test_a_replaced_file_with_the_same_beginning_goes_on(file: LessonsFile) -> None:
    file.append(b"one\ntwo\n")
    after = position_after(file)
    pulled = file.path.with_suffix(".new")
    pulled.write_bytes(b"one\ntwo\nthree\n")
    pulled.rename(file.path)
    chunk = file.read(after)
    assert (chunk.restarted, chunk.lines) == (False, (b"three",))


def test_a_replaced_file_whose_middle_differs_is_read_from_its_start(file: LessonsFile) -> None:
    tail = b"same\n" * 40
    file.append(b"one\n" + tail)
    after = position_after(file)
    pulled = file.path.with_suffix(".new")
    pulled.write_bytes(b"two\n" + tail + b"three\n")
    pulled.rename(file.path)
    assert file.read(after).restarted


def test_an_edit_in_place_of_the_same_length_is_noticed(file: LessonsFile) -> None:
    file.append(b"one\n" + b"same\n" * 40)
    after = position_after(file)
    with file.path.open("r+b") as edited:
        edited.write(b"two")
    assert file.read(after).restarted


def test_a_touched_file_is_read_no_second_time(file: LessonsFile) -> None:
    file.append(b"one\n")
    after = position_after(file)
    file.path.touch()
    chunk = file.read(after)
    assert (chunk.restarted, chunk.lines) == (False, ())
    assert file.unchanged_since(chunk.after)


APPENDER = """
import sys
from pathlib import Path
from engine.store.lessons.file import LessonsFile
file = LessonsFile(Path(sys.argv[1]))
for number in range(300):
    file.append(b'{"who": "%s", "number": %d, "filler": "%s"}\\n' % (sys.argv[2].encode(), number, b"x" * 5000))
"""


def test_processes_that_append_at_once_tear_no_line(file: LessonsFile) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", APPENDER, str(file.path), who], cwd=Path(__file__).parents[2])
        for who in "ab"
    ]
    assert [writer.wait(timeout=200) for writer in writers] == [0, 0]
    found = [json.loads(line) for line in file.path.read_bytes().splitlines()]
    for who in "ab":
        assert [line["number"] for line in found if line["who"] == who] == list(range(300))


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from engine.errors import StoreError
from engine.store.lessons.file import LessonsFile
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
file = LessonsFile(Path(sys.argv[1]))
file.append(b"one\\n")
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    file.append(b"x" * 5000 + b"\\n")
except StoreError as error:
    print(error)
"""


def test_a_line_that_does_not_fit_is_taken_back_whole(file: LessonsFile) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(file.path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert "cannot be appended to" in done.stdout, done.stderr
    assert file.path.read_bytes() == b"one\n"


def test_what_cannot_be_read_or_written_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="permissions"):
        LessonsFile(tmp_path).read(Position())
    with pytest.raises(StoreError, match=r"\[lessons\] file"):
        LessonsFile(tmp_path).append(b"one\n")
