"""The lines of a lessons file that are no lessons: counted when met, listed when asked for, never fatal."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from engine.store.lessons.file import LessonsFile, Position
from engine.store.lessons.record import MalformedLineError, decode_line


class MalformedLine(msgspec.Struct, frozen=True):
    """A line of the file that is no lesson. `line` counts from 1, `offset` in bytes; `text` is its beginning."""

    line: int
    offset: int
    reason: str
    text: str


def malformed_lines(file: LessonsFile) -> tuple[MalformedLine, ...]:
    """Read the whole file and list the lines that are no lessons, an unfinished last one included."""
    found = []
    for number, offset, line in numbered_lines(file):
        try:
            decode_line(line)
        except MalformedLineError as error:
            found.append(malformed(number, offset, line, error))
    number, offset, rest = file.unfinished()
    if rest:
        reason = "it is not finished: its newline is missing, so it does not count yet"
        found.append(malformed(number, offset, rest, MalformedLineError(reason)))
    return tuple(found)


def numbered_lines(file: LessonsFile) -> Iterator[tuple[int, int, bytes]]:
    """Number, offset and content of each finished line that is not blank."""
    position, more = Position(), True
    while more:
        chunk = file.read(position)
        offset = position.offset
        for number, line in enumerate(chunk.lines, position.lines + 1):
            if line and not line.isspace():
                yield number, offset, line
            offset += len(line) + 1
        position, more = chunk.after, chunk.more


def malformed(number: int, offset: int, line: bytes, error: MalformedLineError) -> MalformedLine:
    """What is told of such a line."""
    return MalformedLine(number, offset, str(error), line[:200].decode("utf-8", "replace"))
