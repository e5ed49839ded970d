"""Find the tables of a Markdown text, with the place of every cell, so that one can be changed in place.

The rules are those of GitHub's tables, with two kindnesses: a pipe inside backticks does not end a cell, whether
it is escaped or not, and a table goes on over the marker lines of a git conflict.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_DELIMITER = re.compile(r":?-+:?")
_TOKEN = re.compile(r"\\.|`+|\|", re.DOTALL)
# What ends a table besides an empty line: a heading, a quotation, a list, a rule, HTML.
_OTHER_BLOCK = re.compile(
    r" {0,3}(?:#{1,6}(?:\s|$)|>|[-*+]\s|\d{1,9}[.)]\s|(?:[-*_][ \t]*){3,}$"
    r"|<!--|</?(?:blockquote|details|div|h\d|hr|ol|p|pre|summary|table|ul)\b)",
    re.IGNORECASE,
)
_CONFLICT_MARKER = re.compile(r"(<{7}|\|{7}|={7}|>{7})(?: .*)?$")
_NumberedLine = tuple[int, int, str]
"""The number of a line, where it starts in the whole text, and its text."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table. `cells` are (start, end) in the whole text, without the spaces around the content."""

    line: int
    text: str
    start: int
    separators: tuple[int, ...]

    @property
    def cells(self) -> list[str]:
        """The contents of the cells as written, without the spaces around them."""
        return [self.text[begin:end].strip() for begin, end in self._bounds()]

    def span(self, column: int) -> tuple[int, int]:
        """Where the content of a cell begins and ends in the whole text."""
        begin, end = self._bounds()[column]
        content = self.text[begin:end]
        first = self.start + begin + len(content) - len(content.lstrip())
        return first, first + len(content.strip())

    def _bounds(self) -> list[tuple[int, int]]:
        edges = (-1, *self.separators, len(self.text))
        bounds = [(a + 1, b) for a, b in itertools.pairwise(edges)]
        # A pipe at the edge of a row is decoration: what lies outside it is no cell.
        if len(bounds) > 1 and not self.text[slice(*bounds[0])].strip():
            del bounds[0]
        if len(bounds) > 1 and not self.text[slice(*bounds[-1])].strip():
            del bounds[-1]
        return bounds


@dataclass(frozen=True, slots=True)
class Table:
    """A header and the rows below it. `well_formed` is False when the `|---|` line does not fit the header.

    `end` is the line that ends it, if any does, and `strays` are the lines with a pipe between it and the next table.
    """

    header: Row
    rows: tuple[Row, ...]
    well_formed: bool = True
    end: Row | None = None
    strays: tuple[Row, ...] = ()


def find_tables(text: str) -> Iterator[Table]:
    """Yield the tables of `text` in order, those in code fences, indented code and HTML comments left out."""
    lines = list(_lines(text))
    at = 0
    while (head := next((at for at, heads in _with_pipes(lines, at) if heads), None)) is not None:
        header = _row(lines[head])
        if len(split_row(0, lines[head + 1][2], 0).cells) != len(header.cells):
            yield Table(header, (), well_formed=False)
            at = head + 1
            continue
        at = head + 2
        rows = []
        while at < len(lines) and not _ends_table(lines[at][2]):
            rows.append(_row(lines[at]))
            at += 1
        strays = itertools.takewhile(lambda found: not found[1], _with_pipes(lines, at))
        yield Table(
            header,
            tuple(rows),
            end=_row(lines[at]) if at < len(lines) else None,
            strays=tuple(_row(lines[stray]) for stray, _ in strays),
        )


def conflict_marker(line: str) -> str:
    """Give the character that a marker line of a git conflict is made of: `<`, `|`, `=` or `>`; else nothing."""
    found = _CONFLICT_MARKER.match(line)
    return found[1][0] if found else ""


def split_row(number: int, line: str, start: int) -> Row:
    """Split one line at its pipes; those escaped or inside a code span do not count."""
    if "`" not in line and "\\" not in line:
        return Row(number, line, start, tuple(m.start() for m in re.finditer(r"\|", line)))
    separators = []
    at = 0
    unpaired: set[int] = set()
    while token := _TOKEN.search(line, at):
        at = token.end()
        found = token.group()
        if found == "|":
            separators.append(token.start())
        elif found[0] == "`" and len(found) not in unpaired:
            if closing := closing_backticks(line, at, len(found)):
                at = closing.end()
            else:
                # Nothing closes it here, so nothing closes a later run of this length: look only once.
                unpaired.add(len(found))
    return Row(number, line, start, tuple(separators))


def closing_backticks(text: str, at: int, length: int) -> re.Match[str] | None:
    """Find the run of exactly `length` backticks that closes a code span whose content begins at `at`."""
    return _backticks(length).search(text, at)


@functools.cache
def _backticks(length: int) -> re.Pattern[str]:
    return re.compile(rf"(?<!`)`{{{length}}}(?!`)")


def unescape_pipes(cell: str) -> str:
    r"""Give the content a cell stands for: in a table, and only there, `\|` means a pipe."""
    return cell.replace("\\|", "|")


def _lines(text: str) -> Iterator[_NumberedLine]:
    start = 1 if text.startswith("\ufeff") else 0
    number = 1
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield number, start, text[start:end].removesuffix("\r")
        start = end + 1
        number += 1


def _with_pipes(lines: list[_NumberedLine], at: int) -> Iterator[tuple[int, bool]]:
    """Yield the index of each line with a pipe from `at` on, and whether it heads a table."""
    while at < len(lines):
        if after := _skip_block(lines, at):
            at = after
            continue
        line = lines[at][2]
        if "|" in line and not line.startswith(("    ", "\t")):
            yield at, at + 1 < len(lines) and _is_delimiter_row(lines[at + 1][2])
        at += 1


def _row(line: _NumberedLine) -> Row:
    number, start, text = line
    return split_row(number, text, start)


def _skip_block(lines: list[_NumberedLine], at: int) -> int:
    """Return the index after the fence or comment that begins at `at`; 0 when none begins there."""
    line = lines[at][2]
    if fence := _FENCE.match(line):
        mark = fence.group(1)
        closing = re.compile(rf" {{0,3}}{re.escape(mark[0])}{{{len(mark)},}}[ \t]*$")
        return next((i + 1 for i in range(at + 1, len(lines)) if closing.match(lines[i][2])), len(lines))
    if re.match(r" {0,3}<!--", line):
        return next((i + 1 for i in range(at, len(lines)) if "-->" in lines[i][2]), len(lines))
    return 0


def _is_delimiter_row(line: str) -> bool:
    if "-" not in line or "|" not in line:
        return False
    return all(_DELIMITER.fullmatch(cell) for cell in split_row(0, line, 0).cells)


def _ends_table(line: str) -> bool:
    if conflict_marker(line):
        return False
    return not line.strip() or bool(_OTHER_BLOCK.match(line)) or bool(_FENCE.match(line))
