"""One task from its row to a commit that may land: plan, implement, verify, judge, and again with what went wrong.

`run_task` is a plain async function without I/O: what it does, it does through `Activities`. Done means a non-empty
change, a verification that passed, and the Judge's yes; never less.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from engine import events as ev
from engine.activities import Activities, Attempt, Recalled
from engine.errors import (
    AuthenticationError,
    HaltedError,
    LLMError,
    ServiceError,
    StageFailedError,
    TaskyardError,
)
from engine.model import Change, Plan, Stage, Task, Verdict, Verification
from engine.task_view import TaskView

T = TypeVar("T")


class Start(msgspec.Struct, frozen=True):
    """Where to begin: `Start()` for a fresh task, `Start.from_view` for one that was sent back or interrupted.

    `attempt` is the number of the next attempt. `begun` is an attempt that was interrupted: it goes on over the same
    base with the same words, so that every answer it has already got is found in the cache.
    """

    attempt: int = 1
    failures: int = 0
    feedback: str = ""
    plan: Plan | None = None
    begun: Attempt | None = None
    change: Change | None = None

    @classmethod
    def from_view(cls, view: TaskView) -> Start:
        """Give the start of a task whose past is known."""
        if view.attempt == 0 or view.over:
            return cls(view.attempt + 1, view.failures, view.feedback, view.plan)
        begun = Attempt(
            view.task, view.attempt, view.branch, view.base, view.worktree, view.lessons, view.feedback
        )
        return cls(view.attempt, view.failures, view.feedback, view.plan, begun, view.change)


class Ready(msgspec.Struct, frozen=True):
    """A task's work, verified and judged, as the train takes it."""

    task: Task
    attempt: int
    branch: str
    change: Change


# Unauthorized, payment required, forbidden, a model or endpoint that is not there, and a limit on what is spent.
_NO_TASKS_FAULT = frozenset({401, 402, 403, 404, 429})


class GivenUpError(TaskyardError):
    """The last allowed attempt failed too, or no attempt can succeed."""


class _OutageError(TaskyardError):
    """The service gave no answer; the attempt has done nothing wrong."""


async def run_task(
    task: Task, activities: Activities, *, start: Start | None = None, max_attempts: int = 3
) -> Ready:
    """Work on the task until its change may land.

    An attempt that the service left without an answer goes on with the same words; any other failure makes a new
    attempt with what it taught. Raises GivenUpError after `max_attempts` failures, or at once for a request that no
    further attempt can mend; HaltedError where no task could go on (a refused key, a service that is gone);
    BudgetReachedError before a call that the budget does not allow.
    """
    at = start or Start()
    failures, plan = at.failures, at.plan
    number, feedback, begun, change = at.attempt, at.feedback, at.begun, at.change
    recalled = await activities.recall(task) if number == 1 else None
    if recalled is not None:
        change = None  # The interrupted attempt had this very patch; it is applied anew.
    while True:
        attempt = begun if begun is not None else await activities.begin(task, number, feedback)
        if begun is not None:
            await activities.reopen(begun, change)
        run = _Attempt(attempt, activities)
        try:
            if recalled is not None:
                again = await run.again(recalled)
                recalled = None
                if again is None:
                    number, begun = number + 1, None
                    continue
                change = again
            else:
                if plan is None:
                    plan = await run.plan()
                    attempt = await run.brief(plan)
                change = await run.work(plan, change)
        except _OutageError as outage:
            failures += 1
            if failures >= max_attempts:
                raise HaltedError(outage.message, outage.hint or "run again when it is back") from outage
            # With the same words, so that the answers it already has are found in the cache.
            number, begun, change = attempt.number, attempt, run.change
            continue
        except StageFailedError as failure:
            failures += 1
            await run.fail(plan or Plan(), failure)
            if failures >= max_attempts:
                raise GivenUpError(_given_up(number, failures, failure), failure.hint) from failure
            number, feedback, begun, change = number + 1, failure.feedback, None, None
            continue
        await activities.ready(attempt, change)
        return Ready(task, attempt.number, attempt.branch, change)


def _given_up(number: int, failures: int, failure: StageFailedError) -> str:
    if number > failures:  # Some attempts failed for no fault of the task, or were applied from the cache.
        return f"{failure.message} (failure {failures} of {failures} allowed, attempt {number} in all)"
    return failure.message if failures == 1 else f"{failure.message} (attempt {failures} of {failures})"


