"""Searching as somebody types: each keystroke asks anew, and the answer to the one before is not waited for.

live = LiveSearch(store.open_reader)
future = live.ask(parse_query(typed))      # cancels the future of the last call
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from engine.store.lessons.query import LessonQuery
from engine.store.lessons.reading import SearchStoppedError
from engine.store.lessons.search import LessonReader, SearchResult


class LiveSearch:
    """One thread with a reader of its own, which only ever works on the newest question."""

    def __init__(self, open_reader: Callable[[], LessonReader]) -> None:
        self._open_reader = open_reader
        self._changed = threading.Condition()
        self._newest: _Question | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="lessons search", daemon=True)
        self._thread.start()

    def ask(self, query: LessonQuery, *, limit: int = 50) -> Future[SearchResult]:
        """Search for the query instead of the last one, whose future is cancelled unless it is answered already."""
        question = _Question(query, limit)
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
                question.answer(
                    reader.search(question.query, question.limit, stopped=self._replaced(question))
                )
            except SearchStoppedError:
                pass  # its future is cancelled
            except Exception as error:
                question.fail(error)
            answered = question
        if reader is not None:
            reader.close()

    def _next(self, answered: _Question | None) -> _Question | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._newest not in (None, answered))
            return None if self._closed else self._newest

    def _replaced(self, question: _Question) -> Callable[[], bool]:
        return lambda: self._newest is not question


class _Question:
    def __init__(self, query: LessonQuery, limit: int) -> None:
        self.query = query
        self.limit = limit
        self.future: Future[SearchResult] = Future()

    def answer(self, result: SearchResult) -> None:
        if self.future.set_running_or_notify_cancel():
            self.future.set_result(result)

    def fail(self, error: Exception) -> None:
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)
