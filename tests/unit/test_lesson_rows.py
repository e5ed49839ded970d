"""Lessons as lines: what helped is whole, what was found is marked, and nothing reaches the terminal but text."""

from __future__ import annotations

import pytest

from engine.store.lessons import Lesson, Span
from tui.lesson_rows import hit_rows, whole_lesson
from tui.line import Line, width
from tui.marking import MARK, excerpt, marked

NOW = 1_800_000_000.0
HOSTILE = "[/] [red]x[/red] \x1b[31mESC\x1b[2J a\rb 漢字 👩‍💻 \u202eabc\x9b31m"


def plain(line: Line) -> str:
    return "".join(content for content, _ in line)


def marks(*lines: Line) -> list[str]:
    return [content for line in lines for content, tone in line if tone == MARK]


def spans_of(field: str, content: str, *words: str) -> tuple[Span, ...]:
    return tuple(Span(field, content.index(word), content.index(word) + len(word)) for word in words)


@pytest.mark.parametrize(
    ("content", "places", "parts"),
    [
        ("one two", [(4, 7)], ["two"]),
        ("one  two\n\tthree", [(10, 15)], ["three"]),
        ("\x1b[31mred\x1b[0m and blue", [(5, 8), (17, 21)], ["red", "blue"]),
        ("漢字 and x", [(0, 2)], ["漢字"]),
        ("ab", [(-3, 1), (1, 99)], ["ab"]),
        ("", [(0, 1)], []),
    ],
)
def test_the_places_are_marked_whatever_is_taken_out(
    content: str, places: list[tuple[int, int]], parts: list[str]
) -> None:
    assert marks(marked(content, places)) == parts


def test_indentation_stays_where_it_counts() -> None:
    assert plain(marked("  a\tb  c", [], squeeze=False)) == "  a    b  c"
    assert plain(marked("  a\tb  c", [])) == "a b c"


def test_an_excerpt_shows_the_place_however_far_inside() -> None:
    content = "nothing of interest " * 200 + "the needle is here"
    at = content.index("needle")
    for cells in (12, 40, 100):
        line = excerpt(content, [(at, at + 6)], cells)
        assert plain(line).startswith("…")
        assert plain(line).index("needle") + 6 <= cells
        assert marks(line) == ["needle"]
    assert plain(excerpt("short", [(0, 5)], 40)) == "short"


@pytest.mark.parametrize("cells", [30, 36, 59, 60, 83, 84, 120])
def test_what_helped_is_whole_at_every_width(cells: int) -> None:
    helped = "Round once at the end of the sum and keep the remainder for the last line. " * 6
    lesson = Lesson("L1", "fix_bug", "verify", "check_failed", "totals " * 90, helped, times_seen=1_204)
    first, *rest = hit_rows(lesson, (), cells, NOW)
    assert all(width(row) <= cells for row in (first, *rest))
    assert " ".join("".join(plain(row) for row in rest).split()) == f"→ {helped.strip()}"


@pytest.mark.parametrize("cells", [36, 70, 120])
def test_a_hit_shows_why_it_was_found(cells: int) -> None:
    message = "x " * 300 + "the needle"
    lesson = Lesson(
        "L1", "fix_bug", "verify", "check_failed", message, "Thread the needle", "a needle",
        metadata={"files": "src/needle.py"},
    )  # fmt: skip
    for field, content, spoken in (
        ("failure_msg", message, ""),
        ("resolution", lesson.resolution, ""),
        ("pattern", lesson.pattern, "pattern: a needle"),
        ("metadata.files", lesson.metadata["files"], "files: src/needle.py"),
    ):
        rows = hit_rows(lesson, spans_of(field, content, "needle"), cells, NOW)
        assert marks(*rows) == ["needle"], field
        assert plain(rows[-1]).strip() == (spoken or "→ Thread the needle")


WALL = (
    "The verification did not pass.\n\n`python -m unittest` ended with status 1.\n\n.F\n======\n"
    "FAIL: test_half_cent (test_tax.Tax)\n------\nTraceback (most recent call last):\n"
    '  File "/tmp/yard/T1/test_tax.py", line 8, in test_half_cent\n'
    "AssertionError: 0.12 != 0.13\n\nRan 2 tests in 0.000s\n\nFAILED (failures=1)\n"
)


