"""Lessons as lines: a hit in the list, what a run learned, and one lesson in whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.snapshot import LessonNote
from tui.format import fit, safe_text
from tui.line import BLANK, Line, cut_line, hard_wrapped, text, width
from tui.marking import MARK, excerpt, marked
from tui.plain import ago, when

if TYPE_CHECKING:
    from engine.store.lessons.ranking import Span
    from engine.store.lessons.record import Lesson

WIDE = 84
"""Cells from which a hit shows the type of its task and its age, too."""

NARROW = 60
"""Cells below which a hit's kind gives its place to the message."""

LONGEST = 2000
"""Characters of a resolution in the list; the lesson by itself shows all of it."""

NOT_RESOLVED = (
    "not known yet: it is filled in when a retry under the same terms lands and says what it did differently"
)
"""The terms: the words of the row, its check, and who plays the roles."""

_NOT_FOR_PEOPLE = frozenset({"terms"})
"""Digests among what is known of a lesson."""


def hit_rows(lesson: Lesson, spans: Sequence[Span], cells: int, now: float) -> list[Line]:
    """A lesson in a list: what failed on one line, as far as there is room, and below it what helped, whole.

    Words that were found are marked; where none of them stands in what is shown, one more line has one.
    """
    head = _head(lesson, spans, cells, now)
    room = max(8, cells - width(head))
    told = lesson.told
    here = [(start - told.start, end - told.start) for start, end in places(spans, "failure_msg")]
    length = told.end - told.start
    marks = [(start, end) for start, end in here if start >= 0 and end <= length]
    first: Line = (*head, *excerpt(lesson.headline, marks, room))
    rows = [cut_line(first, cells)]
    if lesson.resolution:
        helped = marked(lesson.resolution[:LONGEST], places(spans, "resolution"), "good")
        rows += _hung(helped, cells, (("  → ", "muted"),))
    if spans and not any(tone == MARK for row in rows for _, tone in row):
        rows.append(cut_line(_elsewhere(lesson, spans, cells), cells))
    return rows


def note_row(note: LessonNote, cells: int) -> Line:
    """What this run learned, or used, on one line."""
    mark, tone = ("✓", "good") if note.resolved else ("+", "warn")
    times = f"{note.times_seen}×" if note.times_seen > 1 else "new"
    head = f"{fit(safe_text(note.task), 8)} {fit(times, 4)} "
    room = max(8, cells - 2 - len(head))
    return ((mark + " ", tone), (head, "muted"), (fit(safe_text(note.text), room), "text"))


def whole_lesson(lesson: Lesson, spans: Sequence[Span], cells: int, now: float) -> list[Line]:
    """All of a lesson: what helped, what failed, and everything else that is known of it."""
    lines = [text("What helped", "accent strong")]
    if lesson.resolution:
        lines += _prose(lesson.resolution, places(spans, "resolution"), cells, "good")
    else:
        lines += _hung(text(NOT_RESOLVED, "muted"), cells, (("  ", "text"),))
    lines += [BLANK, text("What failed", "accent strong")]
    lines += _prose(lesson.failure_msg, places(spans, "failure_msg"), cells, "text")
    lines.append(BLANK)
    for name, field, value in lesson_facts(lesson, now):
        lines += _hung(marked(value, places(spans, field)), cells, ((f"{fit(name, 9)} ", "muted"),))
    return lines


def lesson_facts(lesson: Lesson, now: float) -> list[tuple[str, str, str]]:
    """What is known of a lesson beside its texts: what it is called, its field, its value."""
    facts = [
        ("task type", "task_type", lesson.task_type),
        ("stage", "activity_type", lesson.activity_type),
        ("failure", "failure_type", lesson.failure_type),
        ("pattern", "pattern", lesson.pattern),
        ("seen", "", f"{lesson.times_seen:,} time" + ("s" if lesson.times_seen != 1 else "")),
        ("first", "", _moment(lesson.first_seen, now)),
        ("last", "", _moment(lesson.last_seen, now)),
        *(
            (key, f"metadata.{key}", value)
            for key, value in lesson.metadata.items()
            if key not in _NOT_FOR_PEOPLE
        ),
        ("id", "id", lesson.id),
    ]
    return [(safe_text(name, 40), field, value) for name, field, value in facts if value]


def places(spans: Sequence[Span], field: str) -> list[tuple[int, int]]:
    """Where in this field something was found."""
    return [(span.start, span.end) for span in spans if span.field == field]


def field_text(lesson: Lesson, field: str) -> str:
    """What a field holds that a span names."""
    if field.startswith("metadata."):
        return lesson.metadata.get(field.removeprefix("metadata."), "")
    return str(getattr(lesson, field))


def _head(lesson: Lesson, spans: Sequence[Span], cells: int, now: float) -> Line:
    times = f"{lesson.times_seen:,}×"
    if cells < NARROW:
        return ((f"{times} ", "muted"),) if lesson.times_seen > 1 else ()
    failure = _cell(lesson.failure_type, places(spans, "failure_type"), 15)
    if cells < WIDE:
        return (*failure, (f" {fit(times, 5, right=True)}  ", "muted"))
    type_ = _cell(lesson.task_type, places(spans, "task_type"), 11)
    tail = f" {fit(times, 5, right=True)} {fit(_age(lesson.last_seen, now), 6, right=True)}  "
    return (*type_, (" ", "muted"), *failure, (tail, "muted"))


def _cell(content: str, found: list[tuple[int, int]], cells: int) -> Line:
    line = cut_line(marked(content[:200], found, "muted"), cells)
    return (*line, (" " * (cells - width(line)), "muted"))


def _elsewhere(lesson: Lesson, spans: Sequence[Span], cells: int) -> Line:
    field = spans[0].field
    name = "output" if field == "failure_msg" else field.removeprefix("metadata.")
    name = safe_text(name, 20).replace("_", " ")
    head: Line = ((f"  {name}: ", "muted"),)
    return (
        *head,
        *excerpt(field_text(lesson, field), places(spans, field), max(8, cells - width(head)), "muted"),
    )


def _prose(content: str, found: list[tuple[int, int]], cells: int, tone: str) -> list[Line]:
    """A text of several lines, indented; the places in it are marked."""
    lines: list[Line] = []
    offset = 0
    for line in content.split("\n"):
        here = [(start - offset, end - offset) for start, end in found if end > offset]
        row = marked(line, here, tone, squeeze=False)
        lines += _hung(row, cells, (("  ", "text"),)) if row else [BLANK]
        offset += len(line) + 1
    return lines


def _hung(line: Line, cells: int, head: Line) -> list[Line]:
    """The line after a head, in as many rows as it takes; later ones begin below the first."""
    indent: Line = ((" " * width(head), "text"),)
    rows = hard_wrapped(line, max(8, cells - width(head)))
    return [(*(indent if number else head), *row) for number, row in enumerate(rows)]


def _age(at: float, now: float) -> str:
    if not at:
        return ""
    return ago(now - at) if now - at >= 60 else "now"


def _moment(at: float, now: float) -> str:
    return f"{when(at)}, {ago(max(0.0, now - at))} ago" if at else ""
