"""When a train should leave early: as soon as waiting longer can bring nothing, or keeps others from starting."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from engine.bus import Bus
from engine.course import Course
from engine.landing import Urgency
from engine.model import Task, TaskState


class Departures:
    """Says of a run's verified work how soon it should leave. `expect` names the tasks that may wait for others."""

    def __init__(self, bus: Bus, course: Course) -> None:
        self._bus = bus
        self._course = course
        self._dependants: dict[str, list[str]] = {}

    def expect(self, tasks: Iterable[Task]) -> None:
        """Note who waits for whom, in the place of what was noted before."""
        self._dependants = {}
        for task in tasks:
            for name in task.after:
                self._dependants.setdefault(name, []).append(task.id)

    def urgency(self, queued: Collection[str], aboard: Collection[str]) -> Urgency:
        """How soon a train should leave: now when nothing else runs, soon when a task waits for nothing but `queued`.

        `aboard` are the queued and those who are on their way.
        """
        state = self._bus.state
        starting = state.count(TaskState.QUEUED) if self._course.starting else 0
        if state.count(TaskState.RUNNING) == 0 and starting == 0:
            # After a resume all that was verified before comes at once, and leaves together.
            return Urgency.NONE if self._more_come_at_once(aboard) else Urgency.NOW

        def comes(name: str) -> bool:
            return name in queued or state.view(name).state is TaskState.LANDED

        needed = any(
            all(comes(name) for name in state.view(dependant).task.after)
            for name in queued
            for dependant in self._dependants.get(name, ())
            if state.view(dependant).state is TaskState.WAITING
        )
        return Urgency.SOON if needed else Urgency.NONE

    def _more_come_at_once(self, aboard: Collection[str]) -> bool:
        """Whether verified work is on its way to the queue, or has just landed (and hurries the train then)."""
        if self._bus.state.count(TaskState.TO_LAND) <= len(aboard):
            return False
        return any(
            view.state is TaskState.TO_LAND and view.id not in aboard and self._course.brings(view.id)
            for view in self._bus.state.snapshot().tasks
        )
