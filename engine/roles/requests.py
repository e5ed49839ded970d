"""Build each role's request from the prompt templates, laid out so that parallel tasks share a cached prefix.

Tools, the role's system prompt and the repository context are the same bytes for every task of a run and end in a cache
mark; the task, its lessons and its feedback follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from engine.activities import Attempt
from engine.llm.blocks import CacheTtl, Text, Tool, user
from engine.llm.messages import ModelRequest, Thinking
from engine.llm.schemas import json_schema
from engine.model import Lane, Plan, Role, Verdict
from engine.roles.answers import Edits
from engine.roles.tools import tool_definitions
from engine.settings import LLMSettings, RoleSettings, RolesSettings

MAX_DIFF = 60_000  # characters that the Judge sees

Render = Callable[..., str]


class SourceFile(msgspec.Struct, frozen=True):
    """A file as the economy prompt shows it; `text` is None when it does not exist yet."""

    path: str
    text: str | None


class Requests:
    """Makes requests; `context` is the repository part of the prompt, the same for the whole run.

    `folders` are those that are checked out for a task, if not all are.
    """

    def __init__(
        self,
        render: Render,
        roles: RolesSettings,
        llm: LLMSettings,
        context: str,
        folders: Sequence[str] = (),
    ) -> None:
        self._render = render
        self._roles = roles
        self._llm = llm
        self._context = context
        self._folders = folders

    def lane(self, attempt: Attempt) -> Lane:
        """Give the lane the task's calls travel in, under the `[llm] batch` setting."""
        if self._llm.batch == "always":
            return Lane.ECONOMY
        return Lane.FAST if self._llm.batch == "off" else attempt.task.lane

    def planner(self, attempt: Attempt, command: str | None) -> ModelRequest:
        """Ask for a `Plan`."""
        prompt = self._task_prompt("planner_task", Role.PLANNER, attempt, command)
        return self._request(Role.PLANNER, attempt, "planner_system", prompt, output=Plan)

    def implementer(self, attempt: Attempt, plan: Plan, command: str | None) -> ModelRequest:
        """Begin the tool loop."""
        prompt = self._task_prompt(
            "implementer_task", Role.IMPLEMENTER, attempt, command, **_work(attempt, plan)
        )
        request = self._request(
            Role.IMPLEMENTER, attempt, "implementer_system", prompt, tools=tool_definitions()
        )
        return msgspec.structs.replace(request, lane=Lane.FAST)

    def economy_implementer(
        self, attempt: Attempt, plan: Plan, command: str | None, files: Sequence[SourceFile]
    ) -> ModelRequest:
        """Ask for all `Edits` at once."""
        prompt = self._task_prompt(
            "implementer_economy_task",
            Role.IMPLEMENTER,
            attempt,
            command,
            files=files,
            **_work(attempt, plan),
        )
        return self._request(Role.IMPLEMENTER, attempt, "implementer_economy_system", prompt, output=Edits)

    def judge(self, attempt: Attempt, plan: Plan, command: str, diff: str) -> ModelRequest:
        """Ask for a `Verdict` over a verified diff."""
        prompt = self._task_prompt(
            "judge_task",
            Role.JUDGE,
            attempt,
            command,
            plan=plan,
            diff=diff[:MAX_DIFF],
            omitted=max(0, len(diff) - MAX_DIFF),
        )
        return self._request(Role.JUDGE, attempt, "judge_system", prompt, output=Verdict)

    def agent_prompt(
        self,
        role: Role,
        attempt: Attempt,
        plan: Plan,
        command: str | None,
        diff: str = "",
        complaint: str = "",
    ) -> str:
        """Give the whole prompt for an agent command: one text on its stdin. `complaint` is about its last answer."""
        if role is Role.IMPLEMENTER:
            return self._task_prompt(
                "agent_task", role, attempt, command, folders=self._folders, **_work(attempt, plan)
            )
        request = (
            self.planner(attempt, command)
            if role is Role.PLANNER
            else self.judge(attempt, plan, command or "", diff)
        )
        texts = [*request.system, *request.messages[0].content]
        schema = f"Answer with JSON of this schema:\n{request.output_schema}"
        prompt = [*(block.text for block in texts if isinstance(block, Text)), schema]
        return "\n\n".join([*prompt, complaint] if complaint else prompt)

    def _task_prompt(
        self, template: str, role: Role, attempt: Attempt, command: str | None, **more: Any
    ) -> str:
        prompt = self._render(
            template, role=str(role), task=attempt.task, attempt=attempt.number, command=command or "", **more
        )
        # The words of git and of tools can hold what is no text, and no request can.
        return prompt.encode("utf-8", "replace").decode()

    def _request(
        self,
        role: Role,
        attempt: Attempt,
        system: str,
        prompt: str,
        *,
        tools: tuple[Tool, ...] = (),
        output: type | None = None,
    ) -> ModelRequest:
        settings = role_settings(self._roles, role)
        ttl: CacheTtl = "1h" if self.lane(attempt) is Lane.ECONOMY else "5m"
        return ModelRequest(
            role=role,
            model=settings.model,
            system=(Text(self._render(system)), Text(self._context, cache=ttl)),
            messages=(user(Text(prompt)),),
            tools=tools,
            max_tokens=settings.max_tokens or self._llm.max_tokens,
            thinking=_thinking(settings.thinking),
            output_schema=json_schema(output) if output is not None else None,
            lane=self.lane(attempt),
            task_id=attempt.task.id,
            attempt=attempt.number,
        )


def offered() -> Mapping[str, str]:
    """Give the schema of everything a model may call or answer with, by name: a changed one asks for other work."""
    schemas = {tool.name: f"{tool.description}\n{tool.schema}" for tool in tool_definitions()}
    return schemas | {kind.__name__: json_schema(kind) for kind in (Plan, Edits, Verdict)}


def role_settings(roles: RolesSettings, role: Role) -> RoleSettings:
    """Give the settings of one role."""
    return {Role.PLANNER: roles.planner, Role.IMPLEMENTER: roles.implementer, Role.JUDGE: roles.judge}[role]


def _work(attempt: Attempt, plan: Plan) -> dict[str, Any]:
    return {"plan": plan, "lessons": attempt.lessons, "feedback": attempt.feedback}


def _thinking(setting: str | int) -> Thinking | None:
    if setting == "off":
        return None
    return Thinking(setting if isinstance(setting, int) else None)
