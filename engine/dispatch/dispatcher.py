"""The dispatcher: each task starts when what it waits for is done and a slot is free, and is followed to its end.

All methods belong to the event loop's thread. Times are `monotonic` seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Generic, Literal

from msgspec.structs import replace

from engine.dispatch.entry import Entry
from engine.dispatch.ledger import Ledger
from engine.dispatch.progress import ENDED, DispatchStats, Outcome, Progress, R
from engine.dispatch.slots import Slot, Slots
from engine.dispatch.waits import Waits
from engine.model import Lane, Task


class Dispatcher(Generic[R]):
    """See the package's text. `type_limits` and `lane_limits` bound tasks of one type or lane among the running.

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
        self._slots = Slots(max_concurrency, type_limits=type_limits or {}, lane_limits=lane_limits or {})
        self._on_queued = on_queued
        self._monotonic = monotonic
        self._ledger: Ledger[R] = Ledger()
        self._waits = Waits()
        self._paused = False
        self._draining = False
        self._changed = asyncio.Event()

    # What to run

    def add(self, tasks: Iterable[Task], *, done: Collection[str] = ()) -> None:
        """Take tasks in; each starts when the tasks of its `after` have completed or are in `done`.

        An `after` that nobody knows keeps its task waiting. Raises ValueError for an id that is already known.
        """
        for entry in [self._ledger.add(task) for task in tasks]:
            self._waits.put(entry.task.id, self._awaited(entry.task, done))
            self._wait_or_queue(entry)
        self._pump()

    def revise(self, task: Task, *, done: Collection[str] = ()) -> bool:
        """Let a task go by another row; gives False for one that runs or has completed, which keeps its own.

        One that has not begun waits for what its row names and is not done now. Raises KeyError for an unknown task.
        """
        entry = self._ledger[task.id]
        completed = entry.progress is Progress.COMPLETED and not entry.skipped
        if entry.progress is Progress.RUNNING or completed:
            return False
        awaited = self._awaited(task, done)
        if entry.task == task and awaited == self._waits.of(task.id):
            return True
        entry.task = task
        self._waits.put(task.id, awaited)
        if entry.progress not in ENDED:
            self._slots.leave(task.id)
            self._wait_or_queue(entry)
            self._pump()
        return True

    def _wait_or_queue(self, entry: Entry[R]) -> None:
        if not self._waits.of(entry.task.id):
            self._queue(entry)
        elif entry.progress is not Progress.WAITING:
            self._set(entry, Progress.WAITING)

    def _awaited(self, task: Task, done: Collection[str]) -> set[str]:
        return {name for name in task.after if name not in done and not self._ledger.completed(name)}

    def _queue(self, entry: Entry[R]) -> None:
        self._set(entry, Progress.QUEUED)
        entry.queued_at = self._monotonic()
        self._slots.queue(entry.task, entry.order)
        if self._on_queued is not None:
            self._on_queued(entry.task)

    def _set(self, entry: Entry[R], progress: Progress) -> None:
        self._ledger.move(entry, progress)
        self._changed.set()

    # Who runs

    def _pump(self) -> None:
        """Start the best of what is ready while there is room."""
        # Pausing and draining start nothing new, but what has begun may go on to its end.
        while (task_id := self._slots.take(new=self.mode == "running")) is not None:
            entry = self._ledger[task_id]
            entry.holds = True
            entry.since = self._monotonic()
            if entry.waker is None:
                self._start(entry)
            elif not entry.waker.done():
                entry.waker.set_result(None)

    def _let_go(self, entry: Entry[R]) -> None:
        if entry.holds:
            entry.holds = False
            entry.busy += self._monotonic() - entry.since
            self._slots.give_back(entry.task)

    def _release(self, entry: Entry[R]) -> None:
        self._let_go(entry)
        self._changed.set()
        self._pump()

    async def _reacquire(self, entry: Entry[R]) -> None:
        if entry.holds:
            return
        entry.waker = asyncio.get_running_loop().create_future()
        self._slots.queue(entry.task, entry.order, new=False)
        self._pump()
        try:
            await entry.waker
        finally:
            self._slots.leave(entry.task.id)
            entry.waker = None

    def _start(self, entry: Entry[R]) -> None:
        self._ledger.begin(entry, self._monotonic())
        self._changed.set()
        slot = Slot(partial(self._release, entry), partial(self._reacquire, entry))
        entry.runner = asyncio.ensure_future(self._work(entry.task, slot))
        entry.runner.add_done_callback(lambda runner: self._end(entry, runner))

    def _end(self, entry: Entry[R], runner: asyncio.Future[R]) -> None:
        self._let_go(entry)
        entry.runner = None
        if entry.skipped and (runner.cancelled() or runner.exception() is not None):
            self._complete(entry)
        elif runner.cancelled():
            self._close(entry, Progress.CANCELLED)
        elif (error := runner.exception()) is not None:
            self._close(entry, Progress.FAILED, error=error)
        else:
            self._complete(entry, runner.result())
        self._pump()

    def _complete(self, entry: Entry[R], result: R | None = None) -> None:
        self._close(entry, Progress.COMPLETED, result=result)
        for task_id in self._waits.over(entry.task.id):
            freed = self._ledger[task_id]
            if freed.progress is Progress.WAITING:
                self._queue(freed)

    def _close(
        self,
        entry: Entry[R],
        progress: Progress,
        result: R | None = None,
        error: BaseException | None = None,
    ) -> None:
        self._ledger.end(entry, progress, self._monotonic(), result=result, error=error)
        self._changed.set()
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
        self._slots.limit = limit
        self._pump()

    def set_lane(self, task_id: str, lane: Lane) -> None:
        """Move a task that has not started to another lane. Raises KeyError for an unknown task."""
        entry = self._ledger[task_id]
        if entry.progress in (Progress.WAITING, Progress.QUEUED):
            entry.task = replace(entry.task, lane=lane)
            if entry.progress is Progress.QUEUED:
                self._slots.queue(entry.task, entry.order)
                self._pump()

    def cancel(self, task_id: str) -> bool:
        """Cancel one task; gives False when it has already ended. A running one ends when its work has cleaned up."""
        entry = self._ledger[task_id]
        if entry.progress in ENDED:
            return False
        if entry.runner is not None:
            # Behind its first step: work that never began could not tell anybody of its end.
            asyncio.get_running_loop().call_soon(entry.runner.cancel)
        else:
            self._slots.leave(task_id)
            self._close(entry, Progress.CANCELLED)
        return True

    def skip(self, task_id: str) -> None:
        """Count a task as completed, for somebody else has done it; what it is running is cancelled first."""
        entry = self._ledger[task_id]
        if entry.progress is Progress.COMPLETED:
            return
        entry.skipped = True
        entry.again = False
        if entry.runner is not None:
            entry.runner.cancel()
        else:
            self._slots.leave(task_id)
            self._complete(entry)
            self._pump()

    def cancel_running(self) -> int:
        """Cancel what runs, and leave the rest as it is; gives how many."""
        running = [entry for entry in self._ledger if entry.runner is not None]
        return sum(self.cancel(entry.task.id) for entry in running)

    def cancel_all(self) -> int:
        """Cancel all that has not ended; gives how many."""
        return sum(self.cancel(entry.task.id) for entry in self._ledger)

    def retry(self, task_id: str) -> bool:
        """Dispatch a failed, cancelled or skipped task again; gives False for any other.

        One that is still running goes again when it has failed or was cancelled: its work may have told so already.
        """
        entry = self._ledger[task_id]
        if entry.progress is Progress.RUNNING:
            entry.again = True
            return True
        entry.again = False
        if entry.progress not in ENDED or (entry.progress is Progress.COMPLETED and not entry.skipped):
            return False
        entry.skipped = False
        entry.outcome = None
        self._wait_or_queue(entry)
        self._pump()
        return True

    # Questions

    def __contains__(self, task_id: str) -> bool:
        """Whether the task was added."""
        return task_id in self._ledger

    async def wait(self) -> tuple[Outcome[R], ...]:
        """Wait until nothing runs and nothing more can start; gives the outcomes so far, in the order added."""
        while not self.idle:
            self._changed.clear()
            await self._changed.wait()
        return self.outcomes

    @property
    def idle(self) -> bool:
        """Whether nothing runs, and nothing is queued but what a drain keeps from starting."""
        queued = 0 if self._draining else self._ledger.count(Progress.QUEUED)
        return self._ledger.count(Progress.RUNNING) == 0 and queued == 0

    @property
    def holding(self) -> int:
        """How many running tasks hold a slot."""
        return self._slots.taken

    @property
    def queued(self) -> int:
        """How many tasks are ready and wait for a slot."""
        return self._ledger.count(Progress.QUEUED)

    @property
    def max_concurrency(self) -> int:
        """The limit in force."""
        return self._slots.limit

    @property
    def mode(self) -> Literal["running", "paused", "draining"]:
        """Whether tasks start."""
        return "paused" if self._paused else "draining" if self._draining else "running"

    @property
    def outcomes(self) -> tuple[Outcome[R], ...]:
        """The outcomes of all ended tasks, cancelled and failed ones too, in the order added."""
        return self._ledger.outcomes

    def outcome(self, task_id: str) -> Outcome[R] | None:
        """The outcome of one task, or None while it has none. Raises KeyError for an unknown task."""
        return self._ledger[task_id].outcome

    def progress(self, task_id: str) -> Progress:
        """Where one task stands. Raises KeyError for an unknown task."""
        return self._ledger[task_id].progress

    def is_complete(self, task_id: str) -> bool:
        """Whether the task completed; failed and cancelled tasks did not."""
        return self._ledger[task_id].progress is Progress.COMPLETED

    def are_all_complete(self) -> bool:
        """Whether every task completed."""
        return self._ledger.all_completed

    def stats(self) -> DispatchStats:
        """Counts and times over all tasks."""
        return self._ledger.stats(self._monotonic())
