"""Finding lessons: by fields, by typed words, by likeness, for a task. Reads only; every answer says how long it took.

    reader = LessonReader(index_path)
    reader.search(LessonQuery(text="connection refused", task_type="fix_bug"))

A search by words looks at the newest matches, orders them by what they are worth, and scores the best. What stands
inside words is looked for only when too few lessons have it at the start of one.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import msgspec

from engine.errors import StoreError
from engine.store.database import connect_reader
from engine.store.lessons.index import FIELDS, SAMPLED, ZONE, Source, read_source
from engine.store.lessons.query import LessonQuery
from engine.store.lessons.ranking import Hit, spans, task_score, text_score, worth
from engine.store.lessons.record import Lesson
from engine.store.lessons.words import Term, clean, facet, grams, match_expression, terms, word_set

if TYPE_CHECKING:
    import apsw

P = ParamSpec("P")
T = TypeVar("T")

NEWEST = 400
"""Matches of the word index that are looked at, the newest ones."""

SCORED = 100
"""Lessons whose text is read and scored, the worthiest of those."""

COUNTED = 1000
"""A total is exact up to here; beyond, `SearchResult.more` is true."""

BUDGET = 0.006
"""Seconds after which the slower ways of looking (inside words, through all texts) are not begun, or end."""

MAX_NAMES = 24
"""Names that an unfinished filter (`type:f`) may stand for."""

FEW = 5000
"""Lessons that may be sorted in a moment."""

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
_ALL = "1"
_CACHE_KB = 32_768
_metadata = msgspec.json.Decoder(dict[str, str])


class SearchResult(msgspec.Struct, frozen=True):
    """Hits, best first. `total` matches were counted; `more` says there may be others. `took_s`: seconds."""

    hits: tuple[Hit, ...]
    total: int
    took_s: float
    more: bool = False

    @property
    def lessons(self) -> tuple[Lesson, ...]:
        """The lessons of the hits."""
        return tuple(hit.lesson for hit in self.hits)


class SearchStoppedError(Exception):
    """The search was stopped because nobody waits for its answer any more."""


def _consistent(
    method: Callable[Concatenate[LessonReader, P], T],
) -> Callable[Concatenate[LessonReader, P], T]:
    """All statements of the method see one commit, although other threads and processes go on writing."""

    @wraps(method)
    def inside(self: LessonReader, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._snapshot():
            return method(self, *args, **kwargs)

    return inside


class LessonReader:
    """A connection of its own to the index. For one thread at a time, except `stop`."""

    def __init__(self, index: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._connection = connect_reader(index)
        self._connection.execute(f"PRAGMA cache_size=-{_CACHE_KB}")
        self._connection.set_progress_handler(self._over, 500)
        self._clock = clock
        self._names: dict[int, str] = {}
        self._version = -1
        self._deadline = math.inf
        self._stopped: Callable[[], bool] = lambda: False

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    @_consistent
    def source(self) -> Source:
        """How much of the file is indexed, and the sums."""
        return read_source(self._connection)

    # One lesson, or the most frequent

    @_consistent
    def get(self, id_: str) -> Lesson | None:
        """The lesson with this id."""
        return self._one("b.id = ?", clean(id_))

    @_consistent
    def with_fingerprint(self, mark: str) -> Lesson | None:
        """The newest lesson with this fingerprint."""
        return self._one("b.fingerprint = ? ORDER BY b.key DESC LIMIT 1", mark)

    @_consistent
    def names(self, field: str) -> tuple[tuple[str, int], ...]:
        """The names that a field (`task_type`, …) has, each with its number of lessons, most frequent first."""
        rows = self._connection.execute(
            "SELECT text, lessons FROM name WHERE field = ? AND lessons > 0 ORDER BY lessons DESC, text LIMIT 1000",
            (FIELDS.index(field),),
        )
        return tuple((text, lessons) for text, lessons in rows)

    @_consistent
    def most_frequent(self, limit: int, query: LessonQuery) -> tuple[Lesson, ...]:
        """The lessons seen most often, of those that pass the filters of the query (but its text and file)."""
        chosen = self._chosen(query)
        if chosen is None:
            return ()
        conditions, values = _conditions(chosen, query)
        way = "lesson_times"
        if conditions != _ALL:
            few = self._connection.execute(
                f"SELECT count(*) FROM (SELECT 1 FROM lesson WHERE {conditions} LIMIT ?)", (*values, FEW)
            ).get
            # Few: sort them all. Many: the next one is never far down the list of the most frequent.
            way = way if few == FEW else _index_for(tuple(chosen))
        keys = self._connection.execute(
            f"SELECT key FROM lesson INDEXED BY {way} WHERE {conditions} ORDER BY times DESC, last DESC LIMIT ?",
            (*values, limit),
        )
        return tuple(self._lessons([key for (key,) in keys]))

    # Search

    @_consistent
    def search(
        self,
        query: LessonQuery,
        limit: int = 50,
        *,
        budget: float = BUDGET,
        stopped: Callable[[], bool] = lambda: False,
    ) -> SearchResult:
        """The best `limit` lessons for the query: by rank when it has text, else the newest.

        `budget`: seconds after which looking inside words ends, found or not. `stopped` is asked now and then; once
        it is true, SearchStoppedError is raised.
        """
        began = time.perf_counter()
        self._stopped = stopped
        chosen = self._chosen(query)
        if chosen is None:
            return SearchResult((), 0, time.perf_counter() - began)
        asked = terms(query.words)
        if query.words and not asked:  # nothing but characters that no lesson can hold
            return SearchResult((), 0, time.perf_counter() - began)
        if not asked and not query.file:
            hits, total, more = self._by_fields(query, chosen, limit)
        else:
            hits, total, more, seen = self._by_words(query, chosen, asked, limit)
            if len(hits) < limit and asked and not query.file:
                inside, ended = self._inside_words(query, chosen, asked, limit, began + budget, seen)
                total += len(inside)
                hits += inside
                more = more or not ended
        return SearchResult(tuple(hits[:limit]), total, time.perf_counter() - began, more)

    @_consistent
    def similar(self, text: str, limit: int = 10) -> SearchResult:
        """The lessons whose words are most like those of the text, most like first; `score` is the likeness, 0 to 1."""
        began = time.perf_counter()
        words = self._telling_words(text)
        found = []
        for lesson in self._lessons(self._keys_with(words)[:SCORED]):
            own = word_set(" ".join((lesson.failure_msg, lesson.pattern, lesson.resolution)))
            shared = sum(weight for word, weight in words.items() if word in own)
            found.append(Hit(lesson, round(shared / sum(words.values()), 4)))
        now = self._clock()
        found = [hit for hit in found if hit.score > 0]
        found.sort(key=lambda hit: (-hit.score, -worth(hit.lesson.times_seen, hit.lesson.last_seen, now)))
        return SearchResult(tuple(found[:limit]), len(found), time.perf_counter() - began)

    @_consistent
    def for_task(self, *, task_type: str, files: Iterable[str], text: str, limit: int) -> list[Hit]:
        """The lessons that may help with a task, best first; see `ranking.task_score`."""
        own_files = frozenset(clean(path) for path in files)
        words = self._telling_words(text)
        keys = dict.fromkeys(self._keys_with(words)[:100])
        for path in sorted(own_files)[:20]:
            for kind, count in ((facet("f", path), 40), (facet("d", path.rpartition("/")[0]), 15)):
                keys.update(dict.fromkeys(self._newest(f'"{kind}"', count)))
        if task_type:
            chosen = self._chosen(LessonQuery(task_type=task_type), prefixes=False)
            for way in ("times DESC, last DESC", "last DESC") if chosen else ():
                conditions, values = _conditions(chosen or {}, LessonQuery())
                index = "lesson_t" if way.startswith("last") else "lesson_times"
                rows = self._connection.execute(
                    f"SELECT key FROM lesson INDEXED BY {index} WHERE {conditions} ORDER BY {way} LIMIT 40",
                    values,
                )
                keys.update(dict.fromkeys(key for (key,) in rows))
        now = self._clock()
        hits = [
            Hit(lesson, score)
            for lesson in self._lessons(list(keys))
            if (score := task_score(lesson, task_type=task_type, files=own_files, words=words, now=now)) > 0
        ]
        hits.sort(key=lambda hit: -hit.score)
        return hits[:limit]

    # The ways

    def _by_fields(
        self, query: LessonQuery, chosen: dict[str, list[int]], limit: int
    ) -> tuple[list[Hit], int, bool]:
        found: list[tuple[float, int]] = []
        total = 0
        index = _index_for(tuple(chosen))
        # An index is in order of time for one name of each field, so each combination of names is asked for by itself.
        for names in product(*chosen.values()):
            one = {field: [name] for field, name in zip(chosen, names, strict=True)}
            conditions, values = _conditions(one, query)
            rows = self._rows(
                f"SELECT last, key FROM lesson INDEXED BY {index} WHERE {conditions} ORDER BY last DESC LIMIT ?",
                (*values, limit),
            )
            found += rows
            if len(rows) == limit and total <= COUNTED:
                total += self._connection.execute(
                    f"SELECT count(*) FROM (SELECT 1 FROM lesson INDEXED BY {index} WHERE {conditions} LIMIT ?)",
                    (*values, COUNTED + 1),
                ).get
            else:
                total += len(rows)
        found.sort(reverse=True)
        hits = [Hit(lesson, 0.0) for lesson in self._lessons([key for _, key in found[:limit]])]
        return hits, min(total, COUNTED), total > COUNTED

    def _by_words(
        self, query: LessonQuery, chosen: dict[str, list[int]], asked: tuple[Term, ...], limit: int
    ) -> tuple[list[Hit], int, bool, Collection[int]]:
        """The best hits, how many there are, whether there may be more, and the keys that need no second look."""
        expression, exact = match_expression(asked, _facets(query, chosen))
        if not expression:
            return [], 0, False, ()
        conditions, values = _conditions({}, query, table="l.")
        rows = self._rows(
            "SELECT l.key, l.times, l.last FROM word CROSS JOIN lesson l ON l.key = word.rowid"
            f" WHERE word MATCH ? AND {conditions}{self._zone(query)} ORDER BY word.rowid DESC LIMIT ?",
            (expression, *values, NEWEST),
        )
        now = self._clock()
        prior = {key: worth(times, last, now) for key, times, last in rows}
        order = sorted(prior, key=prior.__getitem__, reverse=True)
        hits: dict[int, Hit] = {}
        for start in range(0, len(order), SCORED):
            hits |= self._scored(order[start : start + SCORED], asked, prior, inside=False)
            if exact or len(hits) >= SCORED:
                break
        best = _best(hits.values(), asked, limit, inside=False)
        full = len(rows) == NEWEST
        total = len(rows) if exact else len(hits)
        return best, total, full or (not exact and len(hits) >= SCORED), hits

    def _inside_words(
        self,
        query: LessonQuery,
        chosen: dict[str, list[int]],
        asked: tuple[Term, ...],
        limit: int,
        deadline: float,
        seen: Collection[int],
    ) -> tuple[list[Hit], bool]:
        """The lessons that have the words somewhere, without those seen already, and whether these are all."""
        if time.perf_counter() >= deadline:
            return [], False
        expression = self._gram_expression(asked)
        conditions, values = _conditions(chosen, query, table="l.")
        if expression:
            sql = (
                "SELECT l.key, l.times, l.last FROM gram CROSS JOIN lesson l ON l.key = gram.rowid"
                f" WHERE gram MATCH ? AND {conditions}{self._zone(query, 'gram')} ORDER BY gram.rowid DESC"
            )
            values = (expression, *values)
        else:
            # Shorter than three characters: no index helps, so the newest lessons are read while there is time.
            sql = f"SELECT l.key, l.times, l.last FROM lesson l WHERE {conditions} ORDER BY l.key DESC"
        hits: dict[int, Hit] = {}
        now = self._clock()
        ended = False
        cursor = self._connection.cursor()
        self._deadline = deadline
        try:
            cursor.execute(sql, values)
            while not ended and len(hits) < limit:
                rows = list(islice(cursor, 40))
                ended = not rows
                prior = {key: worth(times, last, now) for key, times, last in rows if key not in seen}
                if time.perf_counter() > deadline:
                    break
                hits |= self._scored(list(prior), asked, prior, inside=True)
        except _interrupted():
            self._raise_if_stopped()
        finally:
            self._deadline = math.inf
            cursor.close()
        return _best(hits.values(), asked, limit, inside=True), ended

    def _scored(
        self, keys: Sequence[int], asked: tuple[Term, ...], prior: dict[int, float], *, inside: bool
    ) -> dict[int, Hit]:
        """The lessons of these keys that have the words, without marked parts."""
        self._raise_if_stopped()
        hits = {}
        for key, lesson in zip(keys, self._lessons(keys), strict=True):
            score = text_score(lesson, asked, inside=inside)
            if score is not None:
                hits[key] = Hit(lesson, score + prior[key])
        return hits

    # Smaller questions

    def _rows(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        return self._connection.execute(sql, values).fetchall()

    def _chosen(self, query: LessonQuery, *, prefixes: bool = True) -> dict[str, list[int]] | None:
        """The keys of the names that each filter of the query stands for; None when there is no such name."""
        chosen = {}
        for number, field in enumerate(FIELDS):
            wanted = clean(getattr(query, field))
            if not wanted:
                continue
            keys = self._name_keys(number, wanted, prefixes=prefixes)
            if not keys:
                return None
            chosen[field] = keys
        return chosen

    def _name_keys(self, field: int, wanted: str, *, prefixes: bool) -> list[int]:
        for text in dict.fromkeys((wanted, wanted.lower())):
            found = self._connection.execute(
                "SELECT key FROM name WHERE field = ? AND text = ?", (field, text)
            ).get
            if found is not None:
                return [found]
        if not prefixes:
            return []
        rows = self._connection.execute(
            "SELECT key FROM name WHERE field = ? AND text >= ? AND text < ? ORDER BY lessons DESC LIMIT ?",
            (field, wanted.lower(), wanted.lower() + "\U0010ffff", MAX_NAMES),
        )
        return [key for (key,) in rows]

    def _zone(self, query: LessonQuery, table: str = "word") -> str:
        """A condition that keeps a full-text search to the keys among which the time range lies."""
        if query.since is None and query.until is None:
            return ""
        ((low, high),) = self._rows(
            "SELECT min(block), max(block) FROM zone WHERE high >= ? AND low <= ?",
            (
                -math.inf if query.since is None else query.since,
                math.inf if query.until is None else query.until,
            ),
        )
        if low is None:
            return " AND 0"
        return f" AND {table}.rowid BETWEEN {low * ZONE} AND {high * ZONE + ZONE - 1}"

    def _gram_expression(self, asked: Iterable[Term]) -> str:
        found = sorted({gram for term in asked for gram in grams(term.text)})[:200]
        found = [gram for gram in found if "\x00" not in gram]
        rarest = sorted(found, key=self._frequency)[:3]
        return " AND ".join('"' + gram.replace('"', '""') + '"' for gram in rarest)

    def _frequency(self, term: str) -> int:
        return self._connection.execute("SELECT lessons FROM frequency WHERE term = ?", (term,)).get or 0

    def _telling_words(self, text: str) -> dict[str, float]:
        """The dozen rarest words of a text, each with its weight, which is greater the rarer it is."""
        sampled = self.source().lessons / SAMPLED
        counts = {word: self._frequency(f" {word}") for word in sorted(word_set(clean(text)))[:400]}
        weights = {word: math.log((sampled + 2) / (count + 1)) for word, count in counts.items()}
        rarest = sorted(weights, key=lambda word: -weights[word])[:12]
        return {word: max(weights[word], 0.1) for word in rarest}

    def _keys_with(self, words: dict[str, float]) -> list[int]:
        """The keys of new lessons with any of the words, those with the most weight first."""
        weight: Counter[int] = Counter()
        for word, value in words.items():
            for key in self._newest(f'"{word}"', 100):
                weight[key] += value  # type: ignore[assignment]
        return sorted(weight, key=lambda key: (-weight[key], -key))

    def _newest(self, expression: str, limit: int) -> list[int]:
        rows = self._connection.execute(
            "SELECT rowid FROM word WHERE word MATCH ? ORDER BY rowid DESC LIMIT ?", (expression, limit)
        )
        return [key for (key,) in rows]

    def _one(self, condition: str, value: str) -> Lesson | None:
        key = self._connection.execute(f"SELECT b.key FROM body b WHERE {condition}", (value,)).get
        return self._lessons([key])[0] if key is not None else None

    def _lessons(self, keys: Sequence[int]) -> list[Lesson]:
        """The lessons with these keys, in this order."""
        if not keys:
            return []
        rows = self._connection.execute(
            "SELECT b.key, b.id, l.task_type, l.activity_type, l.failure_type, b.failure_msg, b.resolution, l.pattern,"
            " l.times, l.first, l.last, b.metadata FROM body b JOIN lesson l ON l.key = b.key"
            f" WHERE b.key IN ({','.join(map(str, keys))})"
        )
        found = {}
        for (
            key,
            id_,
            task,
            activity,
            failure,
            message,
            resolution,
            pattern,
            times,
            first,
            last,
            metadata,
        ) in rows:
            found[key] = Lesson(
                id_,
                self._name(task),
                self._name(activity),
                self._name(failure),
                message,
                resolution,
                self._name(pattern),
                times,
                first,
                last,
                _metadata.decode(metadata),
            )
        return [found[key] for key in keys]

    def _name(self, key: int) -> str:
        name = self._names.get(key)
        if name is None:
            if len(self._names) > 10_000:
                self._names.clear()
            name = self._connection.execute("SELECT text FROM name WHERE key = ?", (key,)).get
            self._names[key] = name
        return name

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        import apsw

        connection = self._connection
        nested = connection.in_transaction
        if nested:
            yield
            return
        try:
            connection.execute("BEGIN")
            try:
                version = connection.pragma("schema_version")
                if version != self._version:  # built anew since: the keys of the names are others
                    self._names.clear()
                    self._version = version
                yield
            finally:
                if connection.in_transaction:
                    connection.execute("COMMIT")
        except apsw.InterruptError:
            raise SearchStoppedError from None
        except apsw.Error as error:
            raise StoreError(
                f"the index of the lessons cannot be read: {error}", "run `taskyard lessons rebuild`"
            ) from error

    def _over(self) -> bool:
        return time.perf_counter() > self._deadline or self._stopped()

    def _raise_if_stopped(self) -> None:
        if self._stopped():
            raise SearchStoppedError


def _best(hits: Iterable[Hit], asked: tuple[Term, ...], limit: int, *, inside: bool) -> list[Hit]:
    best = sorted(hits, key=lambda hit: -hit.score)[:limit]
    return [Hit(hit.lesson, hit.score, spans(hit.lesson, asked, inside=inside)) for hit in best]


def _facets(query: LessonQuery, chosen: dict[str, list[int]]) -> list[str]:
    groups = [[facet("k", key) for key in keys] for keys in chosen.values()]
    if query.file:
        path = clean(query.file).rstrip("/")
        groups.append([facet("f", path), facet("n", path), facet("d", path)])
    return [" OR ".join(f'"{word}"' for word in group) for group in groups]


def _conditions(
    chosen: dict[str, list[int]], query: LessonQuery, *, table: str = ""
) -> tuple[str, tuple[Any, ...]]:
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
    return " AND ".join(parts) or _ALL, tuple(values)


def _index_for(fields: tuple[str, ...]) -> str:
    return _INDEXES.get(fields, "lesson_ptaf")


def _interrupted() -> type[apsw.InterruptError]:
    import apsw

    return apsw.InterruptError
