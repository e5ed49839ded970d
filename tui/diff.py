"""A unified diff as lines with the colours of the language that each file is written in."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tui.format import safe_lines
from tui.line import BLANK, Line, text

MAX_LINES = 4000
"""Lines of a diff that are coloured and shown; `o` opens all of it."""

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


def diff_lines(diff: str) -> list[Line]:
    """The diff file by file: a heading with what was added and removed, then its hunks with line numbers.

    This takes milliseconds a hundred lines and the import of a lexer: call it in a thread.
    """
    lines: list[Line] = []
    for name, body in _files(diff):
        added = sum(1 for row in body if row.startswith("+") and not row.startswith("+++"))
        removed = sum(1 for row in body if row.startswith("-") and not row.startswith("---"))
        if lines:
            lines.append(BLANK)
        lines.append(((f"{name}  ", "text strong"), (f"+{added}", "added"), (f" −{removed}", "removed")))
        lines += _body_lines(name, body)
        if len(lines) > MAX_LINES:
            left = f"… the diff goes on: {MAX_LINES:,} lines are shown, o opens all of it"
            return [*lines[:MAX_LINES], text(left, "warn")]
    return lines


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


def _body_lines(name: str, body: list[str]) -> Iterator[Line]:
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
        else:
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
