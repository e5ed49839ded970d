"""Text from outside made safe to show, with parts of it marked. The places are those in the text as it was."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from tui.format import ESCAPES, TAB
from tui.line import Line

MARK = "accent underlined"
"""The tone of what is marked; underlined, since colour alone says nothing."""

Places = Iterable[tuple[int, int]]
"""Start and end of each part to mark, in characters of the text."""


def marked(content: str, places: Places, tone: str = "text", *, squeeze: bool = True) -> Line:
    """The text as one line without escape sequences and control bytes, the places marked.

    `squeeze` makes one blank of any run of blanks and line breaks; without it, indentation stays.
    """
    marks = bytearray(len(content))
    for start, end in places:
        start, end = max(0, start), min(end, len(content))
        marks[start:end] = b"\x01" * max(0, end - start)
    if content.isprintable() and not (squeeze and "  " in content):
        return _spans(list(content), list(marks), tone)
    hidden = bytearray(len(content))
    for escape in ESCAPES.finditer(content):
        hidden[escape.start() : escape.end()] = b"\x01" * (escape.end() - escape.start())
    chars: list[str] = []
    kept: list[int] = []
    for index, char in enumerate(content):
        shown = "" if hidden[index] else _shown(char, squeeze)
        if shown and not (squeeze and shown == " " and (not chars or chars[-1] == " ")):
            chars.append(shown)
            kept.append(marks[index])
    return _spans(chars, kept, tone)


def excerpt(content: str, places: Places, cells: int, tone: str = "text") -> Line:
    """About the `cells` cells of the text in which the first marked place stands; the caller cuts the end."""
    found = sorted(places)
    first, end = found[0] if found else (0, 0)
    # One line break may be many bytes of colours: look at more than there is room for.
    if end < cells - 1:
        return marked(content[: 4 * cells], found, tone)
    begin = max(0, first - cells // 3)
    word = content.find(" ", begin, first)
    begin = word + 1 if word >= 0 else begin
    shifted = [(start - begin, stop - begin) for start, stop in found]
    return (("…", "faint"), *marked(content[begin : begin + 4 * cells], shifted, tone))


def _shown(char: str, squeeze: bool) -> str:
    if char.isprintable() or char in "\u200c\u200d":
        return char
    if char.isspace() or char < " " or "\x7f" <= char <= "\x9f":
        return " " if squeeze else " " * TAB if char == "\t" else ""
    return "\ufffd"


def _spans(chars: list[str], marks: list[int], tone: str) -> Line:
    spans: list[tuple[str, str]] = []
    at = 0
    for mark, run in groupby(marks):
        end = at + sum(1 for _ in run)
        spans.append(("".join(chars[at:end]), MARK if mark else tone))
        at = end
    return tuple(spans)
