"""Searching by words. What stands at the start of words comes first; inside words is looked when that is too little.

The newest matches of the word index are put in order of what they are worth, and the texts of the worthiest are scored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from operator import attrgetter

import msgspec

from engine.store.lessons.filters import Chosen, conditions, facets, zone
from engine.store.lessons.query import LessonQuery
from engine.store.lessons.ranking import Hit, TextMatch, worths
from engine.store.lessons.reading import IndexReading
from engine.store.lessons.words import Term, grams, question_for

NEWEST = 200
"""Matches of the word index that are looked at, the newest ones."""

SCORED = 64
"""Lessons whose text is read and scored, the worthiest of those."""

FEW = 50_000
"""Lessons among which also lists of nearly all of them are intersected in a moment."""

_AT_ONCE = 40  # lessons read between two looks at the clock
_json = msgspec.json.Encoder().encode


class Matches(msgspec.Struct, frozen=True):
    """The best hits, how many there are, whether there may be more, and the keys that need no second look.

    `cut`: it was the deadline that ended the search, so that one with more time may find others.
    """

    hits: list[Hit]
    total: int
    more: bool
    cut: bool = False
    seen: Collection[int] = ()


def by_words(
    reading: IndexReading,
    query: LessonQuery,
    chosen: Chosen,
    asked: tuple[Term, ...],
    limit: int,
    now: float,
    *,
    lessons: int,
    deadline: float,
) -> Matches:
    """The lessons in which every word stands at the start of a word; few are looked at after the deadline.

    `lessons`: how many there are in all.
    """
    question = question_for(asked, facets(query, chosen), few=lessons <= FEW)
    if not question.parts:
        return Matches([], 0, False)
    condition, values = conditions({}, query, table="l.")
    match = TextMatch.of(asked, inside=False)
    # Intersecting lists costs time for each row and list, so that with more lists fewer rows are looked at first.
    newest, scored = max(NEWEST, limit), max(SCORED, limit)
    page = max(newest // question.parts, scored)
    looked_at = 0
    cut = False
    hits: dict[int, Hit] = {}
    cursor = reading.connection.cursor()
    try:
        cursor.execute(
            "SELECT l.key, l.times, l.last FROM word CROSS JOIN lesson l ON l.key = word.rowid"
            f" WHERE word MATCH ? AND {condition}{zone(reading, query, 'word')} ORDER BY word.rowid DESC LIMIT ?",
            (question.expression, *values, newest),
        )
        while True:
            rows = list(islice(cursor, page))
            looked_at += len(rows)
            prior = worths(rows, now)
            order = sorted(prior, key=prior.__getitem__, reverse=True)
            for start in range(0, len(order), scored):
                hits |= _scored(reading, order[start : start + scored], match, prior)
                if question.exact or len(hits) >= scored:
                    break
            ended = len(rows) < page
            if ended or looked_at >= newest or len(hits) >= limit:
                break
            if cut := reading.timer() > deadline:
                break
    finally:
        cursor.close()
    total = looked_at if question.exact else len(hits)
    more = not ended or (not question.exact and len(hits) >= scored)
    return Matches(best_of(hits.values(), limit), total, more, cut, hits)


def inside_words(
    reading: IndexReading,
    query: LessonQuery,
    chosen: Chosen,
    asked: tuple[Term, ...],
    limit: int,
    now: float,
    *,
    lessons: int,
    deadline: float,
    seen: Collection[int],
) -> Matches:
    """The lessons that have the words somewhere, without those seen already; `more` when the deadline ended it."""
    if reading.timer() >= deadline:
        return Matches([], 0, True, cut=True)
    expression = _gram_expression(reading, asked, lessons)
    condition, values = conditions(chosen, query, table="l.")
    if expression:
        sql = (
            "SELECT l.key, l.times, l.last FROM gram CROSS JOIN lesson l ON l.key = gram.rowid"
            f" WHERE gram MATCH ? AND {condition}{zone(reading, query, 'gram')} ORDER BY gram.rowid DESC"
        )
        values = (expression, *values)
    else:
        # Shorter than three characters: no index helps, so the newest lessons are read while there is time.
        sql = f"SELECT l.key, l.times, l.last FROM lesson l WHERE {condition} ORDER BY l.key DESC"
    match = TextMatch.of(asked, inside=True)
    hits: dict[int, Hit] = {}
    ended = False
    cursor = reading.connection.cursor()
    try:
        with reading.until(deadline):
            cursor.execute(sql, values)
            while not ended and len(hits) < limit:
                rows = list(islice(cursor, _AT_ONCE))
                ended = len(rows) < _AT_ONCE
                prior = worths([row for row in rows if row[0] not in seen], now)
                if reading.timer() > deadline:
                    break
                hits |= _scored(reading, list(prior), match, prior)
    finally:
        cursor.close()
    cut = not ended and len(hits) < limit
    return Matches(best_of(hits.values(), limit), len(hits), not ended, cut)


def frequencies(reading: IndexReading, terms: Sequence[str]) -> dict[str, int]:
    """In how many of the sampled lessons each trigram (or blank and word) stands; those in none are left out."""
    return dict(
        reading.rows(
            "SELECT f.term, f.lessons FROM json_each(?) t CROSS JOIN frequency f ON f.term = t.value",
            (_json(terms).decode(),),
        )
    )


def _scored(
    reading: IndexReading, keys: Sequence[int], match: TextMatch, prior: dict[int, float]
) -> dict[int, Hit]:
    """The lessons of these keys that have the words."""
    reading.raise_if_stopped()
    hits = {}
    for key, text in zip(keys, reading.texts(keys), strict=True):
        score = match.score(text)
        if score is not None:
            hits[key] = Hit(text.lesson, score + prior[key], match)
    return hits


def best_of(hits: Iterable[Hit], limit: int) -> list[Hit]:
    """The best hits, best first."""
    return sorted(hits, key=attrgetter("score"), reverse=True)[:limit]


def _gram_expression(reading: IndexReading, asked: Sequence[Term], lessons: int) -> str:
    found = sorted({gram for term in asked for gram in grams(term.text)})[:200]
    found = [gram for gram in found if "\x00" not in gram]
    # Each further list costs more than the texts it saves reading, unless it is short.
    most = 5 if lessons <= FEW else 3
    known = frequencies(reading, found)
    rarest = sorted(found, key=lambda gram: known.get(gram, 0))[:most]
    return " AND ".join('"' + gram.replace('"', '""') + '"' for gram in rarest)
