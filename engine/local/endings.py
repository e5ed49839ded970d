"""What follows an attempt and a task: lessons kept and resolved, the commit queued, the worktree given back."""

from __future__ import annotations

import contextlib

from engine import events as ev
from engine.activities import Attempt
from engine.errors import GitError, StageFailedError
from engine.git.worktrees import Worktrees
from engine.landing import SentBack
from engine.local.attempts import Attempts
from engine.local.context import RunContext
from engine.local.recalling import Recalling
from engine.model import Change, Plan, Stage
from engine.task_view import TaskView
from engine.teaching import Teaching


class Endings:
    """Draws the conclusions. Of a task that is another orchestrator's by now nothing is learned (LockLostError)."""

    def __init__(
        self,
        context: RunContext,
        worktrees: Worktrees,
        attempts: Attempts,
        teaching: Teaching,
        recalling: Recalling,
    ) -> None:
        self._context = context
        self._landing = context.landing
        self._worktrees = worktrees
        self._attempts = attempts
        self._teaching = teaching
        self._recalling = recalling

    async def failed(self, attempt: Attempt, plan: Plan, stage: Stage, failure: StageFailedError) -> None:
        """See `Activities.learn`."""
        await self._landing.confirm(attempt.task.id)
        await self._teaching.learn(attempt.task, plan, stage, failure)

    async def ready(self, attempt: Attempt, change: Change) -> None:
        """See `Activities.ready`."""
        await self._landing.queue(attempt.task.id, change.commit)
        command = self._context.command(attempt.task)
        if command is not None:
            await self._landing.known_green(change.commit, command)
        # The ref in the queue is what counts; should this event be lost, the attempt is only verified once more.
        self._context.bus.emit(
            ev.TaskReadyToLand(
                at=self._context.now(), task=attempt.task.id, attempt=attempt.number, commit=change.commit
            )
        )

    async def sent_back(self, view: TaskView, answer: SentBack) -> None:
        """Keep a send-back from the train as a lesson."""
        await self._landing.confirm(view.id)
        await self._teaching.learn_from_return(view, answer)

    async def landed(self, view: TaskView, change: Change) -> None:
        """Resolve what was learned, remember the outcome, and give the worktree back."""
        await self._teaching.resolve(view, change)
        await self._recalling.remember(view, change)
        self._attempts.forget(view.id)
        await self._worktrees.release(view.id, landed_in=self._landing.tip())

    async def tidy(self, view: TaskView) -> None:
        """Do what a crash after a landing left to do; costs nothing where nothing is left."""
        if view.learned and view.change is not None:
            await self.landed(view, view.change)
        else:
            await self._worktrees.release(view.id, landed_in=self._landing.tip())

    async def superseded(self, task_id: str) -> None:
        """Another has landed the task: what was made of it here stays kept, and its worktree goes."""
        self._attempts.forget(task_id)
        await self._worktrees.supersede(task_id)

    async def give_back(self, task_id: str) -> None:
        """After the run: remove the worktree of a failed task where it holds nothing."""
        with contextlib.suppress(GitError):
            await self._worktrees.give_back(task_id, landed_in=self._landing.tip())
