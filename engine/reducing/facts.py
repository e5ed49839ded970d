"""What the reducer works on: the run's state as plain attributes, and the small steps that all handlers share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from msgspec.structs import replace

from engine.model import BoardStatus, Task, TaskState
from engine.snapshot import Notice, Snapshot
from engine.task_view import TaskView

_V = TypeVar("_V")

MAX_NOTICES = 200  # the newest
GAUGES = ("results", "templates", "lessons", "history", "limiters", "queues", "peers")


class Facts:
    """The state in the making. Only the handlers change it; readers take a `Snapshot`."""

    def __init__(self, start: Snapshot) -> None:
        self.load(start)

    def load(self, start: Snapshot) -> None:
        """Go on from a compact state."""
        self.run = start.run
        self.at = start.at
        self.tasks = {view.task.id: view for view in start.tasks}
        self.counts = Counter(view.state for view in start.tasks)
        self.totals = start.totals
        self.spend = {(line.role, line.model): line for line in start.spend}
        self.stage_times = {time.stage: time for time in start.stage_times}
        self.landings = start.landings
        self.samples = start.samples
        self.trains = {train.number: train for train in start.trains}
        self.batches = {batch.id: batch for batch in start.batches}
        # What a restart needs to find every batch again: by token, the newest that was told of it.
        self.open_batches = {batch.token: batch for batch in start.open_batches}
        self.gauges = {name: getattr(start, name) for name in GAUGES}
        self.lesson_notes = start.lesson_notes
        self.notices = start.notices
        self.notice_count = start.notice_count
        self.offer = start.offer
        self.removed = start.removed
        self.refused = start.refused

    def change(self, task_id: str, **fields: Any) -> TaskView | None:
        """Replace fields of a task's view, and keep count; an unknown task or an equal value changes nothing."""
        old = self.tasks.get(task_id)
        if old is None or all(getattr(old, name) == value for name, value in fields.items()):
            return old
        new = replace(old, **fields)
        self.tasks[task_id] = new
        self.removed += new.removed - old.removed
        if new.state is not old.state:
            self.counts[old.state] -= 1
            self.counts[new.state] += 1
        return new

    def add(self, **amounts: Any) -> None:
        """Raise sums of the run."""
        values = {name: getattr(self.totals, name) + amount for name, amount in amounts.items()}
        self.totals = replace(self.totals, **values)

    def add_tasks(self, tasks: Iterable[Task]) -> None:
        """Take rows in that nobody knows yet."""
        for task in tasks:
            if task.id not in self.tasks:
                state = TaskState.LANDED if task.status is BoardStatus.LANDED else TaskState.WAITING
                self.tasks[task.id] = TaskView(task=task, state=state)
                self.counts[state] += 1

    def notice(self, at: float, level: str, text: str, task: str = "") -> None:
        """Keep a line for a person; the oldest go."""
        self.notice_count += 1
        notice = Notice(self.notice_count, at, level, text, task, self.run.elapsed(at))
        self.notices = (*self.notices, notice)[-MAX_NOTICES:]


def bound(items: dict[Any, _V], limit: int, may_go: Callable[[_V], bool]) -> None:
    """Forget the oldest items over the limit, but none that is still in motion."""
    for key in list(items):
        if len(items) <= limit:
            return
        if may_go(items[key]):
            del items[key]
