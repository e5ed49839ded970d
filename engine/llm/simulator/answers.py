"""What the simulated model says to one request, as content blocks. A pure function of request and scenario."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from engine.llm.simulator.scenario import Answer, Edit, Plan, ToolCall, Turn, Verdict
from engine.llm.simulator.schemas import instance
from engine.llm.simulator.script import Script, slug_of
from engine.llm.simulator.turns import blocks_of, signature
from engine.llm.simulator.wire import Json, count_tokens, encode, identifier

_ROLE = re.compile(r"^Role:[ \t]*(planner|implementer|judge)[ \t]*$", re.MULTILINE)
_TASK = re.compile(r"^Task:[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)
_ATTEMPT = re.compile(r"^Attempt:[ \t]*(\d{1,6})[ \t]*$", re.MULTILINE)


class Caller(msgspec.Struct, frozen=True):
    """Whose call a request is. `step` counts the turns the model has had; `seen` is all it has been shown."""

    role: str
    task: str
    attempt: int
    step: int
    seen: str

    @property
    def name(self) -> str:
        """Role, task and attempt in one word for counts and logs."""
        return f"{self.role or 'anybody'} {self.task or '-'} {self.attempt}"


class Composed(msgspec.Struct, frozen=True):
    """An answer as it stands before anything is counted. `latency` is seconds at pace 1, None for the usual."""

    blocks: tuple[Json, ...]
    stop_reason: str
    output_tokens: int
    stop_sequence: str | None = None
    cut: int | None = None
    latency: float | None = None


def caller_of(params: Json) -> Caller:
    """Read from the prompt whose call it is. The last block that carries a `Task:` line tells; without one, nobody."""
    texts = [
        text
        for message in params["messages"]
        if message["role"] == "user"
        for block in blocks_of(message["content"])
        for text in _texts(block)
    ]
    step = sum(message["role"] == "assistant" for message in params["messages"])
    seen = "\n".join(texts)
    for text in reversed(texts):
        task, role = _TASK.search(text), _ROLE.search(text)
        if task and role:
            attempt = _ATTEMPT.search(text)
            return Caller(role[1], task[1], int(attempt[1]) if attempt else 1, step, seen)
    return Caller("", "", 1, step, seen)


def compose(params: Json, caller: Caller, script: Script) -> Composed:
    """Give the model's answer to a valid request."""
    found = script.find(caller.task, caller.role, caller.attempt, caller.seen)
    answer = found or _usual(caller)
    turn = _turn(answer, params, caller.step)
    blocks: list[Json] = []
    thinking = (params.get("thinking") or {"type": "disabled"})["type"]
    if answer.think and thinking != "disabled" and caller.step == 0:
        blocks.append({"type": "thinking", "thinking": answer.think, "signature": signature(answer.think)})
    if turn.say or not turn.calls:
        blocks.append({"type": "text", "text": turn.say or "Done."})
    for at, call in enumerate(turn.calls):
        id = identifier("toolu", caller.name, caller.step, at, encode(call))
        blocks.append({"type": "tool_use", "id": id, "name": call.tool, "input": call.input})
    composed = _limited(blocks, params["max_tokens"], params.get("stop_sequences", []))
    return msgspec.structs.replace(composed, latency=answer.latency)


def _texts(block: Json) -> list[str]:
    if block["type"] == "tool_result":
        return [part["text"] for part in blocks_of(block.get("content") or [])]
    return [block["text"]] if block["type"] == "text" else []


def _usual(caller: Caller) -> Answer:
    """Give an answer to somebody the scenario does not know, such that the work goes on and changes a file."""
    note = f"simulated/{slug_of(caller.task)}.md"
    match caller.role:
        case "planner":
            return Answer(plan=Plan(("Note the task in a file of its own.",), (note,)))
        case "judge":
            return Answer(
                verdict=Verdict(approved=True, reason="The change does what the task asks, and no more.")
            )
        case "implementer":
            edit = Edit(note, f"# {caller.task}\n\nThe simulated model was here.\n")
            return Answer(edits=(edit,), summary=f"Note {caller.task} in a file of its own.")
        case _:
            return Answer(say="I am a simulated model. Name a role and a task, and I will play it.")


