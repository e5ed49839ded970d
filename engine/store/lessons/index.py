"""The index over the lessons file: derived, persistent, incremental, and rebuilt from the file whenever it must be.

    index = LessonIndex(LessonsFile(path))
    database.submit(index.step)      # takes in the next lines, in one transaction with the position in the file

The position is stored in the transaction of the rows, so that a killed process leaves an index that is behind at worst,
and two processes that index at once each take in other lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from engine.store.lessons.file import CHUNK, Chunk, LessonsFile, Position
from engine.store.lessons.fingerprint import fingerprint
from engine.store.lessons.record import Lesson, MalformedLineError, decode_line, merge
from engine.store.lessons.schema import FIELDS, NAMES, SAMPLED, TABLES, ZONE
from engine.store.lessons.words import (
    clean,
    facet,
    file_facets,
    grams,
    indexed_text,
    word_set,
)

if TYPE_CHECKING:
    import apsw

    Connection: TypeAlias = apsw.Connection

_WHOLE = """
    SELECT b.key, l.task_type, l.activity_type, l.failure_type, l.pattern,
        b.id, t.text, a.text, f.text, b.failure_msg, b.resolution, p.text, l.times, l.first, l.last, b.metadata
    FROM body b JOIN lesson l ON l.key = b.key JOIN name t ON t.key = l.task_type
    JOIN name a ON a.key = l.activity_type JOIN name f ON f.key = l.failure_type JOIN name p ON p.key = l.pattern
    WHERE b.id = ?
