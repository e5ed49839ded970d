"""What the simulated model says: by role, task, attempt, step, and what it has been shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from engine.llm.simulator import Answer, Edit, Plan, Scenario, Simulator, ToolCall, Turn, Verdict
from engine.llm.simulator.answers import Composed, caller_of, compose
from engine.llm.simulator.script import Script
from engine.llm.simulator.validation import check_message
from tests.simulator.wire import TOOLS, ask, prompt, request, text_of

EDITS = (Edit("src/a.py", "new line\n", "old line\n"), Edit("src/b.py", "whole file\n"))
EDITS_SCHEMA = {
    "type": "object",
    "properties": {
        "summary": {"type": "string"},
        "edits": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {name: {"type": "string"} for name in ("path", "old", "new")},
                "required": ["path", "old", "new"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["summary", "edits"],
    "additionalProperties": False,
}
VERDICT_SCHEMA = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "reason": {"type": "string"},
        "findings": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["approved", "reason", "findings"],
    "additionalProperties": False,
}


def schema(value: Any) -> dict[str, Any]:
    return {"output_config": {"format": {"type": "json_schema", "schema": value}}}


def played(params: dict[str, Any], *answers: Answer) -> Composed:
    """The answer to a request that the service would take."""
    check_message(params, (params["model"],))
    return compose(params, caller_of(params), Script(answers))


def said(params: dict[str, Any], *answers: Answer) -> str:
    (block,) = played(params, *answers).blocks
    return str(block["text"])


def loop(first: str, *answers: Answer, results: dict[str, str] | None = None) -> list[list[dict[str, Any]]]:
    """Play a whole tool loop; gives the blocks of each turn."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": first}]}]
    turns = []
    while True:
        blocks = list(played(request(messages=messages, tools=TOOLS), *answers).blocks)
        turns.append(blocks)
        calls = [block for block in blocks if block["type"] == "tool_use"]
        if not calls:
            return turns
        assert len(turns) < 20
        messages = [*messages, {"role": "assistant", "content": blocks}]
        found = [(results or {}).get(call["input"].get("path", ""), "ok") for call in calls]
        messages.append(
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": call["id"], "content": text}
                    for call, text in zip(calls, found, strict=True)
                ],
            }
        )


def calls_of(turns: list[list[dict[str, Any]]]) -> list[list[str]]:
    return [[block["name"] for block in turn if block["type"] == "tool_use"] for turn in turns]


@pytest.mark.parametrize(
    ("task", "role", "attempt", "expected"),
    [
        ("A", "planner", 1, "any role of A"),
        ("A", "judge", 1, "judge of A"),
        ("A", "judge", 2, "judge of A, second"),
        ("A", "judge", 7, "judge of A, second"),
        ("AB", "judge", 1, "pattern"),
    ],
)
def test_the_nearest_answer_is_chosen(task: str, role: str, attempt: int, expected: str) -> None:
    answers = (
        Answer(task="A*", say="pattern"),
        Answer(task="A", say="any role of A", role="planner"),
        Answer(task="A", role="judge", say="judge of A"),
        Answer(task="A", role="judge", say="judge of A, second", attempt=2),
    )
    assert said(request(prompt(role, task, attempt)), *answers) == expected


def test_an_answer_can_wait_for_what_the_model_sees() -> None:
    answers = (
        Answer(role="implementer", edits=EDITS, summary="blind"),
        Answer(role="implementer", edits=EDITS, summary="seeing", when="other work"),
    )
    for shown, expected in (("old line", "blind"), ("old line, other work", "seeing")):
        turns = loop(prompt("implementer", "A"), *answers, results={"src/a.py": shown})
        assert turns[-1] == [{"type": "text", "text": expected}]


def test_what_the_model_itself_wrote_is_not_what_it_was_shown() -> None:
    answers = (
        Answer(role="implementer", edits=(Edit("a.py", "marker\n"),), summary="blind"),
        Answer(role="implementer", edits=EDITS, summary="seeing", when="marker"),
    )
    assert loop(prompt("implementer", "A"), *answers)[-1][0]["text"] == "blind"


def test_edits_become_a_loop_that_reads_edits_checks_and_reports() -> None:
    turns = loop(prompt("implementer", "A"), Answer(edits=EDITS, summary="All done."))
    assert calls_of(turns) == [["read_file"], ["edit_file", "write_file"], ["run_check"], []]
    assert turns[1][1]["input"] == {"path": "src/a.py", "old": "old line\n", "new": "new line\n"}
    assert turns[1][2]["input"] == {"path": "src/b.py", "content": "whole file\n"}
    assert turns[-1] == [{"type": "text", "text": "All done."}]


def test_the_check_can_be_left_out() -> None:
    turns = loop(prompt("implementer", "A"), Answer(edits=EDITS, check=False))
    assert calls_of(turns) == [["read_file"], ["edit_file", "write_file"], []]


def test_new_files_begin_with_a_look_around() -> None:
    turns = loop(prompt("implementer", "A"), Answer(edits=(Edit("new.py", "x = 1\n"),)))
    assert calls_of(turns) == [["list_files"], ["write_file"], ["run_check"], []]


def test_edits_become_one_answer_where_a_schema_asks_for_it() -> None:
    params = request(prompt("implementer", "A"), **schema(EDITS_SCHEMA))
    value = json.loads(said(params, Answer(edits=EDITS, summary="All done.")))
    assert value == {
        "summary": "All done.",
        "edits": [
            {"path": "src/a.py", "old": "old line\n", "new": "new line\n"},
            {"path": "src/b.py", "old": "", "new": "whole file\n"},
        ],
    }


