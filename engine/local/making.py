"""From a task to a committed change: what the Planner and the Implementer do, as a model or as an agent command."""

from __future__ import annotations

import itertools

from engine.activities import Attempt
from engine.llm.messages import ModelRequest
from engine.local.agents import Agents
from engine.local.asking import Asking
from engine.local.attempts import Attempts
from engine.local.checking import Checking
from engine.local.committing import Committing, first_line
from engine.local.context import RunContext
from engine.model import Change, Lane, Plan, Role, Stage
from engine.roles.answers import Edits
from engine.roles.implementer import apply_edits, run_tool_loop
from engine.roles.requests import Requests
from engine.roles.sources import read_sources
from engine.roles.tools import Tools
from engine.roles.workspace import Workspace


class Making:
    """The Planner's and the Implementer's side of an attempt."""

    def __init__(
        self,
        context: RunContext,
        attempts: Attempts,
        committing: Committing,
        checking: Checking,
        asking: Asking,
        agents: Agents,
        requests: Requests,
    ) -> None:
        self._context = context
        self._attempts = attempts
        self._committing = committing
        self._checking = checking
        self._asking = asking
        self._agents = agents
        self._requests = requests

    async def plan(self, attempt: Attempt) -> Plan:
        """See `Activities.plan`."""
        kind = self._context.settings.roles.planner.kind
        if kind == "none":
            return Plan(type=attempt.task.type)
        if kind == "command":
            return await self._agents.answer(Role.PLANNER, Stage.PLAN, attempt, Plan(), Plan)
        request = self._requests.planner(attempt, self._context.command(attempt.task))
        return (await self._asking.ask(attempt, Stage.PLAN, request)).decode(Plan)

    async def implement(self, attempt: Attempt, plan: Plan) -> Change:
        """See `Activities.implement`."""
        if self._context.settings.roles.implementer.kind == "command":
            said = await self._agents.run(Role.IMPLEMENTER, Stage.IMPLEMENT, attempt, plan)
            # Whatever an agent says first is no title; nor does it say where this machine keeps its worktrees.
            words = said.summary.replace(f"{attempt.worktree}/", "").replace(attempt.worktree, "the worktree")
            title = first_line(attempt.task.scope)
            return await self._committing.commit(attempt, words, title=title, complaint=said.complaint)
        if self._requests.lane(attempt) is Lane.ECONOMY:
            summary = await self._by_edits(attempt, plan)
        else:
            summary = await self._by_tools(attempt, plan)
        return await self._committing.commit(attempt, summary)

    async def _by_edits(self, attempt: Attempt, plan: Plan) -> str:
        """One request with the files that the plan names, one answer with all edits; gives the model's summary."""
        files = await read_sources(self._context.repository, attempt.base, plan.files)
        command = self._context.command(attempt.task)
        request = self._requests.economy_implementer(attempt, plan, command, files)
        edits = (await self._asking.ask(attempt, Stage.IMPLEMENT, request)).decode(Edits)
        await self._attempts.worktree(attempt)
        workspace = self._attempts.workspace(attempt)
        await workspace.bring(*(edit.path for edit in edits.edits))
        return apply_edits(edits, workspace)

    async def _by_tools(self, attempt: Attempt, plan: Plan) -> str:
        """A conversation in which the model reads, edits and checks; gives its summary."""
        await self._attempts.worktree(attempt)
        workspace = self._attempts.workspace(attempt)
        return await run_tool_loop(
            lambda asked: self._asking.ask(attempt, Stage.IMPLEMENT, asked),
            self._requests.implementer(attempt, plan, self._context.command(attempt.task)),
            lambda asked: self._tools(attempt, workspace, asked),
        )

    def _tools(self, attempt: Attempt, workspace: Workspace, request: ModelRequest) -> Tools:
        numbers = itertools.count(1)

        async def check() -> str:
            return await self._checking.for_model(attempt, request, next(numbers))

        def tell(text: str) -> None:
            self._context.logs.write(attempt, Stage.IMPLEMENT, f"\n▸ {text}\n")
            self._context.logs.progress(attempt, text)

        return Tools(workspace, check, tell)
