"""Combine two versions of a board by its rows, where a merge of lines would see a conflict.

A state and a new row may stand in neighbouring lines, which no merge of lines can take together; but they never
contradict each other.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from engine.board.parse import board_table, board_text, read_statuses, row_id
from engine.board.write import with_statuses
from engine.errors import BoardError
from engine.model import BoardStatus

_SHOWN = Path("board")


def combined(before: bytes | None, ours: bytes, theirs: bytes) -> bytes:
    """Give the board with what both sides have changed since `before` (None: neither side had a board then).

    Rows that one side has added, removed or rewritten are so afterwards. Where both have rewritten one, or anything
    outside the rows, it is as in `theirs`; a state that both have changed is that of `ours`. Boards with different
    columns cannot be mixed: then it is the one with the new columns. Where one of them is no board, it is `theirs`.
    """
    states = _states(before or b"", ours, theirs)
    try:
        base = _Version.of(with_statuses(before, states)) if before is not None else None
        left, right = (_Version.of(with_statuses(data, states)) for data in (ours, theirs))
    except BoardError:
        return theirs
    if left.header != right.header:
        newer = left if base is not None and right.header == base.header else right
        return newer.text.encode()
    was = base.rows if base is not None else {}
    frame, side = (left, right) if base is not None and right.outside == base.outside else (right, left)
    kept: dict[str, str] = {}
    for name, row in frame.rows.items():
        other = side.rows.get(name)
        if other is not None:
            kept[name] = left.rows[name] if right.rows[name] == was.get(name) else right.rows[name]
        elif row != was.get(name):
            kept[name] = row
    names = list(kept)
    above: str | None = None
    for name, row in side.rows.items():
        if name not in frame.rows and row != was.get(name):
            names.insert(names.index(above) + 1 if above is not None else 0, name)
            kept[name] = row
        above = name if name in kept else above
    return (frame.head + "".join(kept[name] for name in names) + frame.tail).encode()


def _states(before: bytes, ours: bytes, theirs: bytes) -> dict[str, BoardStatus]:
    """The state of each row that is not open in all three."""
    was, left, right = (read_statuses(data) for data in (before, ours, theirs))

    def state(name: str) -> BoardStatus:
        then, mine, other = (each.get(name, BoardStatus.OPEN) for each in (was, left, right))
        return other if mine == then else mine

    return {name: state(name) for name in {**was, **left, **right}}


class _Version(NamedTuple):
    """A board's text in parts: the rows by their ids, each with its line's end, and what is above and below them."""

    text: str
    header: str
    rows: dict[str, str]
    head: str
    tail: str

    @property
    def outside(self) -> tuple[str, str]:
        return self.head, self.tail

    @classmethod
    def of(cls, data: bytes) -> _Version:
        text = board_text(data, _SHOWN)
        table, columns, _ = board_table(text, _SHOWN)
        rows: dict[str, str] = {}
        starts = [row.start for row in table.rows]
        ends = [_line_end(text, start) for start in starts]
        begin = starts[0] if starts else _line_end(text, _line_end(text, table.header.start))
        for row, end in zip(table.rows, ends, strict=True):
            line = text[row.start : end]
            name = row_id(row.cells, columns)
            # Of rows that share an id the first counts; the others, and those without one, stay by their text.
            rows[name if name and name not in rows else f"\0{line}"] = (
                line if line.endswith("\n") else f"{line}\n"
            )
        return cls(text, table.header.text, rows, text[:begin], text[ends[-1] if ends else begin :])


def _line_end(text: str, start: int) -> int:
    """Where the next line begins."""
    return text.find("\n", start) + 1 or len(text)
