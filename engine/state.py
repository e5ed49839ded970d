"""The state of a run as one pure reducer over its events.

`RunState.apply(event)` has no clock and no I/O, and its memory is bounded by the number of tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from engine import events as ev
from engine.model import TaskState
from engine.reducing import board, calls, run, tasks, trains
from engine.reducing.facts import Facts
from engine.snapshot import Snapshot
from engine.task_view import TaskView

MAX_DETAILED = 500  # ended tasks that keep their details over a cycle

_HANDLERS: dict[type[ev.Event], Callable[[Facts, Any], None]] = {
    **run.HANDLERS,
    **board.HANDLERS,
    **tasks.HANDLERS,
    **calls.HANDLERS,
    **trains.HANDLERS,
}
_NO_DETAILS: dict[str, Any] = {
    "plan": None, "change": None, "verification": None, "verdict": None, "lessons": (), "feedback": "", "worktree": "",
    "spans": (), "calls": (), "ended_badly": (),
}  # fmt: skip


class RunState(Facts):
    """The reducer. `RunState()` is a run nobody started; `RunState(snapshot)` goes on from a compact state."""

    def __init__(self, start: Snapshot | None = None) -> None:
        super().__init__(start or Snapshot())

    def apply(self, event: ev.Event) -> None:
        """Take one event in. An event about a task nobody knows changes nothing."""
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event)
        self.at = max(self.at, event.at)

    def apply_all(self, events: Iterable[ev.Event]) -> RunState:
        """Take events in, in order; gives itself back."""
        for event in events:
            self.apply(event)
        return self

    def snapshot(self) -> Snapshot:
        """The state now, as one immutable value."""
        return Snapshot(
            run=self.run,
            at=self.at,
            tasks=tuple(self.tasks.values()),
            counts={state: self.counts[state] for state in TaskState if self.counts[state]},
            totals=self.totals,
            spend=tuple(self.spend.values()),
            stage_times=tuple(self.stage_times.values()),
            landings=self.landings,
            samples=self.samples,
            trains=tuple(self.trains.values()),
            batches=tuple(self.batches.values()),
            open_batches=tuple(self.open_batches.values()),
            lesson_notes=self.lesson_notes,
            notices=self.notices,
            notice_count=self.notice_count,
            offer=self.offer,
            removed=self.removed,
            refused=self.refused,
            **self.gauges,
        )

    def begin_cycle(self) -> Snapshot:
        """Count the cycle that the journal now begins, and give the compact state that opens it.

        Of ended tasks only the newest keep their details: the older events are in the archive, where a replay finds
        them, and neither the journal nor the memory may grow with all that ever ended.
        """
        self.run = replace(self.run, cycle=self.run.cycle + 1)
        ended = sorted((v for v in self.tasks.values() if v.state.ended), key=lambda v: v.ended or 0.0)
        for view in ended[:-MAX_DETAILED]:
            self.change(view.id, **_NO_DETAILS)
        return self.snapshot()

    def view(self, task_id: str) -> TaskView:
        """The view of one task. Raises KeyError when the board has no such task."""
        return self.tasks[task_id]

    def find(self, task_id: str) -> TaskView | None:
        """The view of one task, or None when the board has no such task."""
        return self.tasks.get(task_id)

    def count(self, state: TaskState) -> int:
        """How many tasks are in the state."""
        return self.counts[state]
