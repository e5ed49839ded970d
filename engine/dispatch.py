"""Start tasks in parallel: the moment what they wait for is done, never over a limit, best priority first.

    dispatcher = Dispatcher(work, max_concurrency=10)
    dispatcher.add(tasks)
    outcomes = await dispatcher.wait()

`work(task, slot)` does one task; what it returns is the task's result, what it raises its failure. It may give its
slot back while it waits for something that needs none (`slot.release()`, later `await slot.acquire()`): a task that
waits for a train does not keep another from starting. One task's failure or cancellation never disturbs another.

All methods belong to the event loop's thread. Times are `monotonic` seconds.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from enum import StrEnum
from typing import Generic, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from engine.model import Lane, Task

R = TypeVar("R")


class Progress(StrEnum):
    """Where a task stands with the dispatcher."""

    WAITING = "waiting"
    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


_ENDED = frozenset({Progress.COMPLETED, Progress.FAILED, Progress.CANCELLED})


class Outcome(msgspec.Struct, Generic[R], frozen=True, eq=False):
    """How a task ended. `error` is what its work raised; `busy` counts the seconds it held a slot."""

    task_id: str
    progress: Progress
    result: R | None = None
    error: BaseException | None = None
    queued_at: float | None = None
    started_at: float | None = None
    ended_at: float = 0.0
    busy: float = 0.0

    @property
    def duration(self) -> float:
        """Seconds from start to end; 0 for a task that never started."""
        return self.ended_at - self.started_at if self.started_at is not None else 0.0


class DispatchStats(msgspec.Struct, frozen=True):
    """Sums over all tasks. Durations (seconds in slots) are of completed and failed ones; `execution_time` is wall."""

    total: int
    waiting: int
    queued: int
    running: int
    completed: int
    failed: int
    cancelled: int
    min_duration: float
    average_duration: float
    max_duration: float
    total_task_duration: float
    execution_time: float

    @property
    def speedup(self) -> float:
        """Task seconds done per second of wall time."""
        return self.total_task_duration / self.execution_time if self.execution_time > 0 else 0.0


class Slot:
    """A running task's right to run. Hold it while working, release it while only waiting."""

    def __init__(self, dispatcher: Dispatcher[object], task_id: str) -> None:
        self._dispatcher = dispatcher
        self._task_id = task_id

    def release(self) -> None:
        """Let another task start. Does nothing when the slot is not held."""
        self._dispatcher._release(self._task_id)

    async def acquire(self) -> None:
        """Wait for a slot again; those who come back go before those who have not started."""
        await self._dispatcher._reacquire(self._task_id)


class _Entry(Generic[R]):
    __slots__ = (
        "after", "again", "busy", "came_back", "generation", "holds", "order", "outcome", "progress", "queued_at",
        "runner",
        "since", "started_at", "task", "waker",
    )  # fmt: skip

    def __init__(self, task: Task, order: int) -> None:
        self.task = task
        self.order = order
        self.after: set[str] = set()
        self.progress = Progress.WAITING
        self.generation = 0
        self.runner: asyncio.Task[R] | None = None
        self.waker: asyncio.Future[None] | None = None
        self.holds = False
        self.came_back = False
        self.again = False
        self.queued_at: float | None = None
        self.started_at: float | None = None
        self.since = 0.0
        self.busy = 0.0
        self.outcome: Outcome[R] | None = None


