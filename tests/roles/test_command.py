"""Agent commands: real scripts that speak as claude, codex and opencode do, or not at all."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import HaltedError, StageFailedError
from engine.model import Plan, Usage, Verdict
from engine.process import child_environment
from engine.roles.agent_output import AgentReader
from engine.roles.command import AgentReport, run_agent
from engine.roles.json_answers import WANTED, read_json

SAID = Path(__file__).parent / "said"
"""What the tools print: `claude -p --output-format stream-json --verbose`, `codex exec --json`, and
`opencode run --format json`; shortened."""

Play = Callable[..., Awaitable[tuple[AgentReport, list[str]]]]


def said(name: str) -> str:
    return (SAID / f"{name}.jsonl").read_text()


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Run a shell script as an agent; `says` is what it prints. Gives its report and its progress lines."""

    async def run(script: str = 'cat "$(dirname "$0")/said"', *, says: str = "", **options: Any) -> Any:
        agent = tmp_path / "agent"
        agent.write_text(f"#!/bin/sh\n{script}\n")
        agent.chmod(agent.stat().st_mode | stat.S_IXUSR)
        (tmp_path / "said").write_text(says.lstrip("\n"))
        tree = tmp_path / "tree"
        tree.mkdir(exist_ok=True)
        lines: list[str] = []
        given: dict[str, Any] = {
            "cwd": tree,
            "env": child_environment(os.environ, "r1"),
            "log": tmp_path / "agent.log",
            "timeout": 20.0,
            "idle_timeout": 10.0,
            "reader": AgentReader(lines.append),
        }
        prompt = options.pop("prompt", "Do it.")
        return await run_agent([str(agent)], prompt, **(given | options)), lines

    return run


async def test_the_prompt_comes_on_stdin_and_the_work_is_done_in_the_tree(play: Play, tmp_path: Path) -> None:
    prompt = "Do it: 世界 \ud800\n" + "x" * 300_000
    report, _ = await play("pwd; wc -c; cat > ignored", prompt=prompt)
    where, size = report.text.split("\n")
    assert Path(where).resolve() == (tmp_path / "tree").resolve()
    assert int(size) == len(prompt.encode("utf-8", "replace"))


async def test_claude_is_understood(play: Play) -> None:
    report, lines = await play(says=said("claude"))
    assert report == AgentReport(
        "Doubled x.\n\nThe tests pass.",
        Usage(input=12, output=78, cache_read=5600, cache_write_5m=340),
        0.0421,
        "",
    )
    assert report.summary == "The tests pass."
    assert lines == ["I will look first.", "Edit src/a.py"]


async def test_claudes_error_is_a_complaint(play: Play) -> None:
    report, _ = await play(says=said("claude_failed"))
    assert report.complaint == "the agent reports an error: Invalid API key · Please run /login"


async def test_codex_is_understood(play: Play) -> None:
    report, lines = await play(says=said("codex"))
    assert report == AgentReport("Doubled x.", Usage(input=315, output=122, cache_read=24448), None, "")
    assert lines == ["$ bash -lc ls", "$ bash -lc ls", "Doubled x."]


async def test_codexs_error_is_a_complaint(play: Play) -> None:
    report, _ = await play('cat "$(dirname "$0")/said"; exit 1', says=said("codex_failed"))
    assert report.complaint == "the agent reports an error: You have hit your usage limit."


async def test_opencode_is_understood(play: Play) -> None:
    report, lines = await play(says=said("opencode"))
    assert report.text == "Doubled x."
    assert report.usage == Usage(input=700, output=12, cache_read=21515, cache_write_5m=7)
    assert report.usd == pytest.approx(0.003)
    assert lines == ["bash echo hi", "Doubled x."]


async def test_opencodes_error_is_a_complaint(play: Play) -> None:
    report, _ = await play(says=said("opencode_failed"))
    assert report.complaint == "the agent reports an error: Rate limit exceeded"


async def test_aider_is_understood(play: Play) -> None:
    says = """
Doubled x.

Tokens: 4.2k sent, 310 received. Cost: $0.02 message, $0.02 session.
Applied edit to src/a.py
Tokens: 17k sent, 1.5k cache write, 9.5k cache hit, 90 received.
Cost: $0.0041 message, $0.0241 session.
"""
    report, _ = await play(says=says)
    assert report.usage == Usage(input=4_200 + 6_000, output=400, cache_read=9_500, cache_write_5m=1_500)
    assert report.usd == pytest.approx(0.0241)


