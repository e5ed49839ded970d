"""Searching as somebody types: each keystroke asks anew, and the answer to the one before is not waited for.

live = LiveSearch(store.open_reader)
async for found in live.search(parse_query(typed)):      # ends the search before this one
    show(found)
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future

from engine.store.lessons.query import LessonQuery
from engine.store.lessons.reading import SearchStoppedError
from engine.store.lessons.search import BUDGET, LessonReader, SearchResult

BUDGETS = (BUDGET, 0.05, 0.5, 5.0, math.inf)
"""Seconds of one look after the other, until all was looked through: each shows what it has."""


class LiveSearch:
    """One thread with a reader of its own, which only ever works on the newest question."""

    def __init__(self, open_reader: Callable[[], LessonReader]) -> None:
        self._open_reader = open_reader
        self._changed = threading.Condition()
        self._newest: _Question | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="lessons search", daemon=True)
        self._thread.start()

    async def search(self, query: LessonQuery, *, limit: int = 50) -> AsyncIterator[SearchResult]:
        """What is found in a moment, and, while that is not all (`SearchResult.cut`), in longer and longer ones.

        The next search ends this one with CancelledError. Searches count in the order in which they are begun.
        """
        for budget in BUDGETS:
            found = await asyncio.wrap_future(self.ask(query, limit=limit, budget=budget))
            yield found
            if not found.cut:
                return

    def ask(self, query: LessonQuery, *, limit: int = 50, budget: float = BUDGET) -> Future[SearchResult]:
        """Search for the query instead of the last one, whose future is cancelled unless it is answered already.

        An empty query finds the most frequent lessons. `budget`: see `LessonReader.search`.
        """
        question = _Question(query, limit, budget)
        with self._changed:
            if self._closed:
                question.future.cancel()
                return question.future
            old, self._newest = self._newest, question
            self._changed.notify()
        if old is not None:
            old.future.cancel()
        return question.future

    def close(self) -> None:
        """Stop a running search, cancel its future, end the thread. Safe to call twice."""
        with self._changed:
            self._closed = True
            old, self._newest = self._newest, None
            self._changed.notify()
        if old is not None:
            old.future.cancel()
        self._thread.join()

    def _work(self) -> None:
        reader: LessonReader | None = None
        answered: _Question | None = None
        while (question := self._next(answered)) is not None:
            try:
                reader = reader or self._open_reader()
                question.answer(self._search(reader, question))
            except SearchStoppedError:
                question.future.cancel()
            except Exception as error:
                question.fail(error)
            answered = question
        if reader is not None:
            reader.close()

    def _search(self, reader: LessonReader, question: _Question) -> SearchResult:
        if question.query.empty:
            return reader.most_seen(question.limit)
        return reader.search(
            question.query, question.limit, budget=question.budget, stopped=self._replaced(question)
        )

    def _next(self, answered: _Question | None) -> _Question | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._newest not in (None, answered))
            return None if self._closed else self._newest

    def _replaced(self, question: _Question) -> Callable[[], bool]:
        return lambda: self._newest is not question


class _Question:
    def __init__(self, query: LessonQuery, limit: int, budget: float) -> None:
        self.query = query
        self.limit = limit
        self.budget = budget
        self.future: Future[SearchResult] = Future()

    def answer(self, result: SearchResult) -> None:
        if self.future.set_running_or_notify_cancel():
            self.future.set_result(result)

    def fail(self, error: Exception) -> None:
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)
