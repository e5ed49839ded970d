"""The way from a stage to an agent command: at work in the attempt's worktree, its prompt kept, its bill booked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TypeVar

import msgspec

from engine import events as ev
from engine.activities import Attempt
from engine.errors import BudgetReachedError, HaltedError, StageFailedError, TaskyardError
from engine.llm.budget import Budget
from engine.local.attempts import Attempts
from engine.local.context import RunContext
from engine.local.guarding import Guarding
from engine.model import AnswerSource, Plan, Role, Stage
from engine.roles.agent_output import AgentReader
from engine.roles.command import AgentReport, run_agent
from engine.roles.json_answers import BAD_ANSWER, read_json
from engine.roles.requests import Requests, role_settings

T = TypeVar("T", bound=msgspec.Struct)

MOST_ASKED = 3
"""Times that a Planner or Judge is asked in one attempt until its answer can be read."""


class Agents:
    """Runs the agent commands of the settings."""

    def __init__(
        self,
        context: RunContext,
        attempts: Attempts,
        guarding: Guarding,
        requests: Requests,
        budget: Budget,
    ) -> None:
        self._context = context
        self._attempts = attempts
        self._guarding = guarding
        self._requests = requests
        self._budget = budget
        self._untold: set[str] = set()
        self._answered: set[Role] = set()

    async def answer(
        self, role: Role, stage: Stage, attempt: Attempt, plan: Plan, kind: type[T], diff: str = ""
    ) -> T:
        """Give the JSON that the Planner's or the Judge's command answers with.

        One that answers with something else, or runs out of time, is asked again, and told what was wrong: the work is
        not at fault. Raises HaltedError where the command has never answered as asked in this run, StageFailedError
        where it has.
        """
        who = role.capitalize()
        complaint = why = problem = ""
        for again in range(MOST_ASKED):
            if again:
                self._context.logs.mark(attempt, stage, f"asked again: {why}")
                self._context.logs.progress(attempt, f"the {who} is asked again")
            try:
                said = await self.run(role, stage, attempt, plan, diff, complaint)
            except StageFailedError as error:
                why = problem = error.message
                continue
            try:
                answer = read_json(said.text, kind, who)
            except StageFailedError as error:
                problem = f"{error.message} ({said.complaint})" if said.complaint else error.message
                why, complaint = "the answer could not be used", error.feedback
                continue
            self._answered.add(role)
            return answer
        if not self._has_answered(role):
            raise HaltedError(problem, f"mend the command of [roles.{role}] or its limits, and run again")
        raise StageFailedError(
            problem,
            failure_type=BAD_ANSWER,
            feedback=f"Nothing is known to be wrong with the work: the {who} gave no answer that could be used.",
        )

    def _has_answered(self, role: Role) -> bool:
        """Whether it has answered as asked in this run, be it before the run was interrupted and taken up."""
        views = self._context.bus.state.snapshot().tasks
        earlier = (view.plan if role is Role.PLANNER else view.verdict for view in views)
        return role in self._answered or any(answer is not None for answer in earlier)

    async def run(
        self,
        role: Role,
        stage: Stage,
        attempt: Attempt,
        plan: Plan,
        diff: str = "",
        complaint: str = "",
    ) -> AgentReport:
        """Run the role's command to its end. Raises StageFailedError (see `run_agent`) or BudgetReachedError."""
        context, task_id = self._context, attempt.task.id
        self._require_budget(task_id)
        settings = role_settings(context.settings.roles, role)
        await self._attempts.worktree(attempt)
        await self._attempts.workspace(attempt).bring(*plan.files)
        prompt = self._requests.agent_prompt(
            role, attempt, plan, context.command(attempt.task), diff, complaint
        )
        asked = await self._asked(role, attempt, Path(settings.command[0]).name, prompt)
        reader = AgentReader(lambda line: context.logs.progress(attempt, line))
        try:
            async with self._guarding.stashes(task_id), self._guarding.repository(attempt):
                said = await run_agent(
                    settings.command,
                    prompt,
                    cwd=Path(attempt.worktree),
                    env=context.child_environment(settings.env),
                    log=context.logs.path(attempt, stage),
                    max_log=context.settings.run.max_log,
                    timeout=settings.timeout,
                    idle_timeout=settings.idle_timeout,
                    reader=reader,
                )
        except BaseException as error:
            self._broke_off(asked, reader, error)
            raise
        if said.usd is None:
            self._tell_unlimited(asked.model)
        if said.usage.total or said.usd is not None:
            await self._billed(asked, said)
        else:
            self._ended(asked, said.complaint)
        return said

    def _tell_unlimited(self, program: str) -> None:
        """Say once that a budget does not hold for a program that reports no cost."""
        if self._budget.limited and program not in self._untold:
            self._untold.add(program)
            self._context.bus.notice(
                "warning", f"{program} reports no cost: [budget] cannot hold what it spends"
            )

    async def _asked(self, role: Role, attempt: Attempt, name: str, prompt: str) -> ev.AgentAsked:
        """Tell that the agent is asked, its prompt on disk by then."""
        context, call = self._context, self._context.new_id()
        data = prompt.encode("utf-8", "replace")
        record = await asyncio.to_thread(context.logs.keep, attempt, f"{call}.prompt", data)
        asked = ev.AgentAsked(
            at=context.now(),
            call=call,
            task=attempt.task.id,
            attempt=attempt.number,
            role=role,
            model=name,
            record=record,
        )
        context.bus.emit(asked)
        return asked

    def _ended(self, asked: ev.AgentAsked, problem: str) -> None:
        context = self._context
        context.bus.emit(ev.AgentEnded(at=context.now(), call=asked.call, task=asked.task, error=problem))

    def _broke_off(self, asked: ev.AgentAsked, reader: AgentReader, error: BaseException) -> None:
        """Tell of a turn that overran a limit or was cancelled; what it has told of its use by then was spent."""
        problem = error.message if isinstance(error, TaskyardError) else "interrupted"
        if not reader.usage.total and reader.usd is None:
            if isinstance(error, TaskyardError):
                self._ended(asked, problem)
            return
        self._budget.book(asked.task, reader.usd or 0.0)
        self._context.bus.emit(
            ev.CallFailed(
                at=self._context.now(),
                call=asked.call,
                task=asked.task,
                role=asked.role,
                model=asked.model,
                error=problem,
                usage=reader.usage,
                usd=reader.usd,
            )
        )

    async def _billed(self, asked: ev.AgentAsked, said: AgentReport) -> None:
        now = self._context.now()
        self._budget.book(asked.task, said.usd or 0.0)
        await self._context.bus.commit(
            ev.CallAnswered(
                at=now,
                call=asked.call,
                task=asked.task,
                attempt=asked.attempt,
                role=asked.role,
                model=asked.model,
                source=AnswerSource.CALL,
                usage=said.usage,
                usd=said.usd,
                duration=max(0.0, now - asked.at),
                record=asked.record,
            )
        )

    def _require_budget(self, task_id: str) -> None:
        """Begin no turn once the budget is used up: what a turn costs is known only when it has ended."""
        try:
            self._budget.require_some_left(task_id)
        except BudgetReachedError as error:
            self._context.bus.emit(
                ev.BudgetReached(
                    at=self._context.now(),
                    scope=error.scope,
                    task=task_id,
                    limit_usd=error.limit_usd,
                    spent_usd=error.spent_usd,
                    next_usd=error.next_usd,
                )
            )
            raise