async def test_plain_words_are_progress_and_their_last_paragraph_is_the_summary(play: Play) -> None:
    says = "Reading files\n\x1b[32mEditing a.py\x1b[0m\n\n  Doubled x.\nTests pass.\n\n"
    report, lines = await play(says=says)
    assert lines == ["Reading files", "Editing a.py", "Doubled x.", "Tests pass."]
    assert report.summary == "Doubled x.\nTests pass."
    assert (report.usage, report.usd, report.complaint) == (Usage(), None, "")


async def test_a_summary_is_never_a_whole_log(play: Play) -> None:
    report, _ = await play("yes words | head -c 50000")
    assert len(report.text) > 40_000
    assert len(report.summary) <= 1_000


async def test_json_of_no_known_tool_and_broken_lines_are_no_error(play: Play) -> None:
    odd = [
        '{"type":"result"',
        '{"type":"text","part":7}',
        "[1,2]",
        '{"type":"assistant","message":{"content":"text"}}',
        "{}",
        "Done.",
    ]
    report, lines = await play(says="\n".join(odd))
    assert report.complaint == ""
    assert lines == ['{"type":"result"', "[1,2]", "Done."]


async def test_a_bad_status_is_a_complaint_with_the_last_line(play: Play) -> None:
    report, _ = await play("echo starting; echo 'no credits left' >&2; exit 7")
    assert report.complaint.endswith("agent ended with status 7: no credits left")
    silent, _ = await play("exit 3")
    assert silent.complaint.endswith("agent ended with status 3: no output")


async def test_an_agent_that_cannot_start_halts_the_run_by_name(tmp_path: Path) -> None:
    with pytest.raises(HaltedError, match="no-such-agent") as caught:
        await run_agent(
            ["no-such-agent"],
            "Do it.",
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin"},
            log=tmp_path / "log",
            timeout=5.0,
            idle_timeout=None,
            reader=AgentReader(lambda line: None),
        )
    assert "PATH" in caught.value.hint


@pytest.mark.parametrize(
    ("limits", "words"),
    [({"timeout": 0.3}, "ran for more than 0 s"), ({"idle_timeout": 0.3}, "was silent for more than 0 s")],
)
async def test_an_agent_that_overruns_is_ended_and_the_next_try_hears_of_it(
    play: Play, limits: dict[str, float], words: str
) -> None:
    with pytest.raises(StageFailedError, match=words) as caught:
        await play("sleep 60", **limits)
    assert caught.value.failure_type == "timeout"
    assert "smaller steps" in caught.value.feedback


