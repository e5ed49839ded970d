"""The Implementer as a model: a real tool loop over a real worktree, against the simulator over HTTP."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine import events as ev
from engine.activities import Attempt
from engine.bus import Bus
from engine.calls import ModelCalls
from engine.errors import StageFailedError
from engine.git.repository import Repository
from engine.llm.blocks import Text, ToolResult, ToolUse
from engine.llm.client import ModelClient
from engine.llm.messages import ModelAnswer, ModelRequest
from engine.llm.retries import RetryPolicy
from engine.llm.sdk import Deadlines
from engine.llm.simulator import Answer, Edit, Fault, Scenario, Simulator, ToolCall, Turn
from engine.model import AnswerSource, LessonGiven, Plan, Role, Task
from engine.roles import implementer
from engine.roles.answers import Edits
from engine.roles.context import MAX_GUIDE, MAX_LISTED, read_context
from engine.roles.implementer import apply_edits, run_tool_loop
from engine.roles.prompt_library import PromptLibrary
from engine.roles.requests import MAX_DIFF, Requests, SourceFile
from engine.roles.tools import Tools, tool_definitions
from engine.roles.workspace import Workspace
from engine.settings import LLMSettings, RoleSettings, RolesSettings
from engine.store.cache import ResultCache
from engine.templates import TemplateEngine
from tests.sample_repository import SampleRepository

TASK = Task("CART-1", "Double x.", command="grep -q 'x = 2' src/a.py", acceptance="x is 2")
PLAN = Plan(("Edit src/a.py.",), ("src/a.py",), "fix_bug")
ROLES = RolesSettings()


def attempt(number: int = 1, **fields: Any) -> Attempt:
    return Attempt(TASK, number, "task/CART-1", "base", "/tree", **fields)


@pytest.fixture
def prompts() -> PromptLibrary:
    library = PromptLibrary(TemplateEngine(), overrides=None)
    library.load()
    return library


@pytest.fixture
def requests(prompts: PromptLibrary) -> Requests:
    context = prompts.render("repository", files=("src/a.py",), omitted=0, guide="Be brief.", folders=())
    return Requests(prompts.render, ROLES, LLMSettings(), context)


class Desk:
    """What an Implementer has: a worktree, a model behind a cache, and a check."""

    def __init__(self, url: str, sample: SampleRepository, repository: Repository, cache: Path) -> None:
        self.sample = sample
        self.client = ModelClient(
            url,
            "sk-ant-test-0123456789abcdef",
            retry=RetryPolicy(attempts=3, first_wait=0.01, longest_wait=0.02, patience=20.0),
            deadlines=Deadlines(total=20.0, idle=5.0, connect=5.0, quick=10.0),
            environ={},
        )
        self.cache = ResultCache(cache)
        self.bus = Bus()
        self.heard: list[ev.Event] = []
        self.bus.subscribe(self.heard.append)
        self.bus.emit(ev.TasksAdded(at=1.0, tasks=(TASK,)))
        ids = itertools.count(1)
        self.calls = ModelCalls(self.client, self.cache, self.bus, new_id=lambda: f"c{next(ids)}")
        self.workspace = Workspace(sample.path, repository, "tasks/board.md")
        self.progress: list[str] = []
        self.checks: list[str] = []
        self.sent: list[ModelRequest] = []

    async def ask(self, request: ModelRequest) -> ModelAnswer:
        self.sent.append(request)
        return await self.calls.ask(
            attempt(), request, base_tree="t", records=self.sample.path.parent / "rec"
        )

    async def check(self) -> str:
        text = (self.sample.path / "src/a.py").read_text()
        self.checks.append(text)
        return "passed" if "x = 2" in text else "failed"

    def tools(self, request: ModelRequest) -> Tools:
        return Tools(self.workspace, self.check, self.progress.append)

    async def close(self) -> None:
        await self.client.close()
        self.cache.close()


@pytest.fixture
async def desk(repo: Callable[..., SampleRepository], tmp_path: Path) -> Any:
    opened: list[Any] = []

    async def furnish(**scenario: Any) -> tuple[Desk, Simulator]:
        if not opened:
            opened.append(repo({"src/a.py": "x = 1\n", "tasks/board.md": "| board |\n"}))
        simulator = Simulator(Scenario(**scenario), pace=0.0)
        simulator.start()
        sample = opened[0]
        repository = await Repository.open(sample.path, environ=os.environ)
        made = Desk(simulator.url, sample, repository, tmp_path / "cache.db")
        opened.append((made, simulator))
        return made, simulator

    yield furnish
    for made, simulator in opened[1:]:
        await made.close()
        simulator.stop()


EDITS = (Edit("src/a.py", old="x = 1", new="x = 2"), Edit("src/b.py", new="y = 1\n"))


async def test_a_model_reads_edits_checks_and_says_what_it_did(desk: Any, requests: Requests) -> None:
    at, simulator = await desk(answers=(Answer(edits=EDITS, summary="Doubles x."),))
    said = await run_tool_loop(at.ask, requests.implementer(attempt(), PLAN, TASK.command), at.tools)
    assert said == "Doubles x."
    assert (at.sample.path / "src/a.py").read_text() == "x = 2\n"
    assert (at.sample.path / "src/b.py").read_text() == "y = 1\n"
    assert at.checks == ["x = 2\n"]
    assert "edit src/a.py" in at.progress
    assert at.progress[-1] == "run the check"
    assert set(simulator.stats().statuses) == {"200"}


async def test_an_interrupted_loop_goes_on_from_the_cache_and_pays_nothing_again(
    desk: Any, requests: Requests
) -> None:
    request = requests.implementer(attempt(), PLAN, TASK.command)
    scenario = {"answers": (Answer(edits=EDITS, summary="Doubles x."),)}
    first, one = await desk(**scenario)
    await run_tool_loop(first.ask, request, first.tools)
    calls = sum(one.stats().calls.values())
    first.sample.git("checkout", "--quiet", ".")
    first.sample.git("clean", "-fdq")
    second, two = await desk(**scenario)
    assert await run_tool_loop(second.ask, request, second.tools) == "Doubles x."
    assert calls >= 3
    assert sum(two.stats().calls.values()) == 0
    answered = [event for event in second.heard if isinstance(event, ev.CallAnswered)]
    assert {event.source for event in answered} == {AnswerSource.CACHE}
    assert (second.sample.path / "src/a.py").read_text() == "x = 2\n"


async def test_every_turn_repeats_the_conversation_so_that_its_prefix_is_cached(
    desk: Any, requests: Requests
) -> None:
    at, _ = await desk(answers=(Answer(edits=EDITS, summary="s"),))
    await run_tool_loop(at.ask, requests.implementer(attempt(), PLAN, TASK.command), at.tools)
    for before, later in itertools.pairwise(at.sent):
        assert len(later.messages) == len(before.messages) + 2
        known = {prefix.digest for prefix in later.prefixes()}
        assert before.prefixes()[0].digest in known  # tools, role and repository
        marks = [
            block for message in later.messages for block in message.content if getattr(block, "cache", None)
        ]
        assert len(marks) == 1
    assert len({(request.tools, request.system) for request in at.sent}) == 1


async def test_what_a_model_asks_for_wrongly_is_answered_and_not_fatal(desk: Any, requests: Requests) -> None:
    wrong = (
        ToolCall("read_file", {"path": "../../etc/passwd"}),
        ToolCall("edit_file", {"path": "tasks/board.md", "old": "board", "new": "mine"}),
        ToolCall("edit_file", {"path": "src/a.py", "old": "no such text", "new": "x"}),
        ToolCall("read_file", {"file": "src/a.py"}),
        ToolCall("read_file", {"path": "nowhere.py"}),
        ToolCall("search", {"pattern": "("}),
    )
    at, simulator = await desk(answers=(Answer(turns=(Turn(calls=wrong), Turn(say="I give in."))),))
    said = await run_tool_loop(at.ask, requests.implementer(attempt(), PLAN, None), at.tools)
    assert said == "I give in."
    results = [block for block in at.sent[1].messages[-1].content if isinstance(block, ToolResult)]
    assert [result.is_error for result in results] == [True] * len(wrong)
    words = ["outside", "task board", "does not occur", "path", "does not exist", "cannot search"]
    assert all(word in result.content for word, result in zip(words, results, strict=True))
    assert set(simulator.stats().statuses) == {"200"}
    assert at.sample.git("status", "--porcelain") == ""


async def test_an_answer_that_is_cut_off_fails_the_attempt(desk: Any, requests: Requests) -> None:
    at, _ = await desk(answers=(Answer(say="word " * 5_000),))
    from msgspec.structs import replace

    request = replace(requests.implementer(attempt(), PLAN, None), max_tokens=50)
    with pytest.raises(StageFailedError, match="cut off") as caught:
        await run_tool_loop(at.ask, request, at.tools)
    assert "max_tokens" in caught.value.hint


@pytest.mark.parametrize(
    ("reason", "kind"), [("refusal", "refusal"), ("model_context_window_exceeded", "context_full")]
)
async def test_other_ends_of_an_answer_fail_the_attempt_by_name(
    requests: Requests, reason: str, kind: str
) -> None:
    async def ask(request: ModelRequest) -> ModelAnswer:
        return ModelAnswer("m", (Text("No."),), reason, usage=request_usage())

    with pytest.raises(StageFailedError) as caught:
        await run_tool_loop(
            ask, requests.implementer(attempt(), PLAN, None), lambda request: pytest.fail("no tools")
        )
    assert caught.value.failure_type == kind


def request_usage() -> Any:
    from engine.model import Usage

    return Usage(input=1)


async def test_a_model_that_does_not_come_to_an_end_is_stopped(
    desk: Any, requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(implementer, "MAX_TURNS", 4)
    turns = tuple(Turn(calls=(ToolCall("list_files", {"path": "."}),)) for _ in range(9))
    at, simulator = await desk(answers=(Answer(turns=turns),))
    with pytest.raises(StageFailedError, match="within 4 turns"):
        await run_tool_loop(at.ask, requests.implementer(attempt(), PLAN, None), at.tools)
    assert sum(simulator.stats().calls.values()) == 4


async def test_a_loop_outlives_faults_of_the_service(desk: Any, requests: Requests) -> None:
    faults = (Fault(kind="overloaded", step=1), Fault(kind="truncated", step=2))
    at, simulator = await desk(answers=(Answer(edits=EDITS, summary="Doubles x."),), faults=faults)
    said = await run_tool_loop(at.ask, requests.implementer(attempt(), PLAN, TASK.command), at.tools)
    assert said == "Doubles x."
    assert sum(simulator.stats().faults.values()) == 2
    assert max(simulator.stats().answered.values()) == 1


async def test_the_economy_lane_asks_once_for_all_edits(desk: Any, requests: Requests) -> None:
    at, simulator = await desk(answers=(Answer(edits=EDITS, summary="Doubles x."),))
    files = (SourceFile("src/a.py", "x = 1\n"), SourceFile("src/b.py", None))
    answer = await at.ask(requests.economy_implementer(attempt(), PLAN, TASK.command, files))
    assert apply_edits(answer.decode(Edits), at.workspace) == "Doubles x."
    assert (at.sample.path / "src/a.py").read_text() == "x = 2\n"
    assert sum(simulator.stats().calls.values()) == 1


# Tools by themselves


def test_the_tools_are_the_same_bytes_each_time_and_closed_schemas() -> None:
    import json

    tools = tool_definitions()
    assert tools == tool_definitions()
    assert [tool.name for tool in tools] == [
        "edit_file",
        "list_files",
        "read_file",
        "run_check",
        "search",
        "write_file",
    ]
    for tool in tools:
        schema = json.loads(tool.schema)
        assert schema["additionalProperties"] is False
        assert set(schema["required"]) == set(schema["properties"])
        assert "tool" not in schema["properties"]
        assert tool.description


@pytest.mark.parametrize(
    ("name", "input", "error", "words"),
    [
        ("list_files", "{}", False, "src/a.py"),
        ("read_file", '{"path": "src/a.py"}', False, "x = 1"),
        ("search", '{"pattern": "x", "path": "src"}', False, "src/a.py:1:x = 1"),
        ("write_file", '{"path": "e.txt", "content": ""}', False, "is written"),
        ("run_check", "", False, "failed"),
        ("format_disk", "{}", True, "there is no tool 'format_disk'; there are edit_file"),
        ("read_file", '{"path": 7}', True, "does not fit"),
        ("read_file", '{"path": "src/', True, "does not fit"),
        ("read_file", "[]", True, "does not fit"),
    ],
)
async def test_each_tool_answers_in_words(desk: Any, name: str, input: str, error: bool, words: str) -> None:
    at, _ = await desk()
    result = await at.tools(None).use(ToolUse("id1", name, input))
    assert (result.tool_use_id, result.is_error) == ("id1", error)
    assert words in result.content


async def test_an_empty_file_is_said_to_be_empty(desk: Any) -> None:
    at, _ = await desk()
    at.workspace.write("e.txt", "")
    result = await at.tools(None).use(ToolUse("id1", "read_file", '{"path": "e.txt"}'))
    assert result.content == "(empty)"


# Prompts


def prompt_of(request: ModelRequest) -> str:
    return "".join(block.text for block in request.messages[0].content if isinstance(block, Text))


def test_each_role_is_told_the_task_and_what_it_needs(requests: Requests) -> None:
    given = attempt(2, lessons=(LessonGiven("l1", "Mind the gap."),), feedback="It was red.")
    planner = requests.planner(given, TASK.command)
    work = requests.implementer(given, PLAN, TASK.command)
    economy = requests.economy_implementer(given, PLAN, TASK.command, (SourceFile("src/a.py", "x = 1\n"),))
    judge = requests.judge(given, PLAN, TASK.command or "", "+x = 2")
    for request, role in (
        (planner, "planner"),
        (work, "implementer"),
        (economy, "implementer"),
        (judge, "judge"),
    ):
        prompt = prompt_of(request)
        assert f"Role: {role}\nTask: CART-1\nAttempt: 2\n" in prompt
        assert "Double x." in prompt
        assert "x is 2" in prompt
        assert "grep -q 'x = 2' src/a.py" in prompt
        assert "Be brief." in request.system[-1].text
        assert request.system[-1].cache == "5m"
    for request in (work, economy):
        assert "Edit src/a.py." in prompt_of(request)
        assert "Mind the gap." in prompt_of(request)
        assert "It was red." in prompt_of(request)
    assert "x = 1" in prompt_of(economy)
    assert "+x = 2" in prompt_of(judge)
    assert work.tools
    assert not work.output_schema
    assert planner.output_schema
    assert judge.output_schema


def test_parallel_tasks_share_all_of_the_prompt_but_their_own_words(requests: Requests) -> None:
    one = requests.judge(attempt(), PLAN, "c", "diff")
    two = requests.judge(
        Attempt(Task("CART-2", "Another."), 1, "b", "base", "/other"), Plan(), "d", "other diff"
    )
    assert one.prefixes()[0].digest == two.prefixes()[0].digest


def test_a_diff_is_bounded_and_says_so(requests: Requests) -> None:
    prompt = prompt_of(requests.judge(attempt(), PLAN, "c", "+" * (MAX_DIFF + 5)))
    assert "(5 further characters of the diff are not shown)" in prompt
    assert len(prompt) < MAX_DIFF + 2_000


def test_a_command_gets_one_text_with_the_schema_where_an_answer_is_read(requests: Requests) -> None:
    judge = requests.agent_prompt(Role.JUDGE, attempt(), PLAN, "c", "+x")
    assert '"approved"' in judge
    assert "+x" in judge
    assert '"steps"' in requests.agent_prompt(Role.PLANNER, attempt(), Plan(), "c")
    work = requests.agent_prompt(Role.IMPLEMENTER, attempt(feedback="It was red."), PLAN, "c")
    assert "It was red." in work
    assert "before you end. Do not commit" in work


def test_an_agent_hears_which_folders_are_checked_out(prompts: PromptLibrary) -> None:
    requests = Requests(prompts.render, ROLES, LLMSettings(), "context", ["src", "tests"])
    work = requests.agent_prompt(Role.IMPLEMENTER, attempt(), PLAN, "c")
    assert "Only these folders of it are checked out: src, tests;" in work
    shown = prompts.render("repository", files=("a",), omitted=0, guide="", folders=("src", "tests"))
    assert "Only these folders are checked out where work is done, and searched: src, tests." in shown


def test_words_that_are_no_text_are_made_text(requests: Requests) -> None:
    prompt_of(requests.implementer(attempt(feedback="git: caf\udce9"), PLAN, None)).encode()


@pytest.mark.parametrize(
    ("batch", "task_lane", "lane"),
    [
        ("auto", "fast", "fast"),
        ("auto", "economy", "economy"),
        ("off", "economy", "fast"),
        ("always", "fast", "economy"),
    ],
)
def test_the_lane_follows_row_and_setting(
    prompts: PromptLibrary, batch: Any, task_lane: str, lane: str
) -> None:
    from engine.model import Lane

    settings = LLMSettings(batch=batch)
    requests = Requests(prompts.render, ROLES, settings, "context")
    given = Attempt(Task("T", "s", lane=Lane(task_lane)), 1, "b", "base", "/t")
    request = requests.planner(given, None)
    assert (requests.lane(given), request.lane) == (lane, lane)
    assert request.system[-1].cache == ("1h" if lane == "economy" else "5m")
    assert requests.implementer(given, PLAN, None).lane is Lane.FAST


def test_settings_of_a_role_reach_its_request(prompts: PromptLibrary) -> None:
    roles = RolesSettings(judge=RoleSettings(model="claude-haiku-5-5", max_tokens=900, thinking=2048))
    requests = Requests(prompts.render, roles, LLMSettings(max_tokens=7_000), "context")
    judge = requests.judge(attempt(), PLAN, "c", "d")
    assert (judge.model, judge.max_tokens) == ("claude-haiku-5-5", 900)
    assert judge.thinking is not None
    assert judge.thinking.budget_tokens == 2048
    planner = requests.planner(attempt(), None)
    assert (planner.max_tokens, planner.thinking) == (7_000, None)


# The context


async def test_the_context_is_the_tree_at_one_commit(repo: Any) -> None:
    sample = repo({"b.py": "", "a.py": "", "CONTRIBUTING.md": "second", "CLAUDE.md": "x" * (MAX_GUIDE + 9)})
    repository = await Repository.open(sample.path, environ=os.environ)
    first = sample.git("rev-parse", "HEAD")
    sample.commit("More", {f"many/{n:05}.txt": "" for n in range(MAX_LISTED)})
    context = await read_context(repository, first)
    assert context.files == ("CLAUDE.md", "CONTRIBUTING.md", "a.py", "b.py")
    assert (context.omitted, len(context.guide)) == (0, MAX_GUIDE)
    assert (await read_context(repository, "HEAD")).omitted == 4
