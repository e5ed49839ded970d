"""The books of a dispatcher: where each task stands, how those that ended did, and the sums over all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Generic

from engine.dispatch.entry import Entry
from engine.dispatch.progress import DispatchStats, Outcome, Progress, R
from engine.model import Task


class Ledger(Generic[R]):
    """The entries of all tasks, in the order added. Times are `monotonic` seconds."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry[R]] = {}
        self._counts: Counter[Progress] = Counter()
        self._first_start: float | None = None
        self._last_end = 0.0

    def __contains__(self, task_id: str) -> bool:
        """Whether the task was added."""
        return task_id in self._entries

    def __getitem__(self, task_id: str) -> Entry[R]:
        """The entry of a task. Raises KeyError for an unknown one."""
        return self._entries[task_id]

    def __iter__(self) -> Iterator[Entry[R]]:
        """All entries, in the order added; tasks may be added meanwhile."""
        return iter(tuple(self._entries.values()))

    def add(self, task: Task) -> Entry[R]:
        """Take a task in. Raises ValueError for an id that is already known."""
        if task.id in self._entries:
            raise ValueError(f"task {task.id} is already dispatched")
        entry: Entry[R] = Entry(task, len(self._entries))
        self._entries[task.id] = entry
        self._counts[Progress.WAITING] += 1
        return entry

    def move(self, entry: Entry[R], progress: Progress) -> None:
        """Note where a task stands now."""
        self._counts[entry.progress] -= 1
        self._counts[progress] += 1
        entry.progress = progress

    def begin(self, entry: Entry[R], now: float) -> None:
        """Note that a task is being worked on."""
        self.move(entry, Progress.RUNNING)
        entry.started_at = now
        entry.busy = 0.0
        if self._first_start is None:
            self._first_start = now

    def end(
        self,
        entry: Entry[R],
        progress: Progress,
        now: float,
        *,
        result: R | None = None,
        error: BaseException | None = None,
    ) -> None:
        """Note how a task ended."""
        self._last_end = now
        self.move(entry, progress)
        entry.outcome = Outcome(
            entry.task.id, progress, result, error, entry.queued_at, entry.started_at, now, entry.busy
        )

    def count(self, progress: Progress) -> int:
        """How many tasks stand there."""
        return self._counts[progress]

    def completed(self, task_id: str) -> bool:
        """Whether the task is known and has completed."""
        entry = self._entries.get(task_id)
        return entry is not None and entry.progress is Progress.COMPLETED

    @property
    def all_completed(self) -> bool:
        """Whether every task has."""
        return self._counts[Progress.COMPLETED] == len(self._entries)

    @property
    def outcomes(self) -> tuple[Outcome[R], ...]:
        """The outcomes of all ended tasks, cancelled and failed ones too, in the order added."""
        return tuple(entry.outcome for entry in self._entries.values() if entry.outcome is not None)

    def stats(self, now: float) -> DispatchStats:
        """Counts and times over all tasks."""
        busy = [o.busy for o in self.outcomes if o.progress is not Progress.CANCELLED]
        end = now if self._counts[Progress.RUNNING] else self._last_end
        return DispatchStats(
            total=len(self._entries),
            waiting=self._counts[Progress.WAITING],
            queued=self._counts[Progress.QUEUED],
            running=self._counts[Progress.RUNNING],
            completed=self._counts[Progress.COMPLETED],
            failed=self._counts[Progress.FAILED],
            cancelled=self._counts[Progress.CANCELLED],
            min_duration=min(busy, default=0.0),
            average_duration=sum(busy) / len(busy) if busy else 0.0,
            max_duration=max(busy, default=0.0),
            total_task_duration=sum(busy),
            execution_time=end - self._first_start if self._first_start is not None else 0.0,
        )