class Dispatcher(Generic[R]):
    """See the module's text. `type_limits` and `lane_limits` bound tasks of one type or lane among the running.

    `on_queued(task)` is called when a task has nothing left to wait for.
    """

    def __init__(
        self,
        work: Callable[[Task, Slot], Awaitable[R]],
        *,
        max_concurrency: int = 10,
        type_limits: Mapping[str, int] | None = None,
        lane_limits: Mapping[Lane, int] | None = None,
        on_queued: Callable[[Task], None] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        if max_concurrency < 1:
            raise ValueError(f"max_concurrency must be at least 1, not {max_concurrency}")
        self._work = work
        self._limit = max_concurrency
        self._type_limits = dict(type_limits or {})
        self._lane_limits = dict(lane_limits or {})
        self._on_queued = on_queued
        self._monotonic = monotonic
        self._entries: dict[str, _Entry[R]] = {}
        self._dependants: dict[str, list[_Entry[R]]] = {}
        self._ready: dict[tuple[str, Lane], list[tuple[bool, int, int, int, str]]] = {}
        self._holding = 0
        self._by_type: Counter[str] = Counter()
        self._by_lane: Counter[Lane] = Counter()
        self._progress: Counter[Progress] = Counter()
        self._paused = False
        self._draining = False
        self._changed = asyncio.Event()
        self._first_start: float | None = None
        self._last_end = 0.0

    # What to run

    def add(self, tasks: Iterable[Task], *, done: Collection[str] = ()) -> None:
        """Take tasks in; each starts when the tasks of its `after` have completed or are in `done`.

        An `after` that nobody knows keeps its task waiting. Raises ValueError for an id that is already known.
        """
        new = []
        for task in tasks:
            if task.id in self._entries:
                raise ValueError(f"task {task.id} is already dispatched")
            entry: _Entry[R] = _Entry(task, len(self._entries))
            self._entries[task.id] = entry
            self._progress[Progress.WAITING] += 1
            new.append(entry)
        for entry in new:
            for name in entry.task.after:
                if name not in done and not self._completed(name):
                    entry.after.add(name)
                    self._dependants.setdefault(name, []).append(entry)
            if not entry.after:
                self._queue(entry)
        self._pump()

    def _completed(self, task_id: str) -> bool:
        entry = self._entries.get(task_id)
        return entry is not None and entry.progress is Progress.COMPLETED

    def _queue(self, entry: _Entry[R]) -> None:
        self._set(entry, Progress.QUEUED)
        entry.queued_at = self._monotonic()
        self._push(entry)
        if self._on_queued is not None:
            self._on_queued(entry.task)

    def _push(self, entry: _Entry[R]) -> None:
        entry.generation += 1
        group = (entry.task.type, entry.task.lane)
        item = (not entry.came_back, -entry.task.priority, entry.order, entry.generation, entry.task.id)
        heapq.heappush(self._ready.setdefault(group, []), item)

    def _set(self, entry: _Entry[R], progress: Progress) -> None:
        self._progress[entry.progress] -= 1
        self._progress[progress] += 1
        entry.progress = progress
        self._changed.set()

    # Who runs

    def _pump(self) -> None:
        """Start the best of what is ready while there is room."""
        while self._holding < self._limit:
            entry = self._best()
            if entry is None:
                return
            self._hold(entry)
            if entry.waker is not None:
                if not entry.waker.done():
                    entry.waker.set_result(None)
            else:
                self._start(entry)

    def _best(self) -> _Entry[R] | None:
        best: tuple[bool, int, int, int, str] | None = None
        best_group: list[tuple[bool, int, int, int, str]] | None = None
        for (kind, lane), heap in self._ready.items():
            if self._by_type[kind] >= self._type_limits.get(kind, self._limit):
                continue
            if self._by_lane[lane] >= self._lane_limits.get(lane, self._limit):
                continue
            while heap and not self._is_current(heap[0]):
                heapq.heappop(heap)
            # Pausing and draining start nothing new, but what has begun may go on to its end; it stands first.
            waits = heap and (self._paused or self._draining) and self._entries[heap[0][-1]].waker is None
            if heap and not waits and (best is None or heap[0] < best):
                best, best_group = heap[0], heap
        if best is None or best_group is None:
            return None
        heapq.heappop(best_group)
        return self._entries[best[-1]]

    def _is_current(self, item: tuple[bool, int, int, int, str]) -> bool:
        entry = self._entries[item[-1]]
        wants = entry.progress is Progress.QUEUED or (entry.waker is not None and not entry.holds)
        return wants and entry.generation == item[3]

    def _hold(self, entry: _Entry[R]) -> None:
        entry.holds = True
        entry.since = self._monotonic()
        self._holding += 1
        self._by_type[entry.task.type] += 1
        self._by_lane[entry.task.lane] += 1

    def _let_go(self, entry: _Entry[R]) -> None:
        if entry.holds:
            entry.holds = False
            entry.busy += self._monotonic() - entry.since
            self._holding -= 1
            self._by_type[entry.task.type] -= 1
            self._by_lane[entry.task.lane] -= 1

    def _release(self, task_id: str) -> None:
        self._let_go(self._entries[task_id])
        self._changed.set()
        self._pump()

    async def _reacquire(self, task_id: str) -> None:
        entry = self._entries[task_id]
        if entry.holds:
            return
        entry.came_back = True
        entry.waker = asyncio.get_running_loop().create_future()
        self._push(entry)
        self._pump()
        try:
            await entry.waker
        finally:
            entry.waker = None

    def _start(self, entry: _Entry[R]) -> None:
        self._set(entry, Progress.RUNNING)
        now = self._monotonic()
        entry.started_at = now
        entry.busy = 0.0
        if self._first_start is None:
            self._first_start = now
        slot = Slot(self, entry.task.id)  # type: ignore[arg-type]
        entry.runner = asyncio.ensure_future(self._work(entry.task, slot))
        entry.runner.add_done_callback(lambda runner: self._end(entry, runner))

    def _end(self, entry: _Entry[R], runner: asyncio.Future[R]) -> None:
        self._let_go(entry)
        entry.runner = None
        if runner.cancelled():
            self._close(entry, Progress.CANCELLED)
        elif (error := runner.exception()) is not None:
            self._close(entry, Progress.FAILED, error=error)
        else:
            self._close(entry, Progress.COMPLETED, result=runner.result())
            for dependant in self._dependants.pop(entry.task.id, ()):
                dependant.after.discard(entry.task.id)
                if not dependant.after and dependant.progress is Progress.WAITING:
                    self._queue(dependant)
        self._pump()

    def _close(
        self,
        entry: _Entry[R],
        progress: Progress,
        result: R | None = None,
        error: BaseException | None = None,
    ) -> None:
        now = self._monotonic()
        self._last_end = now
        self._set(entry, progress)
        entry.outcome = Outcome(
            entry.task.id, progress, result, error, entry.queued_at, entry.started_at, now, entry.busy
        )
        if entry.again:
            self.retry(entry.task.id)

    # Commands

    def pause(self) -> None:
        """Start nothing until `resume`. What runs goes on."""
        self._paused = True

    def resume(self) -> None:
        """Start tasks again, after `pause` or `drain`."""
        self._paused = False
        self._draining = False
        self._pump()

    def drain(self) -> None:
        """Start no new task; `wait` returns when those that began have ended."""
        self._draining = True
        self._paused = False
        self._changed.set()
        self._pump()

    def set_concurrency(self, limit: int) -> None:
        """Change how many tasks may run. Raises ValueError below 1. Running tasks are never stopped by it."""
        if limit < 1:
            raise ValueError(f"max_concurrency must be at least 1, not {limit}")
        self._limit = limit
        self._pump()

    def set_lane(self, task_id: str, lane: Lane) -> None:
        """Move a task that has not started to another lane. Raises KeyError for an unknown task."""
        entry = self._entries[task_id]
        if entry.progress in (Progress.WAITING, Progress.QUEUED):
            entry.task = replace(entry.task, lane=lane)
            if entry.progress is Progress.QUEUED:
                self._push(entry)
                self._pump()

    def cancel(self, task_id: str) -> bool:
        """Cancel one task; gives False when it has already ended. A running one ends when its work has cleaned up."""
        entry = self._entries[task_id]
        if entry.progress in _ENDED:
            return False
        if entry.runner is not None:
            entry.runner.cancel()
        else:
            self._close(entry, Progress.CANCELLED)
        return True

    def cancel_running(self) -> int:
        """Cancel what runs, and leave the rest as it is; gives how many."""
        running = [entry for entry in self._entries.values() if entry.runner is not None]
        return sum(self.cancel(entry.task.id) for entry in running)

    def cancel_all(self) -> int:
        """Cancel all that has not ended; gives how many."""
        return sum(self.cancel(task_id) for task_id in tuple(self._entries))

    def retry(self, task_id: str) -> bool:
        """Dispatch a failed or cancelled task again; gives False for any other.

        One that is still running goes again when it has failed or was cancelled: its work may have told so already.
        """
        entry = self._entries[task_id]
        if entry.progress is Progress.RUNNING:
            entry.again = True
            return True
        entry.again = False
        if entry.progress not in (Progress.FAILED, Progress.CANCELLED):
            return False
        entry.outcome = None
        entry.came_back = False
        entry.after = {name for name in entry.after if not self._completed(name)}
        if entry.after:
            self._set(entry, Progress.WAITING)
        else:
            self._queue(entry)
        self._pump()
        return True

    # Questions

    async def wait(self) -> tuple[Outcome[R], ...]:
        """Wait until nothing runs and nothing more can start; gives the outcomes so far, in the order added."""
        while not self.idle:
            self._changed.clear()
            await self._changed.wait()
        return self.outcomes

    @property
    def idle(self) -> bool:
        """Whether nothing runs, and nothing is queued but what a drain keeps from starting."""
        queued = 0 if self._draining else self._progress[Progress.QUEUED]
        return self._progress[Progress.RUNNING] == 0 and queued == 0

    @property
    def holding(self) -> int:
        """How many running tasks hold a slot."""
        return self._holding

    @property
    def queued(self) -> int:
        """How many tasks are ready and wait for a slot."""
        return self._progress[Progress.QUEUED]

    @property
    def max_concurrency(self) -> int:
        """The limit in force."""
        return self._limit

    @property
    def mode(self) -> Literal["running", "paused", "draining"]:
        """Whether tasks start."""
        return "paused" if self._paused else "draining" if self._draining else "running"

    @property
    def outcomes(self) -> tuple[Outcome[R], ...]:
        """The outcomes of all ended tasks, cancelled and failed ones too, in the order added."""
        return tuple(entry.outcome for entry in self._entries.values() if entry.outcome is not None)

    def outcome(self, task_id: str) -> Outcome[R] | None:
        """The outcome of one task, or None while it has none. Raises KeyError for an unknown task."""
        return self._entries[task_id].outcome

    def progress(self, task_id: str) -> Progress:
        """Where one task stands. Raises KeyError for an unknown task."""
        return self._entries[task_id].progress

    def is_complete(self, task_id: str) -> bool:
        """Whether the task completed; failed and cancelled tasks did not."""
        return self._entries[task_id].progress is Progress.COMPLETED

    def are_all_complete(self) -> bool:
        """Whether every task completed."""
        return self._progress[Progress.COMPLETED] == len(self._entries)

    def stats(self) -> DispatchStats:
        """Counts and times over all tasks."""
        busy = [o.busy for o in self.outcomes if o.progress is not Progress.CANCELLED]
        running = self._progress[Progress.RUNNING] > 0
        end = self._monotonic() if running else self._last_end
        return DispatchStats(
            total=len(self._entries),
            waiting=self._progress[Progress.WAITING],
            queued=self._progress[Progress.QUEUED],
            running=self._progress[Progress.RUNNING],
            completed=self._progress[Progress.COMPLETED],
            failed=self._progress[Progress.FAILED],
            cancelled=self._progress[Progress.CANCELLED],
            min_duration=min(busy, default=0.0),
            average_duration=sum(busy) / len(busy) if busy else 0.0,
            max_duration=max(busy, default=0.0),
            total_task_duration=sum(busy),
            execution_time=end - self._first_start if self._first_start is not None else 0.0,
        )