"""

_metadata = msgspec.json.Decoder(dict[str, str])
_position_encoder = msgspec.msgpack.Encoder()
_position_decoder = msgspec.msgpack.Decoder(Position)
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Source:
    """What the index knows about the file: how far it is in, of how many bytes, and the sums over all lessons."""

    position: Position
    size: int
    malformed: int
    lessons: int
    sightings: int
    resolved: int

    @property
    def behind(self) -> bool:
        """Whether whole lines may wait."""
        return self.position.offset < self.size


@dataclass(frozen=True, slots=True)
class Step:
    """What one transaction took in. `more`: the next step has work to do."""

    lines: int
    source: Source
    more: bool


def read_lesson(connection: Connection, id_: str) -> tuple[int, tuple[int, ...], Lesson] | None:
    """The key of a lesson, the keys of its names, and the lesson itself."""
    # A new lesson is not known: a look into one index tells so, while the whole query opens six tables.
    if connection.execute("SELECT key FROM body WHERE id = ?", (id_,)).get is None:
        return None
    [row] = connection.execute(_WHOLE, (id_,))
    return row[0], row[1:5], Lesson(*(*row[5:-1], _metadata.decode(row[-1])))


def read_source(connection: Connection) -> Source:
    """The row about the file."""
    position, *numbers = next(
        iter(connection.execute("SELECT position, size, malformed, lessons, sightings, resolved FROM source"))
    )
    return Source(_position_decoder.decode(position) if position else Position(), *numbers)


class LessonIndex:
    """Takes the lines of a file into the tables of a database. All methods run in its writer thread."""

    def __init__(self, file: LessonsFile) -> None:
        self._file = file

    def step(self, connection: Connection, *, limit: int = CHUNK) -> Step:
        """Take in the next lines, about `limit` bytes of them; begin anew when the file is another than before."""
        source = read_source(connection)
        chunk = self._file.read(source.position, limit)
        if chunk.restarted:
            self.empty(connection)
            source = read_source(connection)
        if chunk.after == source.position and chunk.size == source.size:
            return Step(0, source, False)
        return Step(len(chunk.lines), _take_in(connection, source, chunk), chunk.more)

    def empty(self, connection: Connection) -> None:
        """Forget everything, so that the next step begins at the start of the file."""
        for name in NAMES:
            connection.execute(f"DROP TABLE {name}")
        connection.execute(TABLES).fetchall()

    def tidy(self, connection: Connection, pages: int = 2000) -> bool:
        """Merge a part of the pieces that a build leaves in the full-text indexes; False when all is one piece."""
        worked = False
        for table in ("word", "gram"):
            before = connection.total_changes()
            connection.execute(f"INSERT INTO {table}({table}, rank) VALUES('merge', ?)", (-pages,))
            # FTS5 tells by its number of changes whether a merge found work.
            worked = worked or connection.total_changes() - before >= 2
        return worked


def _take_in(connection: Connection, source: Source, chunk: Chunk) -> Source:
    folded: dict[str, Lesson] = {}
    marks: dict[str, str] = {}
    malformed = 0
    for line in chunk.lines:
        if not line or line.isspace():
            continue
        try:
            lesson = decode_line(line)
        except MalformedLineError:
            malformed += 1
            continue
        mark = ""
        if not lesson.id:
            mark = _fingerprint(lesson)
            lesson = msgspec.structs.replace(lesson, id=id_for(mark))
        known = folded.pop(lesson.id, None)
        folded[lesson.id] = merge(known, lesson) if known else lesson
        if mark:
            marks[lesson.id] = mark
    # Before any is taken out: a key is never given to another lesson, so that readers may keep what they have read.
    first = (connection.execute("SELECT max(key) FROM lesson").get or 0) + 1
    gone = list(_take_out(connection, folded)) if source.lessons else []
    found = list(folded.values())
    _insert(connection, found, first)
    after = Source(
        chunk.after,
        chunk.size,
        source.malformed + malformed,
        source.lessons + len(found) - len(gone),
        source.sightings + _sightings(found) - _sightings(gone),
        source.resolved + _resolved(found) - _resolved(gone),
    )
    # By its key: an update of any number of rows makes FTS5 write out what it holds, here and at the commit again.
    connection.execute(
        "UPDATE source SET position=?, size=?, malformed=?, lessons=?, sightings=?, resolved=? WHERE one = 1",
        (
            _position_encoder.encode(after.position),
            after.size,
            after.malformed,
            after.lessons,
            after.sightings,
            after.resolved,
        ),
    )
    return after


def _sightings(lessons: list[Lesson]) -> int:
    return sum(lesson.times_seen for lesson in lessons)


def _resolved(lessons: list[Lesson]) -> int:
    return sum(lesson.resolution != "" for lesson in lessons)


def id_for(mark: str) -> str:
    """The id of the lesson with this fingerprint."""
    return f"L{mark}"


def _fingerprint(lesson: Lesson) -> str:
    return fingerprint(lesson.task_type, lesson.activity_type, lesson.failure_type, lesson.failure_msg)


def _take_out(connection: Connection, folded: dict[str, Lesson]) -> Iterator[Lesson]:
    """Remove the lessons that are known already, after merging what they say into `folded`."""
    for id_ in list(folded):
        found = read_lesson(connection, id_)
        if found is None:
            continue
        key, names, known = found
        connection.executemany(
            "UPDATE name SET lessons = lessons - 1 WHERE key = ?", [(name,) for name in names]
        )
        for table, column in (("lesson", "key"), ("body", "key"), ("word", "rowid"), ("gram", "rowid")):
            connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (key,))
        folded[id_] = merge(known, folded[id_])
        yield known


def _insert(connection: Connection, lessons: list[Lesson], first: int) -> None:
    if not lessons:
        return
    names = _name_keys(connection, lessons)
    rows, bodies, words, texts = [], [], [], []
    sample: Counter[str] = Counter()
    for key, lesson in enumerate(lessons, first):
        own = [names[field, getattr(lesson, field)] for field in FIELDS]
        metadata = lesson.metadata
        text = clean(searched_text(lesson))
        rows.append((key, *own, lesson.times_seen, lesson.first_seen, lesson.last_seen))
        bodies.append(
            (
                key,
                lesson.id,
                mark_of(lesson),
                lesson.failure_msg,
                lesson.resolution,
                _encode(metadata).decode(),
            )
        )
        facets = [facet("k", name) for name in own]
        if "files" in metadata:
            facets += file_facets(lesson.files)
        words.append((key, indexed_text(text, facets)))
        texts.append((key, text))
        if key % SAMPLED == 0:
            sample.update(grams(text))
            sample.update(f" {word}" for word in word_set(text))
    connection.executemany(
        "INSERT INTO zone VALUES(?, ?, ?)"
        " ON CONFLICT DO UPDATE SET low = min(low, excluded.low), high = max(high, excluded.high)",
        ((block, min(group), max(group)) for block, group in _zones(rows)),
    )
    connection.executemany("INSERT INTO lesson VALUES(?, ?, ?, ?, ?, ?, ?, ?)", rows)
    connection.executemany("INSERT INTO body VALUES(?, ?, ?, ?, ?, ?)", bodies)
    connection.executemany("INSERT INTO word(rowid, text) VALUES(?, ?)", words)
    connection.executemany("INSERT INTO gram(rowid, text) VALUES(?, ?)", texts)
    if sample:
        connection.executemany(
            "INSERT INTO frequency VALUES(?, ?) ON CONFLICT DO UPDATE SET lessons = lessons + excluded.lessons",
            sample.items(),
        )


def _zones(rows: list[tuple[Any, ...]]) -> Iterator[tuple[int, list[float]]]:
    for block, group in groupby(rows, key=lambda row: row[0] // ZONE):
        yield block, [row[-1] for row in group]


def searched_text(lesson: Lesson) -> str:
    """All that a search looks at, in one text."""
    return "\n".join(
        (
            lesson.failure_msg,
            lesson.resolution,
            lesson.pattern,
            lesson.task_type,
            lesson.activity_type,
            lesson.failure_type,
            *lesson.metadata.values(),
        )
    )


def mark_of(lesson: Lesson) -> str:
    """The fingerprint of a lesson; those with an id of ours carry it there."""
    if len(lesson.id) == 17 and lesson.id[0] == "L" and not lesson.id[1:].strip("0123456789abcdef"):
        return lesson.id[1:]
    return _fingerprint(lesson)


def _name_keys(connection: Connection, lessons: list[Lesson]) -> dict[tuple[str, str], int]:
    """The keys of all names of the lessons, new ones included, after counting the lessons for each."""
    counts = Counter((field, getattr(lesson, field)) for lesson in lessons for field in FIELDS)
    keys: dict[tuple[str, str], int] = {}
    for (field, text), lessons_with in counts.items():
        keys[field, text] = connection.execute(
            "INSERT INTO name(field, text, lessons) VALUES(?, ?, ?)"
            " ON CONFLICT DO UPDATE SET lessons = lessons + excluded.lessons RETURNING key",
            (FIELDS.index(field), text, lessons_with),
        ).get
    return keys
