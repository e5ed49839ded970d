"""What the screen is made of: a `Line` is a tuple of spans, a span is text with the name of its tone.

Lines are plain values. Whatever computes them needs no Textual, and a widget redraws only lines that differ from what
it shows. `theme.py` gives each tone its colour; a tone may be two words, such as "bad strong".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

from rich.cells import cell_len, set_cell_size

Span: TypeAlias = tuple[str, str]
Line: TypeAlias = tuple[Span, ...]

BLANK: Line = ()
SPARKS = "▁▂▃▄▅▆▇█"


def text(content: str, tone: str = "text") -> Line:
    """A line of one tone."""
    return ((content, tone),)


def cells_of(content: str) -> int:
    """The cells that printable text takes."""
    return len(content) if content.isascii() else cell_len(content)


def width(line: Line) -> int:
    """The cells that the line takes."""
    return sum(cells_of(content) for content, _ in line)


def plain(line: Line) -> str:
    """The line without its tones."""
    return "".join(content for content, _ in line)


def marked(line: Line, pattern: re.Pattern[str]) -> Line:
    """The line with all that matches marked."""
    found = [match.span() for match in pattern.finditer(plain(line)) if match.group()]
    if not found:
        return line
    spans: list[Span] = []
    at = 0
    for content, tone in line:
        end = at + len(content)
        edges = {at, end, *(edge for span in found for edge in span if at < edge < end)}
        for start, stop in pairwise(sorted(edges)):
            inside = any(first <= start and stop <= last for first, last in found)
            spans.append((content[start - at : stop - at], f"{tone} marked" if inside else tone))
        at = end
    return tuple(spans)


def cut_line(line: Line, cells: int) -> Line:
    """The line in at most `cells` cells, with an ellipsis where something was left out."""
    if width(line) <= cells:
        return line
    kept: list[Span] = []
    room = cells - 1
    for content, tone in line:
        length = cell_len(content)
        if length > room:
            kept.append((set_cell_size(content, room) + "…", tone))
            break
        kept.append((content, tone))
        room -= length
    return tuple(kept)


def spread(left: Line, right: Line, cells: int) -> Line:
    """Both on one line, the second at its right end; the second is left out when there is no room for it."""
    room = cells - width(left) - width(right)
    return (*left, (" " * room, "text"), *right) if room >= 1 else cut_line(left, cells)


def joined(parts: Iterable[Line], between: str = "  ") -> Line:
    """The parts that are not empty, one after the other."""
    spans: list[Span] = []
    for part in parts:
        if part:
            if spans:
                spans.append((between, "faint"))
            spans.extend(part)
    return tuple(spans)


def shed(parts: Iterable[tuple[int, Line]], cells: int, between: str = "  ") -> Line:
    """The parts in at most `cells` cells where that can be, one after the other: of those there is no room for, the one
    with the greatest number goes first. The last of them stays, however little room there is.
    """
    kept = [part for part in parts if width(part[1])]
    while True:
        line = joined((line for _, line in kept), between)
        if width(line) <= cells or len(kept) <= 1:
            return line
        kept.remove(max(kept, key=lambda part: part[0]))


def bar(share: float | None, cells: int, tone: str = "accent") -> Line:
    """A bar of `cells` cells. None, for nothing known yet, is an empty one."""
    filled = 0 if share is None else round(min(1.0, max(0.0, share)) * cells)
    # Full means full, and something is not nothing.
    if share is not None and 0 < share < 1 and cells > 1:
        filled = min(cells - 1, max(1, filled))
    return (("▰" * filled, tone), ("▱" * (cells - filled), "faint"))


def sparkline(values: Sequence[float | None], tone: str = "accent", top: float | None = None) -> Line:
    """One cell for each value, scaled to `top` or to the greatest; None, for nothing known, is a blank."""
    known = [value for value in values if value is not None]
    full = max(known, default=0.0) if top is None else top
    if full <= 0:
        return (("".join(" " if value is None else SPARKS[0] for value in values), "faint"),)
    marks = [" " if value is None else SPARKS[min(7, max(0, round(value / full * 7)))] for value in values]
    return (("".join(marks), tone),)


def wrapped(content: str, cells: int, tone: str = "text", indent: str = "") -> list[Line]:
    """Prose in lines of at most `cells` cells, each after `indent`, broken between words where that can be."""
    room = max(8, cells - cell_len(indent))
    return [
        ((indent + row, tone),) if row else BLANK
        for paragraph in content.split("\n")
        for row in _rows(paragraph, room, room)
    ]


def hard_wrapped(line: Line, cells: int) -> list[Line]:
    """The line in rows of at most `cells` cells. Nothing of it is lost, but blanks where it breaks between words.

    Below one cell, as a terminal of hardly any size leaves to a part of the screen, each row has one.
    """
    cells = max(1, cells)
    if width(line) <= cells:
        return [line]
    rows: list[Line] = []
    row: list[Span] = []
    room = cells
    for content, tone in line:
        for number, piece in enumerate(_rows(content, room, cells)):
            if number:
                rows.append(tuple(row))
                row, room = [], cells
            row.append((piece, tone))
            room -= cell_len(piece)
    return [*rows, tuple(row)]


def _rows(content: str, first: int, then: int) -> list[str]:
    """The text cut into rows: the first of at most `first` cells, later ones of `then`; between words if possible."""
    rows = []
    room = first
    while cell_len(content) > room:
        end = _fitting(content, room)
        space = content.rfind(" ", 0, end + 1)
        if space > 0 and content[:space].strip() and (space * 2 >= end or room < then):
            rows.append(content[:space])
            content = content[space + 1 :]
        elif end == 0 and room == then:
            rows.append("\ufffd")  # not even one character fits
            content = content[1:]
        elif room < then:
            rows.append("")
        else:
            rows.append(content[:end])
            content = content[end:]
        room = then
    return [*rows, content]


def _fitting(content: str, cells: int) -> int:
    """How many characters from the start fit."""
    used = 0
    for index, char in enumerate(content):
        used += cell_len(char)
        if used > cells:
            return index
    return len(content)
