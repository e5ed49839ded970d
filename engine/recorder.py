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

CYCLE_EVENTS = 10_000


class JournalSink:
    """Keeps the bus's events in the journal of one run, and begins a new cycle when the journal has grown.

    `kept` is how many events of the current cycle there are already, `cycle_events` how many make it full. A write that
    failed is raised by the next `commit`: the run must not go on as if it were kept.
    """

    def __init__(
        self,
        journal: Journal,
        run: str,
        kept: int,
        state: Callable[[], RunState],
        *,
        cycle_events: int = CYCLE_EVENTS,
    ) -> None:
        self._journal = journal
        self._run = run
        self._kept = kept
        self._state = state
        self._cycle_events = cycle_events
        self._failure: BaseException | None = None

    def append(self, event: ev.Event) -> None:
        """Keep the event soon."""
        self._keep(event, durable=False)

    def commit(self, event: ev.Event) -> Awaitable[None]:
        """Keep the event at once; wait for what is given back until it is on disk. Raises StoreError."""
        if self._failure is not None:
            raise StoreError(
                f"the journal cannot be written: {self._failure}", "nothing is lost; mend it and run again"
            )
        return _until(self._keep(event, durable=True))

    def _keep(self, event: ev.Event, *, durable: bool) -> Future[int]:
        if self._kept >= self._cycle_events:
            # The state has seen all events that the journal has, and not this one.
            self._begin_cycle()
        self._kept += 1
        written = self._journal.append(self._run, [event], durable=durable)
        written.add_done_callback(lambda done: self._note(done.exception()))
        return written

    def _note(self, failure: BaseException | None) -> None:
        if failure is not None:
            self._failure = failure

    def _begin_cycle(self) -> None:
        self._kept = 0
        snapshot = self._state().begin_cycle()
        moved = self._journal.begin_cycle(self._run, msgspec.json.encode(snapshot), snapshot.at)
        # An archive that cannot be written keeps the events where they were; the next cycle tries again.
        moved.add_done_callback(lambda done: done.exception())


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
