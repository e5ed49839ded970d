"""The filters of a query as conditions to the index, and the index that serves them in order of time."""

from __future__ import annotations

import math
from typing import Any

from engine.store.lessons.query import LessonQuery
from engine.store.lessons.reading import IndexReading
from engine.store.lessons.schema import FIELDS, ZONE
from engine.store.lessons.words import clean, facet

MAX_NAMES = 24
"""Names that an unfinished filter (`type:f`) may stand for."""

MAX_HOLDING = 200
"""Names that a filter may stand for which none begins with, but which they hold (`pattern:grep`)."""

LOOKED_AT = 20_000
"""Names of a field that are looked into for that."""

ANY = "1"
"""The condition that every lesson satisfies."""

Chosen = dict[str, list[int]]
"""For each filtered field, the keys of the names that the filter stands for."""

_INDEXES = {
    (): "lesson_last",
    ("task_type",): "lesson_t",
    ("activity_type",): "lesson_a",
    ("failure_type",): "lesson_f",
    ("pattern",): "lesson_p",
    ("task_type", "activity_type"): "lesson_ta",
    ("task_type", "failure_type"): "lesson_tf",
    ("activity_type", "failure_type"): "lesson_af",
    ("task_type", "activity_type", "failure_type"): "lesson_taf",
}


def chosen_names(reading: IndexReading, query: LessonQuery, *, prefixes: bool = True) -> Chosen | None:
    """The names that each filter of the query stands for; None when there is no such name."""
    chosen = {}
    for number, field in enumerate(FIELDS):
        wanted = clean(getattr(query, field))
        if not wanted:
            continue
        keys = _name_keys(reading, number, wanted, prefixes=prefixes)
        if not keys:
            return None
        chosen[field] = keys
    return chosen


def conditions(chosen: Chosen, query: LessonQuery, *, table: str = "") -> tuple[str, tuple[Any, ...]]:
    """The condition for names and times, and its values. `table`: the prefix of its columns, with a dot."""
    parts = []
    for field, keys in chosen.items():
        test = f"= {keys[0]}" if len(keys) == 1 else f"IN ({','.join(map(str, keys))})"
        parts.append(f"{table}{field} {test}")
    values = []
    if query.since is not None:
        parts.append(f"{table}last >= ?")
        values.append(query.since)
    if query.until is not None:
        parts.append(f"{table}last <= ?")
        values.append(query.until)
    return " AND ".join(parts) or ANY, tuple(values)


def index_for(chosen: Chosen) -> str:
    """The index that has the lessons of these names in order of time."""
    return _INDEXES.get(tuple(chosen), "lesson_ptaf")


def zone(reading: IndexReading, query: LessonQuery, table: str) -> str:
    """A condition that keeps a full-text search to the keys among which the time range lies."""
    if query.since is None and query.until is None:
        return ""
    ((low, high),) = reading.rows(
        "SELECT min(block), max(block) FROM zone WHERE high >= ? AND low <= ?",
        (
            -math.inf if query.since is None else query.since,
            math.inf if query.until is None else query.until,
        ),
    )
    if low is None:
        return " AND 0"
    return f" AND {table}.rowid BETWEEN {low * ZONE} AND {high * ZONE + ZONE - 1}"


def facets(query: LessonQuery, chosen: Chosen) -> list[str]:
    """The same filters as questions to the word index."""
    groups = [[facet("k", key) for key in keys] for keys in chosen.values()]
    if query.file:
        path = clean(query.file).rstrip("/")
        groups.append([facet("f", path), facet("n", path), facet("d", path)])
    return [" OR ".join(f'"{word}"' for word in group) for group in groups]


def _name_keys(reading: IndexReading, field: int, wanted: str, *, prefixes: bool) -> list[int]:
    for text in dict.fromkeys((wanted, wanted.lower())):
        found = reading.value("SELECT key FROM name WHERE field = ? AND text = ?", (field, text))
        if found is not None:
            return [found]
    if not prefixes:
        return []
    rows = reading.rows(
        "SELECT key FROM name WHERE field = ? AND text >= ? AND text < ? ORDER BY lessons DESC LIMIT ?",
        (field, wanted.lower(), wanted.lower() + "\U0010ffff", MAX_NAMES),
    )
    rows = rows or reading.rows(
        "SELECT key FROM (SELECT key, text, lessons FROM name WHERE field = ? LIMIT ?)"
        " WHERE lessons > 0 AND instr(lower(text), ?) ORDER BY lessons DESC LIMIT ?",
        (field, LOOKED_AT, wanted.lower(), MAX_HOLDING),
    )
    return [key for (key,) in rows]
