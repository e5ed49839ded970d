"""What a search that found nothing may have got wrong: a time that is none, a name that no lesson has."""

from __future__ import annotations

import difflib
import re

from engine.store.lessons.filters import chosen_names
from engine.store.lessons.query import FILTERS, LessonQuery
from engine.store.lessons.reading import IndexReading
from engine.store.lessons.schema import FIELDS

SHOWN = 6
"""Names that are told, the nearest ones."""

COMPARED = 100
"""Names of a field that are compared with the one that it does not have."""

_TIME = re.compile(r"(since|until):.")


def hint(reading: IndexReading, query: LessonQuery) -> str:
    """Say in one line what no lesson can satisfy, and what could be asked instead; nothing where all of it could."""
    for word in query.words:
        if found := _TIME.match(word):
            return f"{found[1]}: takes an age (90s, 30m, 24h, 7d, 2w) or a day (2026-01-31)"
    for filter, field in FILTERS.items():
        wanted = getattr(query, field)
        if wanted and chosen_names(reading, LessonQuery(**{field: wanted})) is None:
            names = _nearest(reading, field, wanted)
            return f"no lesson has {filter}:{wanted}; there is {', '.join(names)}" if names else ""
    return ""


def _nearest(reading: IndexReading, field: str, wanted: str) -> list[str]:
    rows = reading.rows(
        "SELECT text FROM name WHERE field = ? AND lessons > 0 AND text <> '' LIMIT ?",
        (FIELDS.index(field), COMPARED),
    )
    return difflib.get_close_matches(wanted, [text for (text,) in rows], n=SHOWN, cutoff=0.0)
