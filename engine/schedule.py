"""What is dispatched: the open tasks of a run in their order, also when rows come in, change or go meanwhile."""

from __future__ import annotations

from engine.bus import Bus
from engine.departures import Departures
from engine.dispatch import Dispatcher, Progress
from engine.model import TaskState
from engine.outcomes import Outcomes, order
from engine.rows import BoardChange, EditKind


class Schedule:
    """Keeps the dispatcher in step with the state of the run: first the state changes, then call one of these."""

    def __init__(
        self, bus: Bus, dispatcher: Dispatcher[None], departures: Departures, outcomes: Outcomes
    ) -> None:
        self._bus = bus
        self._dispatcher = dispatcher
        self._departures = departures
        self._outcomes = outcomes

    def dispatch(self) -> None:
        """Dispatch what is open and is not dispatched yet; what has not begun waits for what its row names now."""
        views = self._bus.state.snapshot().tasks
        self._outcomes.know(view.task for view in views)
        open_ = [view.task for view in views if not view.state.ended]
        done = self._landed()
        needs = {
            task.id: recalled.built_on
            for task in open_
            if not self.runs(task.id) and (recalled := self._outcomes.recall(task)) is not None
        }
        self._departures.expect(open_)
        new = []
        for task in order(open_, needs):
            if task.id in self._dispatcher:
                self._dispatcher.revise(task, done=done)
            else:
                new.append(task)
        self._dispatcher.add(new, done=done)

    def take(self, change: BoardChange) -> None:
        """Follow edits of the board that the state has taken in."""
        for edit in change.edits:
            name = edit.row.id
            if name in self._dispatcher and self._bus.state.view(name).put_off is None:
                if edit.kind in (EditKind.REMOVED, EditKind.GIVEN_UP):
                    self._dispatcher.cancel(name)
                elif edit.kind is EditKind.LANDED:
                    self._dispatcher.skip(name)
                elif edit.kind is EditKind.RETRIED:
                    self.retry(name)
        self.dispatch()

    def retry(self, task_id: str) -> bool:
        """Dispatch a task again that the state has reopened or keeps for a train; gives whether it goes again."""
        if task_id not in self._dispatcher:  # It ended before this process took the run up.
            self.dispatch()
            return True
        self._dispatcher.revise(self._bus.state.view(task_id).task, done=self._landed())
        return self._dispatcher.retry(task_id)

    def _landed(self) -> set[str]:
        return {view.id for view in self._bus.state.snapshot().tasks if view.state is TaskState.LANDED}

    def runs(self, task_id: str) -> bool:
        """Whether the task has begun and not ended."""
        return task_id in self._dispatcher and self._dispatcher.progress(task_id) is Progress.RUNNING
