"""The Judge's verdict on a committed change, by a model or an agent command."""

from __future__ import annotations

from engine import events as ev
from engine.activities import Attempt
from engine.errors import StageFailedError
from engine.git.changes import diff_of
from engine.local.agents import Agents
from engine.local.asking import Asking
from engine.local.attempts import Attempts
from engine.local.context import RunContext
from engine.model import Change, Lane, Plan, Role, Stage, Verdict, Verification
from engine.roles.requests import Requests


class Judging:
    """The Judge's side of an attempt."""

    def __init__(
        self, context: RunContext, attempts: Attempts, asking: Asking, agents: Agents, requests: Requests
    ) -> None:
        self._context = context
        self._attempts = attempts
        self._asking = asking
        self._agents = agents
        self._requests = requests

    async def judge(
        self, attempt: Attempt, plan: Plan, change: Change, verification: Verification
    ) -> Verdict | None:
        """See `Activities.judge`."""
        context = self._context
        kind = context.settings.roles.judge.kind
        if kind == "none":
            return None
        diff = await diff_of(context.repository, change.base, change.commit)
        if kind == "command":
            verdict = await self._agents.answer(Role.JUDGE, Stage.JUDGE, attempt, plan, Verdict, diff)
        else:
            request = self._requests.judge(attempt, plan, verification.command, diff)
            if request.lane is Lane.ECONOMY:
                # Thousands may wait for one batch; what is judged is the commit.
                await self._attempts.put_away(attempt)
            verdict = (await self._asking.ask(attempt, Stage.JUDGE, request)).decode(Verdict)
        context.bus.emit(
            ev.Judged(at=context.now(), task=attempt.task.id, attempt=attempt.number, verdict=verdict)
        )
        if not verdict.approved:
            findings = "\n".join(f"- {finding}" for finding in verdict.findings)
            raise StageFailedError(
                f"refused: {verdict.reason}",
                failure_type="verdict_refused",
                feedback=f"The Judge refused the change: {verdict.reason}\n{findings}".strip(),
            )
        return verdict
