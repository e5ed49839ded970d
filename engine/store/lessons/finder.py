"""All the ways to find lessons, from any thread."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from engine.store.lessons.query import LessonQuery
from engine.store.lessons.record import Lesson, estimated_tokens
from engine.store.lessons.search import BUDGET, LessonReader, SearchResult


class LessonFinder(ABC):
    """Finds lessons through one reader that its threads share; raises StoreError where the index cannot be read."""

    _reader: LessonReader

    def __init__(self) -> None:
        self._reading = threading.Lock()

    def get(self, id_: str) -> Lesson | None:
        """The lesson with this id."""
        with self._read() as reader:
            return reader.get(id_)

    def search(self, query: LessonQuery, *, limit: int = 50, budget: float = BUDGET) -> SearchResult:
        """The best lessons for the query; see `LiveSearch` for searching as somebody types.

        `budget`: seconds after which looking inside words ends; `SearchResult.more` then says that it did.
        """
        with self._read(settled=not query.only_words) as reader:
            return reader.search(query, limit, budget=budget)

    def similar(self, text: str, *, limit: int = 10) -> SearchResult:
        """The lessons whose words are most like those of a text, for instance of a failure message."""
        with self._read() as reader:
            return reader.similar(text, limit)

    def for_task(
        self,
        *,
        type: str,
        files: Iterable[str] = (),
        text: str = "",
        limit: int = 5,
        max_tokens: int = 1300,
    ) -> tuple[Lesson, ...]:
        """The lessons that may help with a task, best first: of its type, about its files, or in its words.

        As many as fit: at most `limit`, whose `brief()` texts together have at most `max_tokens` by
        `estimated_tokens`.
        """
        with self._read() as reader:
            hits = reader.for_task(task_type=type, files=files, text=text, limit=limit)
        chosen = []
        left = max_tokens
        for hit in hits:
            left -= estimated_tokens(hit.lesson.brief())
            if left < 0:
                break
            chosen.append(hit.lesson)
        return tuple(chosen)

    def most_frequent(self, limit: int = 10, query: LessonQuery | None = None) -> tuple[Lesson, ...]:
        """The lessons seen most often, of those that satisfy the filters of the query."""
        with self._read() as reader:
            return reader.most_frequent(limit, query or LessonQuery())

    def by_task_type(self, name: str, *, limit: int = 50) -> tuple[Lesson, ...]:
        """The newest lessons of a task type."""
        return self.search(LessonQuery(task_type=name), limit=limit).lessons

    def by_activity_type(self, name: str, *, limit: int = 50) -> tuple[Lesson, ...]:
        """The newest lessons of an activity type."""
        return self.search(LessonQuery(activity_type=name), limit=limit).lessons

    def by_failure_type(self, name: str, *, limit: int = 50) -> tuple[Lesson, ...]:
        """The newest lessons of a failure type."""
        return self.search(LessonQuery(failure_type=name), limit=limit).lessons

    def by_pattern(self, name: str, *, limit: int = 50) -> tuple[Lesson, ...]:
        """The newest lessons of a pattern."""
        return self.search(LessonQuery(pattern=name), limit=limit).lessons

    def in_time_range(self, since: float, until: float, *, limit: int = 50) -> tuple[Lesson, ...]:
        """The newest lessons last seen in the range, both ends included; seconds since the epoch."""
        return self.search(LessonQuery(since=since, until=until), limit=limit).lessons

    @abstractmethod
    def _settle(self) -> None:
        """Let the index take in what was added."""

    @contextmanager
    def _read(self, *, settled: bool = True) -> Iterator[LessonReader]:
        if settled:
            self._settle()
        with self._reading:
            yield self._reader