@pytest.mark.parametrize(
    ("failure", "message", "line"),
    [
        ("check_failed", WALL, "AssertionError: 0.12 != 0.13 in test_half_cent"),
        ("check_failed", "No.\n\n`grep -q a b` ended with status 1.\n\n", "`grep -q a b` ended with status 1."),
        ("timeout", "It did not pass.\n\n`make` ran out of time.\n\nerror: gone\n", "`make` ran out of time."),
        ("breaks_combination", 'fails it merged with "Round"\nAssertionError: 3 != 4', 'fails it merged with "Round"'),
        ("verdict_refused", "refused: it rounds twice\nerror: none", "refused: it rounds twice"),
        ("", "E   first\n    second line", "second line"),
        ("", "", ""),
    ],
)  # fmt: skip
def test_the_one_line_of_a_lesson_says_what_failed(failure: str, message: str, line: str) -> None:
    lesson = Lesson("L1", "fix_bug", "verify", failure, message)
    assert lesson.headline == line
    assert plain(hit_rows(lesson, (), 120, NOW)[0]).rstrip().endswith(line)


def test_what_was_found_beside_that_line_has_a_line_of_its_own() -> None:
    lesson = Lesson("L1", "fix_bug", "verify", "check_failed", WALL)
    first, *rest = hit_rows(lesson, spans_of("failure_msg", WALL, "0.12", "!="), 120, NOW)
    assert (marks(first), rest) == (["0.12", "!="], [])
    first, second = hit_rows(lesson, spans_of("failure_msg", WALL, "Traceback"), 120, NOW)
    assert (marks(first), marks(second)) == ([], ["Traceback"])
    assert plain(second).strip().startswith("output: ")
    assert "in test_half_cent" in plain(first)


def test_all_of_a_lesson_is_shown_what_helped_first() -> None:
    lesson = Lesson(
        "L1", "fix_bug", "verify", "check_failed", "E   first\n    second line", "Do this.\nThen that.", "p <n>",
        3, NOW - 86_400 * 9, NOW - 30, {"files": "a.py b.py", "task": "T1"},
    )  # fmt: skip
    lines = whole_lesson(lesson, spans_of("failure_msg", lesson.failure_msg, "second"), 60, NOW)
    text = [plain(line) for line in lines]
    assert text[:7] == [
        "What helped",
        "  Do this.",
        "  Then that.",
        "",
        "What failed",
        "  E   first",
        "      second line",
    ]
    assert marks(*lines) == ["second"]
    facts = dict(line.split("  ", 1) for line in text[8:] if "  " in line)
    assert facts["seen"].strip() == "3 times"
    assert facts["first"].endswith(", 9 d ago")
    assert facts["last"].endswith(", 30 s ago")
    assert (facts["files"].strip(), facts["task"].strip()) == ("a.py b.py", "T1")
    open_ = [plain(line) for line in whole_lesson(Lesson("L2", failure_msg="x"), (), 40, NOW)]
    assert open_[1] == "  not known yet: it is filled in when a"
    assert max(len(line) for line in open_) <= 40, "it is wrapped"


def test_nothing_hostile_reaches_a_line() -> None:
    lesson = Lesson("L1", HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, metadata={HOSTILE: HOSTILE})
    spans = tuple(Span(field, 3, 40) for field in ("failure_msg", "resolution", "failure_type", "pattern"))
    for cells in (30, 70, 120):
        for line in (
            *hit_rows(lesson, spans, cells, NOW),
            *whole_lesson(lesson, spans, cells, NOW),
        ):
            shown = plain(line).replace("\u200d", "")
            assert shown.isprintable(), repr(shown)
            assert width(line) <= cells


@pytest.mark.parametrize("at", [1e17, -1e15, 1e308, 253_402_300_799.0, float("nan"), float("-inf")])
def test_a_time_that_no_calendar_knows_is_told_in_words(at: float) -> None:
    lesson = Lesson("L1", failure_msg="m", first_seen=at, last_seen=at)
    rows = [plain(line) for line in whole_lesson(lesson, (), 80, NOW)]
    assert any(row.startswith("last") and "no date" in row for row in rows)
    assert max(map(len, rows)) <= 80
