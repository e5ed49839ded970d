"""Requests and answers as values: what a cache key covers, what goes over the wire, what a schema says."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest

from engine.errors import ServiceError
from engine.llm.blocks import Message, Opaque, Text, Tool, ToolResult, ToolUse, user
from engine.llm.messages import ModelAnswer, ModelRequest, Thinking
from engine.llm.schemas import json_schema
from engine.model import Lane, Plan, Role, Usage, Verdict

BASE = ModelRequest(
    role=Role.JUDGE,
    model="claude-opus-5-5",
    system=(Text("You judge."), Text("The repository.", cache="5m")),
    messages=(user(Text("Judge this.")),),
    task_id="T1",
)

# For every field of a request: another value, and whether the answer could be another one.
OTHERS: dict[str, tuple[Any, bool]] = {
    "role": (Role.PLANNER, False),
    "task_id": ("T2", False),
    "attempt": (2, False),
    "lane": (Lane.ECONOMY, False),
    "model": ("claude-opus-5", True),
    "messages": ((user(Text("Judge that.")),), True),
    "system": ((Text("You judge."), Text("The depository.")), True),
    "tools": ((Tool("look", "Look.", "{}"),), True),
    "max_tokens": (7, True),
    "thinking": (Thinking(), True),
    "effort": ("high", True),
    "output_schema": (json_schema(Verdict), True),
    "stop_sequences": (("STOP",), True),
}


def digest(request: ModelRequest, endpoint: str = "") -> str:
    return hashlib.sha256(msgspec.json.encode(request.digest_input(endpoint), order="sorted")).hexdigest()


def test_every_field_is_known_to_this_test() -> None:
    assert set(OTHERS) == set(ModelRequest.__struct_fields__)


@pytest.mark.parametrize("field", sorted(OTHERS))
def test_the_digest_covers_exactly_what_can_change_the_answer(field: str) -> None:
    other, matters = OTHERS[field]
    changed = msgspec.structs.replace(BASE, **{field: other})
    assert (digest(changed) != digest(BASE)) is matters


def test_the_digest_knows_the_endpoint_and_ignores_where_the_cache_cuts() -> None:
    assert digest(BASE, "https://a") != digest(BASE, "https://b")
    unmarked = msgspec.structs.replace(BASE, system=(Text("You judge."), Text("The repository.")))
    assert digest(unmarked) == digest(BASE)
    assert digest(BASE.with_cache_ttl("1h")) == digest(BASE)


def test_the_wire_form_holds_every_part() -> None:
    request = msgspec.structs.replace(
        BASE,
        tools=(Tool("look", "Look.", '{"type":"object"}'),),
        thinking=Thinking(2_048),
        effort="low",
        output_schema='{"type":"object"}',
        stop_sequences=("STOP",),
        messages=(
            user(Text("Go.")),
            Message(
                "assistant", (Opaque('{"type":"thinking","thinking":"hm"}'), ToolUse("1", "look", '{"a":1}'))
            ),
            user(ToolResult("1", "seen", is_error=True, cache="1h")),
        ),
    )
    assert request.params() == {
        "model": "claude-opus-5-5",
        "max_tokens": 16_000,
        "system": [
            {"type": "text", "text": "You judge."},
            {
                "type": "text",
                "text": "The repository.",
                "cache_control": {"type": "ephemeral", "ttl": "5m"},
            },
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Go."}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "tool_use", "id": "1", "name": "look", "input": {"a": 1}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "1",
                        "content": "seen",
                        "is_error": True,
                        "cache_control": {"type": "ephemeral", "ttl": "1h"},
                    }
                ],
            },
        ],
        "tools": [{"name": "look", "description": "Look.", "input_schema": {"type": "object"}}],
        "thinking": {"type": "enabled", "budget_tokens": 2_048},
        "output_config": {
            "effort": "low",
            "format": {"type": "json_schema", "schema": {"type": "object"}},
        },
        "stop_sequences": ["STOP"],
    }


@pytest.mark.parametrize("half", ['{"path": "a', "[1]", "", "nonsense"])
def test_a_broken_tool_input_goes_back_as_an_empty_object(half: str) -> None:
    request = msgspec.structs.replace(BASE, messages=(Message("assistant", (ToolUse("1", "look", half),)),))
    (message,) = request.params()["messages"]
    assert message["content"][0]["input"] == {}


def test_tasks_share_a_prefix_up_to_the_mark_and_no_further() -> None:
    other = msgspec.structs.replace(BASE, task_id="T2", messages=(user(Text("Judge that.")),))
    assert BASE.prefixes() == other.prefixes()
    assert len(BASE.prefixes()) == 1
    for changed in (
        msgspec.structs.replace(BASE, model="claude-opus-5"),
        msgspec.structs.replace(BASE, tools=(Tool("look", "Look.", "{}"),)),
        msgspec.structs.replace(BASE, system=(Text("You judg"), Text("e.The repository.", cache="5m"))),
    ):
        assert changed.prefixes() != BASE.prefixes()


def test_a_prompt_has_at_least_the_bytes_of_its_texts() -> None:
    request = msgspec.structs.replace(BASE, messages=(user(Text("é" * 500)),), output_schema="{}")
    assert request.prompt_bytes >= 1_000
    assert BASE.longest_cache == "5m"
    assert BASE.with_cache_ttl("1h").longest_cache == "1h"


class Inner(msgspec.Struct):
    name: str = "x"


class Outer(msgspec.Struct):
    items: tuple[Inner, ...]
    title: str = ""


def test_a_schema_is_closed_flat_and_stable() -> None:
    schema = msgspec.json.decode(json_schema(Outer))
    assert schema == {
        "type": "object",
        "properties": {
            "items": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}},
                    "required": ["name"],
                    "additionalProperties": False,
                },
            },
            "title": {"type": "string"},
        },
        "required": ["items", "title"],
        "additionalProperties": False,
    }
    assert json_schema(Plan) == json_schema(Plan)


def answer(text: str, stop_reason: str = "end_turn") -> ModelAnswer:
    return ModelAnswer("m", (Text(text),), stop_reason, Usage())


@pytest.mark.parametrize(
    "text",
    [
        '{"approved": true, "reason": "ok"}',
        '```json\n{"approved": true, "reason": "ok"}\n```',
        'Here it is:\n{"approved": true, "reason": "ok"}\nDone.',
    ],
)
def test_an_answer_by_schema_is_read_with_or_without_wrapping(text: str) -> None:
    assert answer(text).decode(Verdict) == Verdict(True, "ok")


@pytest.mark.parametrize("text", ["", "no", '{"approved": "perhaps"}', '{"approved": true', "} {"])
def test_an_answer_that_does_not_fit_says_so(text: str) -> None:
    with pytest.raises(ServiceError):
        answer(text).decode(Verdict)
    with pytest.raises(ServiceError, match="max_tokens"):
        answer('{"approved": true}', "max_tokens").decode(Verdict)


def test_an_answer_goes_back_as_a_turn_without_empty_texts() -> None:
    given = ModelAnswer("m", (Text("\n"), ToolUse("1", "look", "{}"), Text("so")), "tool_use", Usage())
    assert given.message == Message("assistant", (ToolUse("1", "look", "{}"), Text("so")))
    assert given.text == "\nso"
    assert given.tool_uses == (ToolUse("1", "look", "{}"),)
