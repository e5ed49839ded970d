"""Taking over the lessons of another file: new ones, higher counts, and resolutions that are missing here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from engine.store.lessons.file import LessonsFile
from engine.store.lessons.index import id_for, mark_of
from engine.store.lessons.malformed import MalformedLine, malformed, numbered_lines
from engine.store.lessons.record import Lesson, MalformedLineError, decode_line, encode_line, merge

IMPORTED_AT_ONCE = 1000  # lines that are written together


class ImportReport(msgspec.Struct, frozen=True):
    """What an import did: lessons added, known ones raised or given a resolution, and left as they were."""

    added: int = 0
    raised: int = 0
    unchanged: int = 0
    malformed: tuple[MalformedLine, ...] = ()


def read_lessons(
    source: LessonsFile,
    storable: Callable[[str], str],
    progress: Callable[[int, int], bool | None] | None,
) -> tuple[tuple[Lesson, ...], tuple[MalformedLine, ...]]:
    """All lessons of a file, each once and with an id, and its malformed lines; see `LessonStore.import_file`."""
    found: dict[str, Lesson] = {}
    bad: list[MalformedLine] = []
    total = source.size()
    for number, offset, line in numbered_lines(source):
        try:
            lesson = _identified(decode_line(line), storable)
        except MalformedLineError as error:
            bad.append(malformed(number, offset, line, error))
            continue
        known = found.get(lesson.id)
        found[lesson.id] = merge(known, lesson) if known else lesson
        if progress is not None and number % 1000 == 0 and progress(offset, total) is False:
            break
    return tuple(found.values()), tuple(bad)


def lines_to_import(
    lessons: Sequence[Lesson], known: Sequence[Lesson | None], report: ImportReport
) -> tuple[bytes, ImportReport]:
    """The lines that bring what is known up to the lessons, and the report after them."""
    added = raised = unchanged = 0
    lines = []
    for lesson, own in zip(lessons, known, strict=True):
        if own is None:
            added += 1
            lines.append(encode_line(lesson))
            continue
        more = max(lesson.times_seen - own.times_seen, 0)
        resolution = lesson.resolution if not own.resolution else ""
        if not more and not resolution:
            unchanged += 1
            continue
        raised += 1
        line = msgspec.structs.replace(lesson, id=own.id, times_seen=more, resolution=resolution)
        lines.append(encode_line(line))
    after = msgspec.structs.replace(
        report,
        added=report.added + added,
        raised=report.raised + raised,
        unchanged=report.unchanged + unchanged,
    )
    return b"".join(lines), after


def _identified(lesson: Lesson, storable: Callable[[str], str]) -> Lesson:
    """A lesson of another file as it may stand in ours."""
    lesson = msgspec.structs.replace(
        lesson,
        failure_msg=storable(lesson.failure_msg),
        resolution=storable(lesson.resolution),
        pattern=storable(lesson.pattern),
        metadata={key: storable(value) for key, value in lesson.metadata.items()},
    )
    return lesson if lesson.id else msgspec.structs.replace(lesson, id=id_for(mark_of(lesson)))