async def test_an_agent_gets_no_secret(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret")
    report, _ = await play("env", env=child_environment(os.environ, "r1"))
    assert "sk-ant-secret" not in report.text


# JSON in an agent's words


@pytest.mark.parametrize(
    "line",
    [
        '{"a":' * 3_000 + "1" + "}" * 3_000,
        "Tokens: 1.2.3k sent, . received.",
        f"Tokens: {'9' * 400} sent, 4{'0' * 30} received.",
        f"Cost: $1 message, ${'9' * 400}.0 session.",
        '{"type":"result","usage":{"input_tokens":-5,"output_tokens":true},"total_cost_usd":-100}',
        '{"type":"result","usage":{"input_tokens":18446744073709551615},"total_cost_usd":true}',
        f'{{"type":"result","usage":{{"input_tokens":1{"0" * 400}}},"total_cost_usd":1{"0" * 400}}}',
        '{"type":"turn.completed","usage":{"input_tokens":5e30,"output_tokens":"7"}}',
        '{"type":"step_finish","part":{"tokens":{"input":-1,"cache":{"read":1e400}},"cost":1.7e308}}',
    ],
)
async def test_use_that_cannot_be_counts_as_none(play: Play, line: str) -> None:
    report, _ = await play(says=f"Doubled x.\n{line}\n{line}\n")
    assert report.usage == Usage()
    assert not report.usd  # never less than nothing: it would give a budget money back
    assert report.complaint == ""


@pytest.mark.parametrize(
    "text",
    [
        '{"approved": true, "reason": "fine"}',
        'Here it is:\n```json\n{"approved": true, "reason": "fine"}\n```\nDone.',
        'First {"approved": false, "reason": "draft"} then {"approved": true, "reason": "fine"}',
        '{"approved": true, "reason": "fine"} and { a brace } and {"other": 1}',
        'A set {1, 2} and {"approved": true, "reason": "fine", "findings": []}',
    ],
)
def test_the_last_object_that_fits_is_the_answer(text: str) -> None:
    assert read_json(text, Verdict, "Judge") == Verdict(True, "fine")


def test_braces_inside_of_texts_and_deep_objects_are_no_trouble() -> None:
    verdict = Verdict(False, 'use "{x}" not }{ here', ("if (a) { b }", "}}}"))
    text = f"Verdict: {msgspec.json.encode(verdict).decode()} ok"
    assert read_json(text, Verdict, "Judge") == verdict
    deep = '{"approved": true, "reason": "r", "extra": {"a": {"b": {"c": [{"d": 1}]}}}}'
    assert read_json(deep, Verdict, "Judge") == Verdict(True, "r")


def test_an_object_without_any_of_the_fields_is_no_plan() -> None:
    with pytest.raises(StageFailedError):
        read_json('{"level": "info", "msg": "done"}', Plan, "Planner")
    assert read_json('{"steps": ["one"]} {"level": "info"}', Plan, "Planner") == Plan(("one",))


@pytest.mark.parametrize(
    "text", ["", "no json", "{", "{" * 5_000, '{"a": ' * 3_000, '{"approved": "yes"}', "[true]"]
)
def test_words_without_the_answer_fail_the_attempt_and_are_fed_back(text: str) -> None:
    with pytest.raises(StageFailedError, match="Judge command did not answer") as caught:
        read_json(text, Verdict, "Judge")
    assert caught.value.failure_type == "bad_answer"
    assert text[-100:] in caught.value.feedback or not text


@pytest.mark.parametrize(
    ("kind", "text", "problem"),
    [
        (Verdict, '{"verdict":"yes"}', '{"verdict":"yes"} has no "approved"'),
        (Verdict, '{"approved": "yes", "reason": "ok"}', '"approved" is "yes", not true or false'),
        (Verdict, '{"approved": true, "reason": 7}', '"reason" is 7, not a text'),
        (Verdict, '{"approved": 1} {"level": "info"}', '"approved" is 1, not true or false'),
        (Verdict, '{"approved": true, "findings": [1]}', '"findings" is [1], not a list of texts'),
        (Verdict, "  \n", "it printed nothing"),
        (Verdict, "Well.\nIt looks fine.", "it printed no JSON object, but It looks fine."),
        (Verdict, '{"approved": true, "x": NaN}', '{"approved": true, "x": NaN} cannot be read as JSON'),
        (Plan, '{"level": "info"}', '{"level": "info"} has none of them'),
        (Plan, '{"steps": "one"}', '"steps" is "one", not a list of texts'),
        (Verdict, r'{"approved": "\ud800"}', '"approved" is "?", not true or false'),
        (Plan, f'{{"steps": "{"x" * 500}"}}', f'"steps" is "{"x" * 78}…, not a list of texts'),
    ],
)
def test_a_wrong_answer_is_told_by_what_is_wanted_and_what_is_wrong(
    kind: type[Plan | Verdict], text: str, problem: str
) -> None:
    with pytest.raises(StageFailedError) as caught:
        read_json(text, kind, "Judge")
    assert caught.value.message.endswith(f"needs {WANTED[kind]}; {problem}")
    assert f"could not be used: {problem}.\n" in caught.value.feedback
    assert WANTED[kind] in caught.value.feedback


def test_an_answer_of_any_depth_is_read_or_told_to_be_wrong() -> None:
    limit = sys.getrecursionlimit()
    for depth in range(limit - 150, limit + 10):  # somewhere there, one reader can and the next cannot
        for begin, end in (("[", "]"), ('{"a":', "}")):
            deep = begin * depth + "1" + end * depth
            for text in (f'{{"approved": 1, "x": {deep}}}', f'{{"approved": true, "findings": {deep}}}'):
                with pytest.raises(StageFailedError, match="Judge command did not answer"):
                    read_json(text, Verdict, "Judge")


def test_a_long_answer_that_only_begins_objects_is_given_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0

    class Counting(json.JSONDecoder):
        def raw_decode(self, s: str, idx: int = 0) -> Any:
            nonlocal read
            read += 1
            return super().raw_decode(s, idx)

    monkeypatch.setattr(json, "JSONDecoder", Counting)
    with pytest.raises(StageFailedError):
        read_json('{"a":' * 150_000, Verdict, "Judge")
    assert read < 15_000


def test_what_is_wanted_names_fields_of_the_answer() -> None:
    for kind, words in WANTED.items():
        named = set(re.findall(r'"(\w+)"', words))
        assert {each.name for each in msgspec.structs.fields(kind) if each.required} <= named
        assert named <= set(kind.__struct_fields__)


@given(st.text(), st.text(), st.booleans(), st.text(), st.lists(st.text(), max_size=3))
@settings(max_examples=200, deadline=None)
def test_an_answer_is_found_among_any_words(
    before: str, after: str, approved: bool, reason: str, findings: list[str]
) -> None:
    verdict = Verdict(approved, reason, tuple(findings))
    words = f"{before.replace('{', '(')}{msgspec.json.encode(verdict).decode()}{after.replace('{', '(')}"
    assert read_json(words, Verdict, "Judge") == verdict
