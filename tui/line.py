"""What the screen is made of: a `Line` is a tuple of spans, a span is text with the name of its tone.

Lines are plain values. Whatever computes them needs no Textual, and a widget redraws only lines that differ from what
it shows. `theme.py` gives each tone its colour; a tone may be two words, such as "bad strong".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from rich.cells import cell_len, set_cell_size

Span: TypeAlias = tuple[str, str]
Line: TypeAlias = tuple[Span, ...]

BLANK: Line = ()
SPARKS = "▁▂▃▄▅▆▇█"


def text(content: str, tone: str = "text") -> Line:
    """A line of one tone."""
    return ((content, tone),)


def width(line: Line) -> int:
    """The cells that the line takes."""
    return sum(cell_len(content) for content, _ in line)


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


def bar(share: float | None, cells: int, tone: str = "accent") -> Line:
    """A bar of `cells` cells. None, for nothing known yet, is an empty one."""
    filled = 0 if share is None else round(min(1.0, max(0.0, share)) * cells)
    # Full means full, and something is not nothing.
    if share is not None and 0 < share < 1 and cells > 1:
        filled = min(cells - 1, max(1, filled))
    return (("▰" * filled, tone), ("▱" * (cells - filled), "faint"))


def sparkline(values: Sequence[float], tone: str = "accent") -> Line:
    """One cell for each value, scaled to the greatest."""
    top = max(values, default=0.0)
    if top <= 0:
        return ((SPARKS[0] * len(values), "faint"),)
    marks = "".join(SPARKS[min(7, round(value / top * 7))] for value in values)
    return ((marks, tone),)


def wrapped(content: str, cells: int, tone: str = "text", indent: str = "") -> list[Line]:
    """Prose in lines of at most `cells` cells, broken between words where there are any."""
    lines: list[Line] = []
    room = max(8, cells - cell_len(indent))
    for paragraph in content.split("\n"):
        current = ""
        for word in paragraph.split(" "):
            for piece in _pieces(word, room):
                candidate = f"{current} {piece}" if current else piece
                if current and cell_len(candidate) > room:
                    lines.append(((indent + current, tone),))
                    candidate = piece
                current = candidate
        lines.append(((indent + current, tone),) if current else BLANK)
    return lines


def hard_wrapped(line: Line, cells: int) -> list[Line]:
    """The line broken at the cell where it would leave the screen: nothing of it is lost."""
    if width(line) <= cells:
        return [line]
    rows: list[Line] = []
    row: list[Span] = []
    room = cells
    for content, tone in line:
        for piece in _pieces(content, room, cells):
            length = cell_len(piece)
            if length > room:
                rows.append(tuple(row))
                row, room = [], cells
            row.append((piece, tone))
            room -= length
    return [*rows, tuple(row)]


def _pieces(content: str, first: int, then: int | None = None) -> Iterable[str]:
    """The text in pieces of at most `first` cells, and `then` for the later ones."""
    room = first
    while cell_len(content) > room:
        end = 0
        used = 0
        for char in content:
            used += cell_len(char)
            if used > room:
                break
            end += 1
        if end:
            yield content[:end]
            content = content[end:]
        elif room == (then or first):
            yield "�"
            content = content[1:]
        room = then or first
    if content:
        yield content
