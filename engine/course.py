"""Whether a run goes on: what its tasks and its orchestrator both have to know of its end."""

from __future__ import annotations

import asyncio

from engine.dispatch import Dispatcher, Progress
from engine.errors import HaltedError


class Course:
    """The course of one run. `stopping`: somebody asked for that; `failure`: it cannot go on.

    `cancels_batches`: what is on its way at the model service when it stops is not left to the next run.
    """

    def __init__(self) -> None:
        self.stopping = asyncio.Event()
        self.failure: BaseException | None = None
        self.budget_reached = False
        self.cancels_batches = False
        self.dispatcher: Dispatcher[None] | None = None

    @property
    def ends(self) -> bool:
        """Whether what is cancelled now is to be taken up by the next run."""
        return self.stopping.is_set() or self.failure is not None

    @property
    def halted(self) -> bool:
        """Whether no task could go on, for a reason that a person can mend."""
        return isinstance(self.failure, HaltedError)

    @property
    def starting(self) -> bool:
        """Whether tasks are started when they are ready."""
        return self.dispatcher is not None and self.dispatcher.mode == "running"

    def brings(self, task_id: str) -> bool:
        """Whether the task is at work, or will be by itself. Raises KeyError for an unknown task."""
        if self.dispatcher is None:
            return False
        progress = self.dispatcher.progress(task_id)
        return progress is Progress.RUNNING or (progress is Progress.QUEUED and self.starting)

    def fail(self, error: BaseException) -> None:
        """Stop all work because of an error that is nobody's task's; the first one counts."""
        if self.failure is None:
            self.failure = error
            if self.dispatcher is not None:
                self.dispatcher.drain()
                self.dispatcher.cancel_running()

    def go_on(self) -> None:
        """Start tasks again after the run had finished, whatever had kept them from starting."""
        self.budget_reached = False
        if self.dispatcher is not None:
            self.dispatcher.resume()

    def reach_budget(self) -> None:
        """Start no more tasks: the run's budget allows none."""
        if not self.budget_reached:
            self.budget_reached = True
            if self.dispatcher is not None:
                self.dispatcher.drain()
