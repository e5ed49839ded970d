"""Finding lessons: by fields, by typed words, by likeness, for a task. Reads only; every answer says how long it took.

reader = LessonReader(index_path)
reader.search(LessonQuery(text="connection refused", task_type="fix_bug"))
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from itertools import product
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import msgspec

from engine.store.lessons import related
from engine.store.lessons.filters import ANY, Chosen, chosen_names, conditions, index_for
from engine.store.lessons.fresh import FreshLessons, with_fresh
from engine.store.lessons.hints import hint
from engine.store.lessons.index import Source, read_source
from engine.store.lessons.matching import by_words, inside_words
from engine.store.lessons.query import LessonQuery
from engine.store.lessons.ranking import Hit, SearchText
from engine.store.lessons.reading import IndexReading
from engine.store.lessons.record import Lesson
from engine.store.lessons.schema import FIELDS
from engine.store.lessons.words import clean, terms

P = ParamSpec("P")
T = TypeVar("T")

COUNTED = 1000
"""A total is exact up to here; beyond, `SearchResult.more` is true."""

BUDGET = 0.005
"""Seconds after which the slower ways of looking (inside words, through all texts) are not begun, or end."""

WHOLE = 2000
"""Lessons that are searched whole, however long it takes."""

FEW = 5000
"""Lessons that may be sorted in a moment."""


class SearchResult(msgspec.Struct, frozen=True):
    """Hits, best first. `total` matches were counted; `more` says there may be others. `took_s`: seconds.

    `cut`: the budget ended the search before there were as many hits as wanted; with more of it there may be.
    `hint` says what no lesson can satisfy, such as a name that none has, where nothing was found for it.
    """

    hits: tuple[Hit, ...]
    total: int
    took_s: float
    more: bool = False
    cut: bool = False
    hint: str = ""

    @property
    def lessons(self) -> tuple[Lesson, ...]:
        """The lessons of the hits."""
        return tuple(hit.lesson for hit in self.hits)


def _consistent(
    method: Callable[Concatenate[LessonReader, P], T],
) -> Callable[Concatenate[LessonReader, P], T]:
    """All statements of the method see one commit, although other threads and processes go on writing."""

    @wraps(method)
    def inside(self: LessonReader, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.reading.snapshot():
            return method(self, *args, **kwargs)

    return inside


class LessonReader:
    """A way into the index with a connection of its own, for one thread at a time.

    Searches by words alone also find the `fresh` lessons, which the index does not have yet.
    """

    def __init__(
        self,
        index: Path,
        *,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.perf_counter,
        fresh: FreshLessons | None = None,
    ) -> None:
        self.reading = IndexReading(index, timer=timer)
        self._clock = clock
        self._fresh = fresh or FreshLessons()

    def close(self) -> None:
        """Close the connection."""
        self.reading.close()

    @_consistent
    def source(self) -> Source:
        """How much of the file is indexed, and the sums."""
        return read_source(self.reading.connection)

    @_consistent
    def get(self, id_: str) -> Lesson | None:
        """The lesson with this id."""
        return self._one("id = ?", clean(id_))

    @_consistent
    def with_fingerprint(self, mark: str) -> Lesson | None:
        """The newest lesson with this fingerprint."""
        return self._one("fingerprint = ? ORDER BY key DESC LIMIT 1", mark)

    @_consistent
    def names(self, field: str) -> tuple[tuple[str, int], ...]:
        """The names that a field (`task_type`, …) has, each with its number of lessons, most frequent first."""
        rows = self.reading.rows(
            "SELECT text, lessons FROM name WHERE field = ? AND lessons > 0 ORDER BY lessons DESC, text LIMIT 1000",
            (FIELDS.index(field),),
        )
        return tuple((text, lessons) for text, lessons in rows)

    @_consistent
    def most_frequent(self, limit: int, query: LessonQuery) -> tuple[Lesson, ...]:
        """The lessons seen most often, of those that pass the filters of the query (but its text and file)."""
        chosen = chosen_names(self.reading, query)
        if chosen is None:
            return ()
        condition, values = conditions(chosen, query)
        way = "lesson_times"
        if condition != ANY:
            few = self.reading.value(
                f"SELECT count(*) FROM (SELECT 1 FROM lesson WHERE {condition} LIMIT ?)", (*values, FEW)
            )
            # Few: sort them all. Many: the next one is never far down the list of the most frequent.
            way = way if few == FEW else index_for(chosen)
        keys = self.reading.rows(
            f"SELECT key FROM lesson INDEXED BY {way} WHERE {condition} ORDER BY times DESC, last DESC LIMIT ?",
            (*values, limit),
        )
        return tuple(self.reading.lessons([key for (key,) in keys]))

    @_consistent
    def most_seen(self, limit: int) -> SearchResult:
        """The lessons seen most often of all, as an answer to a search for nothing."""
        began = self.reading.timer()
        hits = tuple(Hit(lesson, 0.0) for lesson in self.most_frequent(limit, LessonQuery()))
        total = read_source(self.reading.connection).lessons
        return SearchResult(hits, total, self.reading.timer() - began)

    def search(
        self,
        query: LessonQuery,
        limit: int = 50,
        *,
        budget: float = BUDGET,
        stopped: Callable[[], bool] = lambda: False,
    ) -> SearchResult:
        """The best `limit` lessons for the query: by rank when it has text, else the newest.

        `budget`: seconds after which looking inside words ends, found or not, in a store of more than `WHOLE` lessons;
        `SearchResult.cut` tells. `stopped` is asked now and then; once it is true, SearchStoppedError is raised.
        """
        fresh = self._fresh.texts  # before the snapshot: what leaves them in between would be in neither
        with self.reading.snapshot(), self.reading.stopping(stopped):
            found = self._search(query, limit, budget, fresh)
            if query.file and not found.total and not found.cut:
                worded = msgspec.structs.replace(query, text=f"{query.text} {query.file}", file="")
                named = self._search(worded, limit, budget, fresh)
                found = msgspec.structs.replace(named, took_s=found.took_s + named.took_s)
            if found.total or found.cut:
                return found
            return msgspec.structs.replace(found, hint=hint(self.reading, query))

    def _search(
        self, query: LessonQuery, limit: int, budget: float, fresh: Mapping[str, SearchText]
    ) -> SearchResult:
        reading = self.reading
        if not query.only_words:
            fresh = {}
        began = reading.timer()
        asked = terms(query.words)
        chosen = chosen_names(reading, query)
        if chosen is None or (query.words and not asked):  # no such name; nothing but what no lesson can hold
            return SearchResult((), 0, reading.timer() - began)
        if not asked and not query.file:
            hits, total, more = self._by_fields(query, chosen, limit)
            return SearchResult(tuple(hits[:limit]), total, reading.timer() - began, more)
        lessons = reading.value("SELECT lessons FROM source")
        now, deadline = self._clock(), math.inf if lessons <= WHOLE else began + budget
        found = by_words(reading, query, chosen, asked, limit, now, lessons=lessons, deadline=deadline)
        found = with_fresh(found, fresh, asked, limit, now, inside=False)
        hits, total, more, cut = found.hits, found.total, found.more, found.cut
        if len(hits) < limit and asked and not query.file:
            rest = inside_words(
                reading, query, chosen, asked, limit, now, lessons=lessons, deadline=deadline, seen=found.seen
            )
            rest = with_fresh(rest, fresh, asked, limit, now, inside=True)
            # It goes through all that the first look may have passed over.
            hits, total, more, cut = hits + rest.hits, total + rest.total, rest.more, rest.cut
        return SearchResult(tuple(hits[:limit]), total, reading.timer() - began, more, cut)

    @_consistent
    def similar(self, text: str, limit: int = 10) -> SearchResult:
        """The lessons whose words are most like those of the text, most like first; `score` is the likeness, 0 to 1."""
        began = self.reading.timer()
        found = related.similar(self.reading, text, self._clock())
        return SearchResult(tuple(found[:limit]), len(found), self.reading.timer() - began)

    @_consistent
    def for_task(self, *, task_type: str, files: Iterable[str], text: str, limit: int) -> list[Hit]:
        """The lessons that may help with a task, best first; see `ranking.task_score`."""
        hits = related.for_task(self.reading, task_type=task_type, files=files, text=text, now=self._clock())
        return hits[:limit]

    def _by_fields(self, query: LessonQuery, chosen: Chosen, limit: int) -> tuple[list[Hit], int, bool]:
        found: list[tuple[float, int]] = []
        total = 0
        index = index_for(chosen)
        # An index is in order of time for one name of each field, so each combination of names is asked for by itself.
        for names in product(*chosen.values()):
            one = {field: [name] for field, name in zip(chosen, names, strict=True)}
            condition, values = conditions(one, query)
            rows = self.reading.rows(
                f"SELECT last, key FROM lesson INDEXED BY {index} WHERE {condition} ORDER BY last DESC LIMIT ?",
                (*values, limit),
            )
            found += rows
            if len(rows) == limit and total <= COUNTED:
                total += self.reading.value(
                    f"SELECT count(*) FROM (SELECT 1 FROM lesson INDEXED BY {index} WHERE {condition} LIMIT ?)",
                    (*values, COUNTED + 1),
                )
            else:
                total += len(rows)
        found.sort(reverse=True)
        hits = [Hit(lesson, 0.0) for lesson in self.reading.lessons([key for _, key in found[:limit]])]
        return hits, min(total, COUNTED), total > COUNTED

    def _one(self, condition: str, value: str) -> Lesson | None:
        key = self.reading.value(f"SELECT key FROM body WHERE {condition}", (value,))
        return self.reading.lessons([key])[0] if key is not None else None
