"""What a search that found nothing may have got wrong: a time or a filter that is none, a name that no lesson has."""

from __future__ import annotations

import difflib
import re

from engine.store.lessons.filters import chosen_names
from engine.store.lessons.query import FILTERS, NAMES, LessonQuery
from engine.store.lessons.reading import IndexReading
from engine.store.lessons.schema import FIELDS

SHOWN = 6
"""Names that are told, the nearest ones."""

COMPARED = 100
"""Names of a field that are compared with the one that it does not have."""

_TIME = re.compile(r"(since|until):.")
_LIKE_FILTER = re.compile(r"([A-Za-z][A-Za-z_-]*):(?!//|:).")


def hint(reading: IndexReading, query: LessonQuery) -> str:
    """Say in one line what no lesson can satisfy, and what could be asked instead; nothing where all of it could."""
    for word in query.words:
        if found := _TIME.match(word):
            return f"{found[1]}: takes an age (90s, 30m, 24h, 7d, 2w) or a day (2026-01-31)"
    for word in query.words:
        if found := _LIKE_FILTER.match(word):
            return _no_filter(found[1])
    for filter, field in FILTERS.items():
        wanted = getattr(query, field)
        if wanted and chosen_names(reading, LessonQuery(**{field: wanted})) is None:
            names = _nearest(reading, field, wanted)
            return f"no lesson has {filter}:{wanted}; there is {', '.join(names)}" if names else ""
    return f"no lesson tells of the file {query.file}" if query.file and not query.words else ""


def _no_filter(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), NAMES, n=1, cutoff=0.6)
    there_is = f"did you mean {near[0]}:" if near else f"there is {', '.join(f'{each}:' for each in NAMES)}"
    return f"{name}: is no filter, so it was looked for as a word; {there_is}"


def _nearest(reading: IndexReading, field: str, wanted: str) -> list[str]:
    rows = reading.rows(
        "SELECT text FROM name WHERE field = ? AND lessons > 0 AND text <> '' LIMIT ?",
        (FIELDS.index(field), COMPARED),
    )
    return difflib.get_close_matches(wanted, [text for (text,) in rows], n=SHOWN, cutoff=0.0)
