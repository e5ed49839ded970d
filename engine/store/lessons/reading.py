"""The index as searches read it: one connection, one commit at a time, ended when nobody waits for the answer."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from engine.errors import StoreError
from engine.store.database import connect_reader
from engine.store.lessons.ranking import SearchText, search_text
from engine.store.lessons.record import Lesson

if TYPE_CHECKING:
    import apsw

_CACHE_KB = 32_768
_MAX_NAMES = 10_000  # kept in memory
_MAX_TEXTS = (
    8192  # kept in memory, about 2 KB each: each letter typed finds much of what the one before it found
)
# One text for any number of keys, here and below: planning another one each time took as long as reading the rows.
_LESSONS = """
    SELECT b.key, b.id, l.task_type, l.activity_type, l.failure_type, b.failure_msg, b.resolution, l.pattern,
        l.times, l.first, l.last, b.metadata
    FROM json_each(?) j CROSS JOIN body b ON b.key = j.value JOIN lesson l ON l.key = b.key
"""
_metadata = msgspec.json.Decoder(dict[str, str])


def _never() -> bool:
    return False


class SearchStoppedError(Exception):
    """The search was stopped because nobody waits for its answer any more."""


class IndexReading:
    """A connection of its own, for one thread at a time. All statements inside `snapshot` see one commit."""

    def __init__(self, index: Path, *, timer: Callable[[], float] = time.perf_counter) -> None:
        self.timer = timer
        self._connection = connect_reader(index)
        self._connection.execute(f"PRAGMA cache_size=-{_CACHE_KB}")
        self._connection.set_progress_handler(self._over, 500)
        self._names: dict[int, str] = {}
        self._texts: dict[int, SearchText] = {}
        self._version = -1
        self._deadline = math.inf
        self._stopped: Callable[[], bool] = _never

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    @property
    def connection(self) -> apsw.Connection:
        """The connection itself."""
        return self._connection

    def rows(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """All rows of an answer."""
        return self._connection.execute(sql, values).fetchall()

    def value(self, sql: str, values: tuple[Any, ...] = ()) -> Any:
        """The only value of an answer, or None where it has no row."""
        return self._connection.execute(sql, values).get

    def lessons(self, keys: Sequence[int]) -> list[Lesson]:
        """The lessons with these keys, in this order."""
        if not keys:
            return []
        rows = self.rows(_LESSONS, (str(list(keys)),))
        try:
            found = self._told(rows)
        except KeyError:
            self._learn_names({key for row in rows for key in (*row[2:5], row[7])})
            found = self._told(rows)
        return [found[key] for key in keys]

    def texts(self, keys: Sequence[int]) -> list[SearchText]:
        """The lessons with these keys as searches read them, in this order."""
        kept = self._texts
        missing = [key for key in keys if key not in kept]
        kept.update(zip(missing, map(search_text, self.lessons(missing)), strict=True))
        found = [kept[key] for key in keys]
        for key in list(islice(kept, max(len(kept) - _MAX_TEXTS, 0))):
            del kept[key]
        return found

    def _told(self, rows: list[Any]) -> dict[int, Lesson]:
        name, decode = self._names, _metadata.decode
        return {
            key: Lesson(
                id_, name[task], name[activity], name[failure], message, resolution, name[pattern],
                times, first, last, decode(metadata),
            )
            for (
                key, id_, task, activity, failure, message, resolution, pattern, times, first, last, metadata,
            ) in rows
        }  # fmt: skip

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Raises SearchStoppedError for what was interrupted, and StoreError where the index cannot be read."""
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
                if version != self._version:  # built anew since: the keys are others
                    self._names.clear()
                    self._texts.clear()
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

    @contextmanager
    def stopping(self, stopped: Callable[[], bool]) -> Iterator[None]:
        """Raise SearchStoppedError from what is inside soon after `stopped` turns true.

        Not for longer: who waits for the next answer must not be told of the last one, and beginning and ending a
        transaction count as statements that can be ended, too.
        """
        self._stopped = stopped
        try:
            yield
        finally:
            self._stopped = _never

    @contextmanager
    def until(self, deadline: float) -> Iterator[None]:
        """End the statements inside at that moment of the timer; what is inside ends without an error."""
        import apsw

        self._deadline = deadline
        try:
            with suppress(apsw.InterruptError):
                yield
            self.raise_if_stopped()
        finally:
            self._deadline = math.inf

    def raise_if_stopped(self) -> None:
        """Raise SearchStoppedError once nobody waits."""
        if self._stopped():
            raise SearchStoppedError

    def _over(self) -> bool:
        return self.timer() > self._deadline or self._stopped()

    def _learn_names(self, keys: set[int]) -> None:
        missing = keys.difference(self._names)
        if not missing:
            return
        if len(self._names) > _MAX_NAMES:
            self._names.clear()
            missing = keys
        self._names.update(
            self.rows(
                "SELECT n.key, n.text FROM json_each(?) j CROSS JOIN name n ON n.key = j.value",
                (str(list(missing)),),
            )
        )
