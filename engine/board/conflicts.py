"""Rows of a board with a git conflict in it that nobody has resolved yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from engine.board.tables import Row, conflict_marker


class Conflict(NamedTuple):
    """The lines of the first and the last marker; the same line where the other markers are gone."""

    begin: int
    end: int


def without_conflicts(rows: Iterable[Row]) -> tuple[list[Row], list[Conflict]]:
    """Give the rows of both sides, without the markers and without what was there before, and where the conflicts are.

    Rows that stand on both sides are there twice.
    """
    kept: list[Row] = []
    conflicts: list[Conflict] = []
    begin = last = 0
    before = False
    for row in rows:
        mark = conflict_marker(row.text)
        if not mark or (mark == "|" and not begin):  # "|||||||" by itself is a row of empty cells
            if not before:
                kept.append(row)
            continue
        if begin and mark == "<":
            conflicts.append(Conflict(begin, last))
        if not begin or mark == "<":
            begin = row.line
        last = row.line
        before = mark == "|"
        if mark == ">":
            conflicts.append(Conflict(begin, last))
            begin = 0
    if begin:
        conflicts.append(Conflict(begin, last))
    return kept, conflicts
