"""The attempts being worked on: each with its lessons, and with its worktree from when its files are needed."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from engine import events as ev
from engine.activities import Attempt
from engine.git.worktrees import Worktree, Worktrees
from engine.local.context import RunContext
from engine.model import Change, Plan, Stage, Task
from engine.roles.workspace import Workspace
from engine.teaching import Teaching

INTERRUPTED = "interrupted here, and taken up again"
"""What the logs of an attempt say where it was interrupted."""


class Attempts:
    """Begins attempts, and opens and shuts their worktrees."""

    def __init__(self, context: RunContext, worktrees: Worktrees, teaching: Teaching) -> None:
        self._context = context
        self._worktrees = worktrees
        self._teaching = teaching
        self._open: dict[str, Worktree] = {}

    async def begin(self, task: Task, number: int, feedback: str) -> Attempt:
        """See `Activities.begin`."""
        context = self._context
        view = context.bus.state.view(task.id)
        task = view.task  # its lane may have been changed since
        lessons = await self._teaching.choose(task, view.plan or Plan())
        base = context.landing.tip()
        self._open.pop(task.id, None)
        path = self._worktrees.path_of(task.id)
        attempt = Attempt(
            task, number, self._worktrees.branch_of(task.id), base, str(path), lessons, feedback
        )
        # On disk before anything is paid for: an attempt taken up over another base would find none of its answers.
        await context.bus.commit(
            ev.AttemptStarted(
                at=context.now(),
                task=task.id,
                attempt=number,
                branch=attempt.branch,
                base=base,
                worktree=attempt.worktree,
                logs=str(context.logs.folder(attempt)),
                lessons=lessons,
            )
        )
        return attempt

    async def reopen(self, attempt: Attempt, change: Change | None) -> None:
        """See `Activities.reopen`."""
        self._open.pop(attempt.task.id, None)
        again = [Stage.VERIFY, Stage.JUDGE] if change is not None else list(Stage)
        if self._context.bus.state.view(attempt.task.id).plan is not None and Stage.PLAN in again:
            again.remove(Stage.PLAN)
        for stage in again:  # Their logs go on where they broke off.
            self._context.logs.mark(attempt, stage, INTERRUPTED)
        if change is not None:
            made = await self._worktrees.create(attempt.task.id, change.commit)
            self._open[attempt.task.id] = replace(made, base=attempt.base)

    async def brief(self, attempt: Attempt, plan: Plan) -> Attempt:
        """See `Activities.brief`."""
        lessons = await self._teaching.choose(attempt.task, plan)
        if lessons == attempt.lessons:
            return attempt
        # On disk before they are in a request: taken up with other lessons, the attempt would pay for it again.
        await self._context.bus.commit(
            ev.LessonsGiven(
                at=self._context.now(), task=attempt.task.id, attempt=attempt.number, lessons=lessons
            )
        )
        return replace(attempt, lessons=lessons)

    async def worktree(self, attempt: Attempt) -> Worktree:
        """Give the attempt's worktree, made when something needs its files: many tasks may only be waiting."""
        made = self._open.get(attempt.task.id)
        if made is None:
            made = self._open[attempt.task.id] = await self._worktrees.create(attempt.task.id, attempt.base)
        return made

    def workspace(self, attempt: Attempt) -> Workspace:
        """The files of the attempt's worktree, as a model may use them."""
        context = self._context
        return Workspace(
            Path(attempt.worktree), context.repository, context.board, context.settings.git.sparse
        )

    async def put_away(self, attempt: Attempt) -> None:
        """Remove the worktree of an attempt whose commit is all that is needed for now, if nothing else is in it."""
        made = self._open.get(attempt.task.id)
        if made is not None and await self._worktrees.put_away(made):
            del self._open[attempt.task.id]

    def forget(self, task_id: str) -> None:
        """Let go of the worktree, which somebody else removes."""
        self._open.pop(task_id, None)
