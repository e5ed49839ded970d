"""The activities as the pipeline and the run's work ask for them, each done by the room whose idea it is."""

from __future__ import annotations

from engine.activities import Attempt, Recalled
from engine.calls import ModelCalls
from engine.dispatch import Slot
from engine.errors import StageFailedError
from engine.events import Event
from engine.git.worktrees import Worktrees
from engine.landing import SentBack
from engine.llm.budget import Budget
from engine.local.agents import Agents
from engine.local.asking import Asking
from engine.local.attempts import Attempts
from engine.local.checking import Checking
from engine.local.committing import Committing
from engine.local.context import RunContext
from engine.local.endings import Endings
from engine.local.guarding import Guarding
from engine.local.judging import Judging
from engine.local.making import Making
from engine.local.recalling import Recalling
from engine.model import Change, Plan, Stage, Task, Verdict, Verification
from engine.outcomes import Outcomes
from engine.roles.requests import Requests
from engine.store.cache import ResultCache
from engine.task_view import TaskView
from engine.teaching import Teaching


class LocalActivities:
    """See `engine.activities.Activities`. One object serves all tasks of a run."""

    def __init__(
        self,
        context: RunContext,
        *,
        worktrees: Worktrees,
        calls: ModelCalls,
        budget: Budget,
        cache: ResultCache,
        teaching: Teaching,
        outcomes: Outcomes,
        requests: Requests,
    ) -> None:
        self._context = context
        guarding = Guarding(context)
        self._attempts = Attempts(context, worktrees, teaching)
        self._asking = Asking(context, calls)
        self._checking = Checking(context, guarding, cache)
        agents = Agents(context, self._attempts, guarding, requests, budget)
        committing = Committing(context, worktrees, self._attempts)
        self._making = Making(
            context, self._attempts, committing, self._checking, self._asking, agents, requests
        )
        self._judging = Judging(context, self._attempts, self._asking, agents, requests)
        self._recalling = Recalling(context, self._attempts, committing, outcomes)
        self._endings = Endings(context, worktrees, self._attempts, teaching, self._recalling)

    # What the pipeline asks for

    def now(self) -> float:
        return self._context.now()

    def emit(self, event: Event) -> None:
        self._context.bus.emit(event)

    async def commit(self, event: Event) -> None:
        await self._context.bus.commit(event)

    def log(self, attempt: Attempt, stage: Stage) -> str:
        path = self._context.logs.path(attempt, stage)
        return str(path) if path.exists() else ""

    async def begin(self, task: Task, number: int, feedback: str) -> Attempt:
        self._recalling.begin(task.id)
        return await self._attempts.begin(task, number, feedback)

    async def reopen(self, attempt: Attempt, change: Change | None) -> None:
        await self._attempts.reopen(attempt, change)

    async def recall(self, task: Task) -> Recalled | None:
        return self._recalling.recall(task)

    async def apply(self, attempt: Attempt, recalled: Recalled) -> Change:
        return await self._recalling.apply(attempt, recalled)

    async def plan(self, attempt: Attempt) -> Plan:
        return await self._making.plan(attempt)

    async def brief(self, attempt: Attempt, plan: Plan) -> Attempt:
        return await self._attempts.brief(attempt, plan)

    async def implement(self, attempt: Attempt, plan: Plan) -> Change:
        return await self._making.implement(attempt, plan)

    async def verify(self, attempt: Attempt, change: Change) -> Verification:
        return await self._checking.verify(attempt)

    async def judge(
        self, attempt: Attempt, plan: Plan, change: Change, verification: Verification
    ) -> Verdict | None:
        return await self._judging.judge(attempt, plan, change, verification)

    async def learn(self, attempt: Attempt, plan: Plan, stage: Stage, failure: StageFailedError) -> None:
        await self._endings.failed(attempt, plan, stage, failure)

    async def ready(self, attempt: Attempt, change: Change) -> None:
        await self._endings.ready(attempt, change)

    # What the run's work asks for around it

    def lend(self, task_id: str, slot: Slot) -> None:
        """Let the task's slot be given back while it waits for a batch."""
        self._asking.lend(task_id, slot)

    def hand_over(self, task_id: str, work: Recalled) -> None:
        """Let the task's first attempt go on from what another orchestrator made of it, verified and judged."""
        self._recalling.hand_over(task_id, work)

    async def recallable(self, view: TaskView, change: Change) -> Recalled:
        """Give the task's change in a form that another run can apply."""
        return await self._recalling.recallable(view, change)

    async def learn_from_return(self, view: TaskView, answer: SentBack) -> None:
        """Keep a send-back from the train as a lesson."""
        await self._endings.sent_back(view, answer)

    async def landed(self, view: TaskView, change: Change) -> None:
        """After landing: resolve what was learned, remember the outcome, and give the worktree back."""
        await self._endings.landed(view, change)

    async def tidy(self, view: TaskView) -> None:
        """Do what a crash after a landing left to do; costs nothing where nothing is left."""
        await self._endings.tidy(view)

    async def superseded(self, task_id: str) -> None:
        """After another has landed the task: what was made of it here stays kept, and its worktree goes."""
        await self._endings.superseded(task_id)

    async def give_back(self, task_id: str) -> None:
        """After the run: the worktree of a failed task goes where it holds nothing."""
        await self._endings.give_back(task_id)
