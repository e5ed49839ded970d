"""Work made before, by an earlier run or another orchestrator: looked up, applied here, and kept for others."""

from __future__ import annotations

from pathlib import Path

from msgspec import UNSET

from engine import events as ev
from engine.activities import Attempt, Recalled
from engine.errors import StageFailedError
from engine.git.changes import patch_of
from engine.local.attempts import Attempts
from engine.local.committing import Committing
from engine.local.context import RunContext
from engine.model import AnswerSource, Change, Plan, Role, Task
from engine.outcomes import Outcomes, built_on
from engine.roles.requests import role_settings
from engine.task_view import TaskView


class Recalling:
    """Turns landed changes into patches for others, and theirs into changes here."""

    def __init__(
        self, context: RunContext, attempts: Attempts, committing: Committing, outcomes: Outcomes
    ) -> None:
        self._context = context
        self._attempts = attempts
        self._committing = committing
        self._outcomes = outcomes
        self._handed_over: dict[str, Recalled] = {}
        self._applied: set[str] = set()

    def hand_over(self, task_id: str, work: Recalled) -> None:
        """Let the task's first attempt go on from what another orchestrator made of it, verified and judged."""
        self._handed_over[task_id] = work

    def recall(self, task: Task) -> Recalled | None:
        """See `Activities.recall`."""
        return self._handed_over.pop(task.id, None) or self._outcomes.recall(task)

    def begin(self, task_id: str) -> None:
        """Hear that an attempt begins, which so far owes nothing to earlier work."""
        self._applied.discard(task_id)

    async def apply(self, attempt: Attempt, recalled: Recalled) -> Change:
        """See `Activities.apply`."""
        context = self._context
        await self._attempts.worktree(attempt)
        result = await context.repository.run(
            "apply",
            "--3way",
            "--index",
            "--whitespace=nowarn",
            "-",
            cwd=Path(attempt.worktree),
            check=False,
            input=recalled.patch,
        )
        if result.status != 0:
            await context.repository.run("reset", "--hard", "-q", cwd=Path(attempt.worktree), check=False)
            raise StageFailedError("the cached change does not apply here", failure_type="stale_cache")
        change = await self._committing.commit(attempt, recalled.said, title=recalled.summary)
        self._applied.add(attempt.task.id)
        await context.bus.commit(
            ev.CallAnswered(
                at=context.now(),
                call=context.new_id(),
                task=attempt.task.id,
                attempt=attempt.number,
                role=Role.IMPLEMENTER,
                model=recalled.model,
                source=AnswerSource.CACHE,
                usage=recalled.usage,
                usd=recalled.usd,
                usd_saved=recalled.usd,
            )
        )
        return change

    async def recallable(self, view: TaskView, change: Change) -> Recalled:
        """Give the task's change in a form that another run can apply."""
        landed = {task: paths for task, paths in self._context.landing.paths().items() if task != view.id}
        return Recalled(
            patch=await patch_of(self._context.repository, change.base, change.commit),
            plan=view.plan or Plan(),
            verdict=view.verdict,
            summary=change.summary,
            said="" if change.said is UNSET else change.said,
            built_on=built_on(change.paths, landed),
            usage=view.usage,
            usd=view.usd,
            model=role_settings(self._context.settings.roles, Role.IMPLEMENTER).model,
        )

    async def remember(self, view: TaskView, change: Change) -> None:
        """Keep a landed change for later runs, unless it came from an earlier one itself."""
        if view.id not in self._applied:
            self._outcomes.remember(view.task, await self.recallable(view, change))