def _turn(answer: Answer, params: Json, step: int) -> Turn:
    """Give the words and calls of one turn, in the form that the request asks for."""
    schema = ((params.get("output_config") or {}).get("format") or {}).get("schema")
    if schema is not None:
        return Turn(encode(instance(schema, _values(answer))).decode())
    if answer.plan is not None or answer.verdict is not None:
        return Turn(encode(_values(answer)).decode())
    tools = {tool["name"] for tool in params.get("tools", [])}
    turns = answer.turns or (_loop(answer, tools) if answer.edits else (Turn(answer.say),))
    return turns[min(step, len(turns) - 1)]


def _values(answer: Answer) -> dict[str, Any]:
    """Give what an answer says, by the names that schemas use."""
    values: dict[str, Any] = {}
    if answer.plan is not None:
        values |= msgspec.to_builtins(answer.plan)
    if answer.verdict is not None:
        values |= msgspec.to_builtins(answer.verdict)
    if answer.edits:
        edits = [{"path": edit.path, "old": edit.old, "new": edit.new} for edit in answer.edits]
        values |= {"summary": answer.summary, "edits": edits}
    elif answer.say or answer.turns:
        values |= {"summary": answer.say or answer.turns[-1].say}
    return values


def _loop(answer: Answer, tools: set[str]) -> tuple[Turn, ...]:
    """Play edits as somebody with tools makes them: read, edit, check, report."""
    old = tuple(dict.fromkeys(edit.path for edit in answer.edits if edit.old))
    files = " and ".join(old)
    turns = [
        Turn(f"I will read {files} first.", tuple(ToolCall("read_file", {"path": path}) for path in old))
        if old
        else Turn("I will see what is there first.", (ToolCall("list_files", {"path": "."}),)),
        Turn(
            "Now I know what to change.",
            tuple(
                ToolCall("edit_file", {"path": edit.path, "old": edit.old, "new": edit.new})
                if edit.old
                else ToolCall("write_file", {"path": edit.path, "content": edit.new})
                for edit in answer.edits
            ),
        ),
    ]
    if answer.check:
        turns.append(Turn("Let me run the check.", (ToolCall("run_check"),)))
    offered = [turn for turn in turns if all(call.tool in tools for call in turn.calls)]
    return (*offered, Turn(answer.summary or "Done."))


def _limited(blocks: list[Json], max_tokens: int, stops: list[str]) -> Composed:
    """End an answer where a stop sequence or `max_tokens` ends it."""
    kept: list[Json] = []
    used = 0
    for block in blocks:
        text = _written(block)
        stop = _first_stop(text, stops) if block["type"] == "text" else None
        if stop is not None:
            text = text[: text.index(stop)]
        if used + count_tokens(text) > max_tokens:
            room = (max_tokens - used) * 4
            kept.append(_shortened(block, text[:room]))
            cut = room if block["type"] == "tool_use" else None
            return Composed(tuple(kept), "max_tokens", max_tokens, cut=cut)
        used += count_tokens(text)
        if stop is not None:
            return Composed((*kept, block | {"text": text}), "stop_sequence", max(1, used), stop)
        kept.append(block)
    calls = any(block["type"] == "tool_use" for block in kept)
    return Composed(tuple(kept), "tool_use" if calls else "end_turn", max(1, used))


def _written(block: Json) -> str:
    match block["type"]:
        case "text":
            return str(block["text"])
        case "thinking":
            return str(block["thinking"])
        case _:
            return encode(block["input"]).decode()


def _shortened(block: Json, text: str) -> Json:
    match block["type"]:
        case "text":
            return block | {"text": text}
        case "thinking":
            return block | {"thinking": text, "signature": signature(text)}
        case _:
            return block


def _first_stop(text: str, stops: list[str]) -> str | None:
    found = [(text.index(stop), stop) for stop in stops if stop in text]
    return min(found)[1] if found else None
