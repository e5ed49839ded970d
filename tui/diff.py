"""A unified diff as lines with the colours of the language that each file is written in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tui.format import safe_lines
from tui.line import BLANK, Line, text
from tui.plain import count

MAX_LINES = 2000
"""Lines of a diff that are coloured and shown at first."""

MOST_LINES = 50_000
"""Lines that are shown to who asks for all of them."""

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_TONES = (
    ("Comment", "comment"),
    ("Literal.String", "string"),
    ("Literal.Number", "number"),
    ("Keyword", "keyword"),
    ("Name.Function", "name"),
    ("Name.Class", "name"),
    ("Name.Decorator", "name"),
    ("Name.Tag", "name"),
)


@dataclass(frozen=True, slots=True)
class DiffText:
    """A diff to show. `files` are the numbers of the lines where each file begins; `cut` says that more is there."""

    lines: tuple[Line, ...] = ()
    files: tuple[int, ...] = ()
    cut: bool = False


def diff_text(diff: str, limit: int = MAX_LINES) -> DiffText:
    """The diff: how much of each file changed, then file by file its hunks with line numbers, at most `limit` lines.

    What is past the limit is not coloured. This takes milliseconds a hundred lines and the import of a lexer: call it
    in a thread.
    """
    parts = [(name, body, _size(body)) for name, body in _files(diff)]
    if not parts:
        return DiffText()
    lines: list[Line] = []
    files: list[int] = []
    if len(parts) > 1:
        added, removed = (sum(size[n] for _, _, size in parts) for n in (0, 1))
        lines.append(((f"{count(len(parts), 'file')}  ", "text strong"), *_sizes(added, removed)))
        lines += [(("  ", "text"), (f"{name}  ", "muted"), *_sizes(*size)) for name, _, size in parts]
    for name, body, size in parts:
        if lines:
            lines.append(BLANK)
        files.append(len(lines))
        lines.append(((f"{name}  ", "text strong"), *_sizes(*size)))
        for line in _body_lines(name, body, limit):
            lines.append(line)
            if len(lines) >= limit:
                return DiffText((*lines, _rest(limit)), tuple(files), cut=True)
    return DiffText(tuple(lines), tuple(files))


def _size(body: list[str]) -> tuple[int, int]:
    added = sum(1 for row in body if row.startswith("+") and not row.startswith("+++"))
    return added, sum(1 for row in body if row.startswith("-") and not row.startswith("---"))


def _sizes(added: int, removed: int) -> Line:
    return ((f"+{added}", "added"), (f" −{removed}", "removed"))


def _rest(limit: int) -> Line:
    how = "a shows all, " if limit < MOST_LINES else ""
    return text(f"… the diff goes on: {limit:,} lines are shown, {how}o opens all of it", "warn")


def _files(diff: str) -> Iterator[tuple[str, list[str]]]:
    name, body = "", list[str]()
    for row in safe_lines(diff):
        if row.startswith("diff --git "):
            if body or name:
                yield name, body
            name, body = row.rpartition(" b/")[2], []
        else:
            body.append(row)
    if body or name:
        yield name, body


def _body_lines(name: str, body: list[str], limit: int) -> Iterator[Line]:
    number = 0
    inside = False
    rows: list[tuple[str, str, int]] = []
    for row in body:
        hunk = _HUNK.match(row)
        if hunk is not None:
            yield from _coloured(name, rows)
            rows = []
            number, inside = int(hunk[1]), True
            yield text(row, "hunk")
        elif not inside:
            if row.startswith(
                ("new file", "deleted file", "rename", "similarity", "Binary", "old mode", "new mode")
            ):
                yield text(row, "muted")
        elif row.startswith("\\"):
            continue
        elif len(rows) < limit:
            rows.append((row[:1] or " ", row[1:], number))
            number += not row.startswith("-")
    yield from _coloured(name, rows)


def _coloured(name: str, rows: list[tuple[str, str, int]]) -> Iterator[Line]:
    code = _syntax(name, "\n".join(content for _, content, _ in rows)) if rows else []
    for (sign, content, number), spans in zip(rows, code, strict=False):
        if sign == "-":
            yield (("     ", "faint"), ("- ", "removed"), (content, "removed"))
        elif sign == "+":
            yield ((f"{number:>4} ", "faint"), ("+ ", "added strong"), *spans)
        else:
            yield (
                (f"{number:>4}   ", "faint"),
                *((part, "muted" if tone == "text" else tone) for part, tone in spans),
            )


def _syntax(name: str, code: str) -> list[Line]:
    """The code line by line; plain where no lexer knows the file."""
    from pygments.lexers import get_lexer_for_filename  # type: ignore[import-untyped]
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]

    try:
        lexer = get_lexer_for_filename(name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return [text(row) for row in code.split("\n")]
    lines: list[Line] = []
    spans: list[tuple[str, str]] = []
    for token, value in lexer.get_tokens(code):
        kind = str(token).removeprefix("Token.")
        tone = next((tone for prefix, tone in _TONES if kind.startswith(prefix)), "text")
        for index, part in enumerate(value.split("\n")):
            if index:
                lines.append(tuple(spans))
                spans = []
            if part:
                spans.append((part, tone))
    return [*lines, tuple(spans)]