def test_scripted_turns_are_played_one_by_one() -> None:
    answer = Answer(
        turns=(
            Turn("Look.", (ToolCall("search", {"pattern": "x"}), ToolCall("list_files", {"path": "."}))),
            Turn("", (ToolCall("run_check"),)),
            Turn("Found."),
        )
    )
    turns = loop(prompt("implementer", "A"), answer)
    assert calls_of(turns) == [["search", "list_files"], ["run_check"], []]
    assert turns[2] == [{"type": "text", "text": "Found."}]


def test_plans_and_verdicts_fit_the_schema_that_is_asked_for() -> None:
    verdict = Verdict(False, "Half of it is missing.", ("No test.",))
    full = json.loads(said(request(prompt("judge", "A"), **schema(VERDICT_SCHEMA)), Answer(verdict=verdict)))
    assert full == {"approved": False, "reason": "Half of it is missing.", "findings": ["No test."]}
    narrow = {**VERDICT_SCHEMA, "properties": {"approved": {"type": "boolean"}}, "required": ["approved"]}
    assert json.loads(said(request(prompt("judge", "A"), **schema(narrow)), Answer(verdict=verdict))) == {
        "approved": False
    }
    plan = json.loads(said(request(prompt("planner", "A")), Answer(plan=Plan(("One.",), ("a.py",), "docs"))))
    assert plan == {"steps": ["One."], "files": ["a.py"], "type": "docs"}


def test_a_schema_nobody_scripted_gets_the_least_that_fits() -> None:
    strange = {
        "type": "object",
        "properties": {
            "kind": {"enum": ["x", "y"]},
            "maybe": {"anyOf": [{"type": "null"}, {"type": "string"}]},
            "some": {"type": "array", "items": {"$ref": "#/$defs/N"}, "minItems": 1},
            "level": {"const": 3},
        },
        "additionalProperties": False,
        "$defs": {"N": {"type": "integer"}},
    }
    assert json.loads(said(request(**schema(strange)))) == {
        "kind": "x",
        "maybe": None,
        "some": [0],
        "level": 3,
    }


def test_the_tasks_name_fills_what_a_pattern_leaves_open() -> None:
    answer = Answer(task="Z-*", say='{task} is {slug}, and {"other": "braces"} stay')
    assert said(request(prompt("planner", 'Z-"7"')), answer) == 'Z-"7" is z_7, and {"other": "braces"} stay'


def test_tasks_the_scenario_does_not_know_get_usable_answers(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate()
    assert (
        json.loads(text_of(ask(simulator, prompt("judge", "X"), **schema(VERDICT_SCHEMA))))["approved"]
        is True
    )
    assert json.loads(text_of(ask(simulator, prompt("planner", "X"))))["files"] == ["simulated/x.md"]
    turns = loop(prompt("implementer", "X-1"))
    assert turns[1][-1]["input"]["path"] == "simulated/x_1.md"
    assert "simulated model" in text_of(ask(simulator, "Hello"))


def test_the_last_block_with_a_task_line_tells_whose_call_it_is() -> None:
    guide = {"type": "text", "text": "How prompts look:\nRole: judge\nTask: EXAMPLE\n"}
    real = {"type": "text", "text": prompt("implementer", "X-1", 3)}
    caller = caller_of(request(messages=[{"role": "user", "content": [guide, real]}]))
    assert (caller.role, caller.task, caller.attempt, caller.step) == ("implementer", "X-1", 3, 0)


@pytest.mark.parametrize(
    "text", ["Role: boss\nTask: A", "The Role: judge of Task: A", "Task: A", "Role: judge"]
)
def test_what_only_looks_like_a_caller_is_none(text: str) -> None:
    assert caller_of(request(text)).role == ""


def test_thinking_comes_first_where_it_is_allowed() -> None:
    answer = Answer(say="Yes.", think="Let me see.")
    allowed = played(request(thinking={"type": "adaptive"}), answer)
    assert [block["type"] for block in allowed.blocks] == ["thinking", "text"]
    follow_up = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": list(allowed.blocks)},
        {"role": "user", "content": "And?"},
    ]
    assert [b["type"] for b in played(request(messages=follow_up), answer).blocks] == ["text"]
    assert [b["type"] for b in played(request(), answer).blocks] == ["text"]


def test_an_answer_ends_where_max_tokens_ends_it() -> None:
    cut = played(request(max_tokens=2), Answer(say="0123456789"))
    assert (cut.blocks[0]["text"], cut.stop_reason, cut.output_tokens) == ("01234567", "max_tokens", 2)


def test_an_answer_ends_before_the_first_stop_sequence() -> None:
    stopped = played(request(stop_sequences=["9", "END"]), Answer(say="12 END 9"))
    assert (stopped.blocks[0]["text"], stopped.stop_reason, stopped.stop_sequence) == (
        "12 ",
        "stop_sequence",
        "END",
    )


def test_the_same_request_gets_the_same_bytes(simulate: Callable[..., Simulator]) -> None:
    scenario = Scenario(answers=(Answer(edits=EDITS, summary="Done."),))
    bodies = {
        ask(simulate(scenario), prompt("implementer", "A"), tools=TOOLS, stream=stream).body
        for stream in (False, True)
        for _ in range(2)
    }
    assert len(bodies) == 2
