"""What listens to the bus to keep things: every event in the journal, every ended task in the history."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from engine import events as ev
from engine.errors import StoreError
from engine.figures import HistoryFigures
from engine.model import TaskState
from engine.state import RunState
from engine.store.history import HistoryPruner, Taken, TaskHistory
from engine.store.journal import Journal
from engine.task_view import TaskView

CYCLE_BYTES = 4_000_000
"""Bytes that the live part of a run's journal may take, the state that the next cycle opens with included."""

MOST_WAITING = 100
"""Events of one turn of the loop that are written together."""


class JournalSink:
    """Keeps the bus's events in the journal of one run, and begins a new cycle when the journal has grown.

    `cycle_bytes` bounds the live journal: the more the state of a run takes, the fewer events a cycle has. What one
    turn of the event loop emits is written together. A write that failed is raised by the next `commit`, and at once
    by whoever waits in `until_broken`: the run must not go on as if it were kept.
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
        self._on_failure: Callable[[], object] = lambda: None

    async def until_broken(self) -> None:
        """Wait until an event cannot be kept, and raise StoreError then. For one waiter, beside the run."""
        loop = asyncio.get_running_loop()
        broken = asyncio.Event()

        def tell() -> None:
            # Called in the writer's thread, maybe when the loop has closed: then there is nobody left to hear of it.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(broken.set)

        self._on_failure = tell
        while self._failure is None:
            await broken.wait()
        raise _refusal(self._failure)

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
            raise _refusal(self._failure)
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
                self._note(error)

    def _write(self, *, durable: bool) -> Future[int]:
        events, self._waiting = self._waiting, []
        written = self._journal.append(self._run, events, durable=durable)
        written.add_done_callback(lambda done: self._note(done.exception()))
        return written

    def _note(self, failure: BaseException | None) -> None:
        if failure is not None:
            self._failure = failure
            self._on_failure()


def _refusal(failure: BaseException) -> StoreError:
    return StoreError(f"the journal cannot be written: {failure}", "nothing is lost; mend it and run again")


async def _until(written: Future[int]) -> None:
    await asyncio.wrap_future(written)


class HistoryRecorder:
    """Keeps each execution of a task in the history: from its first attempt as running, at its end with all it took,
    and with what it has taken so far where the run ends before.

    An execution that an interrupted run left open is gone on with by the run that takes it up. A task that another
    orchestrator landed is kept by that one; what was begun here is ended all the same.
    """

    def __init__(self, pruner: HistoryPruner, run: str, state: Callable[[], RunState]) -> None:
        self.pruner = pruner
        self._run = run
        self._state = state
        running = pruner.find(run=run, status=TaskState.RUNNING, limit=-1)
        self._open = {entry.task: _Open(entry.id, entry.idle, entry.before) for entry in running}
        self._run_idle = state().run.idle

    def settle(self, ended: Mapping[str, float]) -> None:
        """End what runs left open that nobody takes up any more; `ended` are such runs, and when they ended."""
        for run in {entry.run for entry in self.pruner.find(status=TaskState.RUNNING, limit=-1)}:
            if run in ended:
                _forget(self.pruner.end_run(run, ended[run], "its run ended"))

    def hear(self, event: ev.Event) -> None:
        """Take an event that begins or ends an execution, or goes on with those that an interrupted run left open."""
        if isinstance(event, ev.AttemptStarted):
            self._attempt(event) if event.task in self._open else self._begin(event)
        elif isinstance(event, ev.TaskLanded | ev.TaskEnded):
            self._end(event)
        elif isinstance(event, ev.RunResumed):
            self._go_on()
        elif isinstance(event, ev.RunFinished):
            self._pause()

    def _go_on(self) -> None:
        before, self._run_idle = self._run_idle, self._state().run.idle
        for task, each in self._open.items():
            self._open[task] = replace(each, idle=each.idle + self._run_idle - before)
            _forget(self.pruner.update(each.id, idle=self._open[task].idle))

    def _pause(self) -> None:
        for task, each in self._open.items():
            if (view := self._state().find(task)) is not None:
                _forget(self.pruner.update(each.id, **_fields(_taken(view, each.before))))

    def _attempt(self, event: ev.AttemptStarted) -> None:
        each = self._open[event.task]
        _forget(self.pruner.update(each.id, attempts=event.attempt - each.before.attempts))

    def _begin(self, event: ev.AttemptStarted) -> None:
        view = self._state().find(event.task)
        if view is not None:
            id = self._id(event)
            before = msgspec.structs.replace(_taken(view, Taken()), attempts=event.attempt - 1)
            self._open[view.id] = _Open(id, 0.0, before)
            entry = TaskHistory(
                id=id,
                run=self._run,
                task=view.id,
                status=TaskState.RUNNING,
                started=event.at,
                type=view.task.type,
                scope=view.task.scope,
                attempts=1,
                before=before,
            )
            _forget(self.pruner.add(entry))

    def _end(self, event: ev.TaskLanded | ev.TaskEnded) -> None:
        view = self._state().find(event.task)
        if view is None or view.ended is None:
            return
        begun = self._open.pop(view.id, None)
        if begun is None and isinstance(event, ev.TaskLanded) and event.by:
            return
        if begun is None:  # It ended before any attempt: cancelled while it waited, or found landed.
            started = view.started if view.started is not None else event.at
            entry = TaskHistory(
                id=self._id(event),
                run=self._run,
                task=view.id,
                status=view.state,
                started=started,
                type=view.task.type,
                scope=view.task.scope,
                ended=view.ended,
                reason=view.problem,
                commit=view.commit,
                **_fields(_taken(view, Taken())),
            )
            _forget(self.pruner.add(entry))
        else:
            end = {"status": view.state, "ended": view.ended, "reason": view.problem, "commit": view.commit}
            _forget(self.pruner.update(begun.id, **end, **_fields(_taken(view, begun.before))))

    def end_run(self) -> None:
        """End what the run leaves open: nobody takes it up any more."""
        _forget(self.pruner.end_run(self._run, self._state().snapshot().at, "its run ended"))

    def _id(self, event: ev.AttemptStarted | ev.TaskLanded | ev.TaskEnded) -> str:
        return f"{self._run}/{event.task}/{event.at:.6f}"

    def figures(self) -> HistoryFigures:
        """The figures now; the journal's size counts what SQLite has not yet folded into the file."""
        stats = self.pruner.stats()
        return HistoryFigures(**{name: getattr(stats, name) for name in HistoryFigures.__struct_fields__})


@dataclass(frozen=True, slots=True)
class _Open:
    """An execution that goes on: its entry, the seconds in which nobody worked on it, and what came before it."""

    id: str
    idle: float
    before: Taken


def _taken(view: TaskView, before: Taken) -> Taken:
    """What the work on the task has taken in this run since it had taken `before`."""
    return Taken(
        attempts=view.attempt - before.attempts,
        model_calls=view.model_calls - before.model_calls,
        batched_requests=view.batched_requests - before.batched_requests,
        cache_hits=view.cache_hits - before.cache_hits,
        usage=view.usage - before.usage,
        usd=max(0.0, view.usd - before.usd),
        unpriced=view.unpriced - before.unpriced,
    )


def _fields(taken: Taken) -> dict[str, Any]:
    return {name: getattr(taken, name) for name in Taken.__struct_fields__}


def _forget(written: Future[Any]) -> None:
    """Let a history that cannot be written be told by its figures; the journal has the task all the same."""
    written.add_done_callback(lambda done: done.exception())
