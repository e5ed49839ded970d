"""What listens to the bus to keep things: every event in the journal, every ended task in the history."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path

import msgspec

from engine import events as ev
from engine.errors import StoreError
from engine.figures import HistoryFigures
from engine.state import RunState
from engine.store.history import HistoryPruner, TaskHistory
from engine.store.journal import Journal

CYCLE_BYTES = 4_000_000
"""Bytes that the live part of a run's journal may take, the state that the next cycle opens with included."""

MOST_WAITING = 100
"""Events of one turn of the loop that are written together."""


class JournalSink:
    """Keeps the bus's events in the journal of one run, and begins a new cycle when the journal has grown.

    `cycle_bytes` bounds the live journal: the more the state of a run takes, the fewer events a cycle has. What one
    turn of the event loop emits is written together. A write that failed is raised by the next `commit`: the run must
    not go on as if it were kept.
    """

    def __init__(
        self, journal: Journal, run: str, state: Callable[[], RunState], *, cycle_bytes: int = CYCLE_BYTES
    ) -> None:
        self._journal = journal
        self._run = run
        self._state = state
        self._cycle_bytes = cycle_bytes
        self._waiting: list[ev.Event] = []
        self._failure: BaseException | None = None

    def append(self, event: ev.Event) -> None:
        """Keep the event soon."""
        self._make_room()
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._write_waiting)
        self._waiting.append(event)
        if len(self._waiting) == MOST_WAITING:
            self._write_waiting()

    def commit(self, event: ev.Event) -> Awaitable[None]:
        """Keep the event at once; wait for what is given back until it is on disk. Raises StoreError."""
        if self._failure is not None:
            raise StoreError(
                f"the journal cannot be written: {self._failure}", "nothing is lost; mend it and run again"
            )
        self._make_room()
        self._waiting.append(event)
        return _until(self._write(durable=True))

    def _make_room(self) -> None:
        """Begin a new cycle if this one is full: the state has seen all events but the one that comes."""
        size = self._journal.cycle_size(self._run)
        # The state counts more than twice: until the events have moved away the next one lies beside this one, and
        # the bigger it is, the more comes in meanwhile. However big, a cycle is long enough not to be mostly state.
        full = size.events + 2.5 * size.state >= self._cycle_bytes
        if full and size.events >= self._cycle_bytes // 8:
            self._write_waiting()
            snapshot = self._state().begin_cycle()
            moved = self._journal.begin_cycle(self._run, msgspec.json.encode(snapshot), snapshot.at)
            # An archive that cannot be written keeps the events where they were; the next cycle tries again.
            moved.add_done_callback(lambda done: done.exception())

    def _write_waiting(self) -> None:
        if self._waiting:
            try:
                self._write(durable=False)
            except StoreError as error:
                self._failure = error

    def _write(self, *, durable: bool) -> Future[int]:
        events, self._waiting = self._waiting, []
        written = self._journal.append(self._run, events, durable=durable)
        written.add_done_callback(lambda done: self._note(done.exception()))
        return written

    def _note(self, failure: BaseException | None) -> None:
        if failure is not None:
            self._failure = failure


async def _until(written: Future[int]) -> None:
    await asyncio.wrap_future(written)


class HistoryRecorder:
    """Adds each ended task to the history."""

    def __init__(
        self, pruner: HistoryPruner, run: str, state: Callable[[], RunState], *, journal_path: Path
    ) -> None:
        self.pruner = pruner
        self._run = run
        self._state = state
        self._journal_path = journal_path

    def hear(self, event: ev.Event) -> None:
        """Take an event that ends a task."""
        if isinstance(event, ev.TaskLanded | ev.TaskEnded):
            view = self._state().find(event.task)
            if view is None or view.ended is None:
                return
            entry = TaskHistory(
                id=f"{self._run}/{view.id}/{event.at:.6f}",
                run=self._run,
                task=view.id,
                status=view.state,
                started=view.started if view.started is not None else event.at,
                ended=view.ended,
                type=view.task.type,
                scope=view.task.scope,
                attempts=view.attempt,
                reason=view.problem,
                commit=view.commit,
                model_calls=view.calls_made,
                cache_hits=view.cache_hits,
                usage=view.usage,
                usd=view.usd,
            )
            # A history that cannot be written is told by its figures; the journal has the task all the same.
            self.pruner.add(entry).add_done_callback(lambda done: done.exception())

    def figures(self) -> HistoryFigures:
        """The figures, with the size of the file that the journal shares."""
        stats = self.pruner.stats()
        size = 0
        with contextlib.suppress(OSError):
            size = self._journal_path.stat().st_size
        values = {name: getattr(stats, name) for name in HistoryFigures.__struct_fields__}
        return HistoryFigures(**{**values, "journal_bytes": size})