class _Attempt:
    """The stages of one attempt, each between its two events."""

    def __init__(self, attempt: Attempt, activities: Activities) -> None:
        self._attempt = attempt
        self._do = activities
        self._stage = Stage.PLAN
        self.change: Change | None = None

    async def plan(self) -> Plan:
        plan = await self._run(Stage.PLAN, lambda: self._do.plan(self._attempt), _steps)
        self._do.emit(
            ev.PlanMade(
                at=self._do.now(), task=self._attempt.task.id, attempt=self._attempt.number, plan=plan
            )
        )
        return plan

    async def brief(self, plan: Plan) -> Attempt:
        """Choose lessons again, now that the plan tells what the task is about."""
        self._attempt = await self._do.brief(self._attempt, plan)
        return self._attempt

    async def work(self, plan: Plan, change: Change | None) -> Change:
        """Implement (unless an interrupted attempt already has), verify and judge."""
        attempt, do = self._attempt, self._do
        self.change = change
        if change is None:
            change = await self._run(Stage.IMPLEMENT, lambda: do.implement(attempt, plan), _size)
            await self._changed(change)
        made = change
        verification = await self._verify(made)
        await self._run(Stage.JUDGE, lambda: self._judge(plan, made, verification), _verdict)
        return made

    async def again(self, recalled: Recalled) -> Change | None:
        """Apply what an earlier run made of the same task over the same tree; None when it does not fit here."""
        attempt, do = self._attempt, self._do
        self._do.emit(
            ev.PlanMade(at=do.now(), task=attempt.task.id, attempt=attempt.number, plan=recalled.plan)
        )
        try:
            change = await self._run(
                Stage.IMPLEMENT, lambda: do.apply(attempt, recalled), lambda c: f"{_size(c)}, from the cache"
            )
            await self._changed(change)
            await self._verify(change)
        except StageFailedError:
            return None
        if recalled.verdict is not None:
            self._do.emit(
                ev.Judged(at=do.now(), task=attempt.task.id, attempt=attempt.number, verdict=recalled.verdict)
            )
        return change

    async def _changed(self, change: Change) -> None:
        self.change = change
        task, number = self._attempt.task.id, self._attempt.number
        await self._do.commit(ev.ChangeCommitted(at=self._do.now(), task=task, attempt=number, change=change))

    async def _verify(self, change: Change) -> Verification:
        return await self._run(
            Stage.VERIFY,
            lambda: self._do.verify(self._attempt, change),
            lambda v: f"passed in {v.duration:.1f} s",
        )

    async def _judge(self, plan: Plan, change: Change, verification: Verification) -> Verdict | None:
        return await self._do.judge(self._attempt, plan, change, verification)

    async def _run(self, stage: Stage, work: Callable[[], Awaitable[T]], note: Callable[[T], str]) -> T:
        task, number, do = self._attempt.task.id, self._attempt.number, self._do
        self._stage = stage
        do.emit(ev.StageStarted(at=do.now(), task=task, attempt=number, stage=stage))
        try:
            result = await work()
        except LLMError as error:
            self._finish(False, str(error))
            if not error.retryable:
                if isinstance(error, AuthenticationError) or error.status in _NO_TASKS_FAULT:
                    raise HaltedError(error.message, error.hint or "mend that, and run again") from error
                raise GivenUpError(error.message, error.hint) from error
            if not isinstance(error, ServiceError) or error.status >= 500:
                raise _OutageError(error.message, error.hint) from error
            raise StageFailedError(error.message, error.hint, failure_type="model_failed") from error
        except TaskyardError as error:
            self._finish(False, error.message)
            raise
        except BaseException as error:
            self._finish(
                False,
                "interrupted" if not isinstance(error, Exception) else f"{type(error).__name__}: {error}",
            )
            raise
        self._finish(True, note(result))
        return result

    def _finish(self, ok: bool, note: str) -> None:
        task, number, do = self._attempt.task.id, self._attempt.number, self._do
        do.emit(
            ev.StageFinished(
                at=do.now(),
                task=task,
                attempt=number,
                stage=self._stage,
                ok=ok,
                note=note[:300],
                log=do.log(self._attempt, self._stage),
            )
        )

    async def fail(self, plan: Plan, failure: StageFailedError) -> None:
        """Tell the failure, and keep it as a lesson."""
        await self._do.learn(self._attempt, plan, self._stage, failure)
        await self._do.commit(
            ev.AttemptFailed(
                at=self._do.now(),
                task=self._attempt.task.id,
                attempt=self._attempt.number,
                stage=self._stage,
                reason=failure.message,
                feedback=failure.feedback,
            )
        )


def _steps(plan: Plan) -> str:
    """How many steps were planned; nothing where nobody did."""
    count = len(plan.steps)
    return f"{count} step{'s' if count != 1 else ''}" if count else ""


def _size(change: Change) -> str:
    return f"{change.files} file{'s' if change.files != 1 else ''}, +{change.added} −{change.removed}"


def _verdict(verdict: Verdict | None) -> str:
    return "not judged: no Judge is set" if verdict is None else verdict.reason[:200] or "approved"
