"""The Implementer as a model: a tool loop over a worktree, or one answer of edits in the economy lane."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from engine.errors import StageFailedError
from engine.llm.blocks import Message, Text, ToolResult
from engine.llm.messages import ModelAnswer, ModelRequest
from engine.roles.answers import Edits
from engine.roles.tools import Tools
from engine.roles.workspace import RefusedError, Workspace

Ask = Callable[[ModelRequest], Awaitable[ModelAnswer]]
MAX_TURNS = 80  # of one tool loop: a model that goes in circles must end


async def run_tool_loop(ask: Ask, request: ModelRequest, tools: Callable[[ModelRequest], Tools]) -> str:
    """Let the model work until it answers without a tool; gives that answer's text.

    `tools(request)` gives the tools for one turn: what the check answers is remembered by the conversation that asked.
    Raises StageFailedError when an answer is cut off, or the model does not come to an end.
    """
    for _ in range(MAX_TURNS):
        answer = await ask(_marked(request))
        if answer.stop_reason == "max_tokens":
            raise StageFailedError(
                "the Implementer's answer was cut off at max_tokens",
                "raise roles.implementer.max_tokens",
                failure_type="answer_cut_off",
            )
        if answer.stop_reason == "model_context_window_exceeded":
            raise StageFailedError(
                "the task filled the model's whole context window",
                "split the task",
                failure_type="context_full",
                feedback="The last attempt filled the whole context window. Read less, and search instead.",
            )
        if answer.stop_reason == "refusal":
            raise StageFailedError("the model refused the task", failure_type="refusal", feedback=answer.text)
        if not answer.tool_uses:
            return answer.text.strip()
        hands = tools(request)
        results = [await hands.use(use) for use in answer.tool_uses]
        request = replace(
            request, messages=(*request.messages, answer.message, Message("user", tuple(results)))
        )
    raise StageFailedError(
        f"the Implementer did not finish within {MAX_TURNS} turns",
        "split the task",
        failure_type="too_many_turns",
    )


def _marked(request: ModelRequest) -> ModelRequest:
    """Keep the conversation so far in the prompt cache: the next turn repeats all of it."""
    last = request.messages[-1]
    block = last.content[-1]
    if not isinstance(block, Text | ToolResult):
        return request
    content = (*last.content[:-1], replace(block, cache="5m"))
    return replace(request, messages=(*request.messages[:-1], Message(last.role, content)))


def apply_edits(edits: Edits, workspace: Workspace) -> str:
    """Apply the economy lane's answer; gives its summary.

    Raises StageFailedError, naming every edit that does not fit, when any of them does not.
    """
    wrong = []
    for number, edit in enumerate(edits.edits, start=1):
        try:
            if edit.old:
                workspace.edit(edit.path, edit.old, edit.new)
            else:
                workspace.write(edit.path, edit.new)
        except RefusedError as error:
            wrong.append(f"edit {number}: {error}")
    if wrong:
        raise StageFailedError(
            f"{len(wrong)} of {len(edits.edits)} edits do not fit",
            failure_type="edit_does_not_fit",
            feedback="These edits could not be applied:\n" + "\n".join(wrong),
        )
    return edits.summary.strip()
