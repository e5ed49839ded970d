"""Fingerprints, typed queries, and the line format of lessons."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.store.lessons import Lesson, LessonQuery, parse_query
from engine.store.lessons.fingerprint import failed_check, fingerprint, normalised, pattern_of
from engine.store.lessons.record import MalformedLineError, decode_line, encode_line, merge

NOW = 1_800_000_000.0
DAY = 86_400.0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("no answer from 10.0.0.7:5432 after 31.5 s", "no answer from 10.0.0.9:80 after 4 s"),
        ("segfault at 0x7ffe12ab in worker 3", "segfault at 0x1 in worker 12"),
        ("/home/ann/p/src/app.py:12: boom", "/srv/ci/build-7/src/app.py:99: boom"),
        (r"C:\Users\ann\app.py failed", r"D:\ci\app.py failed"),
        ("KeyError: 'invoice'", "KeyError: 'order'"),
        ('unknown option "--fast"', 'unknown option "--slow"'),
        ("commit 0a1b2c3d4e5f not found", "commit 99887766554433221100 not found"),
        ("id 3f2504e0-4f89-11d3-9a0c-0305e82c3301", "id 9b2504e0-4f89-11d3-9a0c-0305e82c3302"),
        ("2026-01-31T10:00:00 timeout", "2025-12-01T23:59:59 timeout"),
        ("\x1b[31mFAILED\x1b[0m  test", "failed test"),
        ("two\r\nlines", "two lines"),
    ],
)
def test_what_differs_by_chance_does_not_count(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("src/app.py: boom", "src/cli.py: boom"),
        ("timeout in load", "timeout in save"),
        ("I don't know; it doesn't load", "I don't see; it doesn't load"),
        ("face was added", "bead was added"),
    ],
)
def test_what_says_something_counts(one: str, other: str) -> None:
    assert normalised(one) != normalised(other)


def test_the_parts_of_a_fingerprint_are_framed() -> None:
    assert fingerprint("ab", "c", "f", "m") != fingerprint("a", "bc", "f", "m")
    assert len(fingerprint("", "", "", "")) == 16


def test_failed_checks_are_told_apart_by_their_command() -> None:
    def of(command: str, status: int = 1, kind: str = "check_failed") -> str:
        message = f"The verification did not pass.\n\n`{command}` ended with status {status}."
        return fingerprint("task", "verify", kind, message)

    assert of("grep -q snow T2.txt") != of("false")
    assert of("grep -q snow T2.txt") != of("grep -q snow T3.txt")
    assert of("test `cat a` = 1") != of("test `cat b` = 1")
    assert of("false", 1) == of("false", 2)
    assert of("true", kind="crash") == of("false", kind="crash")
    assert pattern_of("It did not pass.\n\n`grep -q snow T2.txt` ended with status 1.") == (
        "`grep -q snow T2.txt` ended with status <n>."
    )


def test_a_huge_message_is_known_by_its_start_and_end_at_once() -> None:
    huge = "start " + "/a" * 500_000 + "'" * 100_000 + " end"
    assert normalised(huge).startswith("start")
    assert normalised(huge).endswith("end")


@pytest.mark.parametrize("output", ["`" * 300_000, "` " * 150_000], ids=["close", "apart"])
def test_a_check_that_printed_many_backticks_is_looked_through_once(output: str) -> None:
    assert failed_check(output) == ("", 0)
    assert failed_check(f"`test `cat a` = 1` ended with status 1.\n{output}") == ("test `cat a` = 1", 38)
    assert pattern_of(f"{output}\n`false` ended with status 1.") == "`false` ended with status <n>."


def test_the_pattern_is_the_last_line_that_says_something() -> None:
    output = "collected 3 items\nE   AssertionError: assert 4 == 5\n1\n\n"
    assert pattern_of(output) == "e assertionerror: assert <n> == <n>"
    assert pattern_of("\n12\n") == ""


def test_a_typed_line_is_split_into_filters_and_text() -> None:
    assert parse_query("type:fix_bug failure:timeout since:7d  two words", clock=lambda: NOW) == LessonQuery(
        text="two words", task_type="fix_bug", failure_type="timeout", since=NOW - 7 * DAY
    )
    for name in ("stage", "activity"):
        assert parse_query(f"{name}:verify pattern:p file:src/a.py") == LessonQuery(
            activity_type="verify", pattern="p", file="src/a.py"
        )
    assert parse_query("since:1970-01-02 until:1970-01-03") == LessonQuery(since=DAY, until=3 * DAY - 0.001)


@pytest.mark.parametrize(
    "typed",
    [
        "foo:bar",
        "http://x",
        "type",
        "since:soon",
        "until:1999-99-99x",
        "until:2026-13-01",
        "a:b:c",
        '"type:x',
    ],
)
def test_what_is_no_filter_is_text(typed: str) -> None:
    assert parse_query(typed) == LessonQuery(text=typed)


@pytest.mark.parametrize("typed", ["type:", "since:", "since:7", "since:2026-0", "until:2026-99-9", "  "])
def test_an_unfinished_filter_filters_nothing_yet(typed: str) -> None:
    assert parse_query(typed).empty


@pytest.mark.parametrize("typed", ["since:7", "since:2026-0", "until:2026"])
def test_a_time_that_nobody_types_on_is_none(typed: str) -> None:
    assert parse_query(typed, whole=True) == LessonQuery(text=typed)


@given(st.text())
def test_no_typed_line_raises(typed: str) -> None:
    parse_query(typed)


def test_a_line_comes_back_as_it_was() -> None:
    lesson = Lesson("L1", "t", "a", "f", 'm "\n漢\x00', "r", "p", 3, 1.5, 2.5, {"files": "a b"})
    line = encode_line(lesson)
    assert line.count(b"\n") == 1
    assert decode_line(line[:-1]) == lesson


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"nonsense",
        b"[]",
        b"{}",
        b'{"id": 7}',
        b'{"id": "x", "times_seen": -1}',
        b'{"id": "x", "times_seen": 99999999999}',
        b'{"id": "x", "last_seen": "tomorrow"}',
        b'{"id": "x", "last_seen": 1e999}',
        b'{"id": "x", "failure_msg": "\xff"}',
        b'{"id": "x", "failure_msg": "\\ud800"}',
        b'{"id": "x", "last_seen": 1e24}',
        b'{"id": "x", "metadata": [1]}',
        b'{"id": "x", "metadata": ' + b"[" * 100_000,
        b"<<<<<<< HEAD",
    ],
)
def test_what_is_no_lesson_is_refused(line: bytes) -> None:
    with pytest.raises(MalformedLineError):
        decode_line(line)


def test_lines_of_other_writers_are_read_kindly() -> None:
    line = b"""{"id": "x", "failure_msg": "m", "resolution": null, "last_seen": "1970-01-02T00:00:00Z", "new": 1,
        "metadata": {"files": ["a", "b"], "tries": 3}}"""
    assert decode_line(line) == Lesson(
        "x", failure_msg="m", first_seen=DAY, last_seen=DAY, metadata={"files": "a b", "tries": "3"}
    )


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("1764500000", 1_764_500_000.0),
        ("1764500000000", 1_764_500_000.0),  # JavaScript's clock
        ("1764500000000000", 1_764_500_000.0),
        ("1764500000000000000", 1_764_500_000.0),
        ('"2025-11-30T11:53:20+01:00"', 1_764_500_000.0),
        ('"0001-01-01T00:00:00Z"', 0.0),  # Go's zero
        ("-5", 0.0),
        ("-1e300", 0.0),
        ('"9999-12-31T23:59:59-12:00"', 253_402_214_399.0),  # never
    ],
)
def test_a_time_of_another_writer_is_one_that_calendars_know(written: str, seconds: float) -> None:
    lesson = decode_line(b'{"id": "x", "failure_msg": "m", "last_seen": %b}' % written.encode())
    assert lesson.last_seen == lesson.first_seen == pytest.approx(seconds, abs=1)


def test_lines_of_one_lesson_add_up() -> None:
    first = Lesson("x", "t", "a", "f", "first words", "", "p", 2, 10.0, 20.0, {"files": "a.py", "task": "1"})
    again = Lesson(
        "x", "t", "a", "f", "other words", "", "", 1, 15.0, 30.0, {"files": "a.py b.py", "task": "2"}
    )
    resolved = msgspec.structs.replace(again, times_seen=0, resolution="do it", metadata={})
    lesson = merge(merge(first, again), resolved)
    assert lesson == Lesson(
        "x", "t", "a", "f", "first words", "do it", "p", 3, 10.0, 30.0, {"files": "a.py b.py", "task": "2"}
    )


def test_a_brief_keeps_what_helped_within_its_limit() -> None:
    lesson = Lesson(
        "x", failure_type="timeout", failure_msg="word " * 500, resolution="raise the limit", times_seen=4
    )
    brief = lesson.brief(200)
    assert len(brief) <= 200
    assert brief.startswith("timeout, seen 4 times: word word")
    assert brief.endswith("What helped: raise the limit")
    assert len(lesson.brief(10)) <= 10


def test_a_brief_of_a_long_message_keeps_its_end_where_the_reason_stands() -> None:
    brief = Lesson("x", failure_type="check_failed", failure_msg="red: " + "line " * 500 + "3 != 4").brief(
        200
    )
    assert len(brief) <= 200
    assert brief.startswith("check_failed: red: line")
    assert brief.endswith("line 3 != 4")
