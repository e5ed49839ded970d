"""A board worked on twice: what the first run learned spares the second its failed attempts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from engine.calls import CallRecord
from engine.events import (
    AnyEvent,
    AttemptFailed,
    AttemptStarted,
    LessonRecorded,
    LessonResolved,
    LessonsGiven,
    RunFinished,
    decode,
)
from engine.llm.blocks import Text
from engine.llm.simulator import Simulator, parse_scenario
from engine.settings import LessonsSettings
from engine.state import RunState
from engine.store.lessons import LessonStore, estimated_tokens
from engine.teaching import MOST_GIVEN
from tests import forked
from tests.cli.taskyard import PROGRAM
from tests.sample_repository import SampleRepository, make_sample_repository
from tui.sections import lesson_lines

TASKS = ("TAX-1", "TAX-2", "TAX-3", "TAX-4")
HELPED = "Round half up, to the cent, as the law asks."
WRONG = "def tax(net): return round(net * 0.2)\\n"
RIGHT = "def tax(net): return half_up(net * 0.2)\\n"
CHECK = (
    "grep -n half_up {slug}.py || {{ echo 'AssertionError: tax(0.125) is 0.02, the law says 0.03'; exit 1; }}"
)

# Nobody knows better at first. Whoever was told by a lesson what helped, or has failed before, does it right.
SCENARIO = f"""
pace = 0
[[answers]]
role = "implementer"
summary = "Round the tax."
edits = [{{ path = "{{slug}}.py", new = "{WRONG}" }}]
check = false
[[answers]]
role = "implementer"
when = "What helped: {HELPED}"
summary = "{HELPED}"
edits = [{{ path = "{{slug}}.py", new = "{RIGHT}" }}]
[[answers]]
role = "implementer"
attempt = 2
summary = "{HELPED}"
edits = [{{ path = "{{slug}}.py", new = "{RIGHT}" }}]
"""
SETTINGS = f"""
[run]
max_concurrency = {len(TASKS)}
[roles.planner]
kind = "none"
[roles.implementer]
kind = "anthropic"
[roles.judge]
kind = "none"
"""


def board() -> str:
    rows = ["| ID | Scope | Status | Branch | Verification | Type |", "|----|-------|----|----|----|----|"]
    for task in TASKS:
        check = CHECK.format(slug=slug(task)).replace("|", "\\|")
        rows.append(f"| {task} | Compute the tax of an order | [ ] | | `{check}` | fix_bug |")
    return "\n".join([*rows, ""])


def slug(task: str) -> str:
    return task.lower().replace("-", "_")


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    with Simulator(parse_scenario(SCENARIO)) as running:
        yield running


def project(path: Path) -> SampleRepository:
    """The same project every time, with caches of its own."""
    return make_sample_repository(path, {"tasks/board.md": board(), "taskyard.toml": SETTINGS})


def run(made: SampleRepository, lessons: Path, simulator: Simulator) -> list[AnyEvent]:
    done = forked.run(
        [*PROGRAM, "run", "--json"],
        cwd=made.path,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "TASKYARD_LLM_BASE_URL": simulator.url,
            "TASKYARD_LESSONS_FILE": str(lessons),
            "ANTHROPIC_API_KEY": "demo",
        },
        timeout=200,
    )
    assert done.returncode == 0, done.stderr.decode()
    return [decode(line) for line in done.stdout.splitlines()]


def number_of(kind: type, events: Sequence[AnyEvent]) -> int:
    return sum(isinstance(event, kind) for event in events)


def test_what_the_first_run_learned_spares_the_second_its_retries(
    tmp_path: Path, simulator: Simulator
) -> None:
    lessons = tmp_path / "lessons.jsonl"
    first = run(project(tmp_path / "one"), lessons, simulator)
    calls = dict(simulator.stats().calls)
    # All begin before any has failed.
    assert number_of(AttemptFailed, first) == number_of(LessonRecorded, first) == len(TASKS)
    assert number_of(LessonResolved, first) >= 1
    assert {name.rpartition(" ")[2] for name in calls} == {"1", "2"}

    second = run(project(tmp_path / "two"), lessons, simulator)
    finished = second[-1]
    assert isinstance(finished, RunFinished)
    assert (finished.landed, finished.cache_hits) == (len(TASKS), 0)
    assert number_of(AttemptFailed, second) == 0
    again = {name: count - calls.get(name, 0) for name, count in simulator.stats().calls.items()}
    assert sum(again.values()) < sum(calls.values())
    assert {name.rpartition(" ")[2] for name, count in again.items() if count} == {"1"}


def test_lessons_follow_the_cached_prefix_within_their_limit_and_the_screen_shows_them(
    tmp_path: Path, simulator: Simulator
) -> None:
    lessons = tmp_path / "lessons.jsonl"
    with LessonStore(lessons, tmp_path / "index.db") as store:
        for number in range(3 * MOST_GIVEN):
            message = f"tax of an order: {'the rounding was lost ' * 60} in case {chr(97 + number)}{number}"
            store.add("fix_bug", "verify", "check_failed", message, resolution=HELPED)
    events = run(project(tmp_path / "one"), lessons, simulator)
    state = RunState()
    for event in events:
        state.apply(event)
    begun = [event for event in events if isinstance(event, AttemptStarted)]
    assert len(begun) == len(TASKS), "told by lessons, none fails"
    prefixes = set()
    for event in begun:
        assert 1 <= len(event.lessons) <= MOST_GIVEN
        assert sum(estimated_tokens(one.text) for one in event.lessons) <= LessonsSettings().max_tokens
        view = state.view(event.task)
        assert view.lessons == event.lessons
        shown = "\n".join("".join(part for part, _ in line) for line in lesson_lines(view, 100))
        assert all(given.id in shown for given in event.lessons)
        record = msgspec.json.decode(Path(view.calls[0].record).read_bytes(), type=CallRecord)
        request = record.request
        assert request.system[-1].cache is not None
        assert not any("rounding" in block.text for block in request.system)
        prompt = "".join(block.text for block in request.messages[0].content if isinstance(block, Text))
        assert all(given.text in prompt for given in event.lessons)
        prefixes.add((request.system, request.tools))
    assert len(prefixes) == 1, "the prefix is the same for all tasks"


def test_the_plan_tells_which_lessons_a_first_try_is_given(tmp_path: Path) -> None:
    lessons = tmp_path / "lessons.jsonl"
    with LessonStore(lessons, tmp_path / "index.db") as store:
        about = store.add(
            "rounding",
            "verify",
            "check_failed",
            "one cent is lost",
            resolution=HELPED,
            metadata={"files": "money.py"},
        )
        store.add("styling", "judge", "verdict_refused", "the blue is too dark", metadata={"files": "a.css"})
    planned = """
[[answers]]
role = "planner"
plan = { steps = ["Mend it."], files = ["money.py"], type = "rounding" }
"""
    made = make_sample_repository(
        tmp_path / "one",
        {
            "tasks/board.md": board().replace("fix_bug", ""),
            "taskyard.toml": SETTINGS.replace('[roles.planner]\nkind = "none"', ""),
        },
    )
    with Simulator(parse_scenario(SCENARIO + planned)) as simulator:
        events = run(made, lessons, simulator)
    assert number_of(AttemptFailed, events) == 0
    chosen = {event.task: event.lessons for event in events if isinstance(event, LessonsGiven)}
    assert set(chosen) == set(TASKS)
    assert all([given.id for given in told] == [about.id] for told in chosen.values())


@pytest.mark.parametrize("said", ["", "Left the flag out."])
def test_an_agent_command_teaches_what_it_crashed_by_and_what_it_said_of_its_change(
    tmp_path: Path, said: str
) -> None:
    lessons = tmp_path / "lessons.jsonl"
    mark = tmp_path / "crashed"
    done = f"echo {said}; echo done > t.txt"
    script = f"test -e {mark} && {{ {done}; }} || {{ touch {mark}; echo no such flag: --fast; exit 3; }}"
    settings = f"""
[roles.planner]
kind = "none"
[roles.implementer]
kind = "command"
command = ["sh", "-c", "{script}"]
[roles.judge]
kind = "none"
"""
    row = "| T-1 | Make t.txt | [ ] | | `test -s t.txt` | add_feature |"
    rows = f"| ID | Scope | Status | Branch | Verification | Type |\n|---|---|---|---|---|---|\n{row}\n"
    made = make_sample_repository(tmp_path / "one", {"tasks/board.md": rows, "taskyard.toml": settings})
    with Simulator(parse_scenario("")) as simulator:
        events = run(made, lessons, simulator)
    assert number_of(LessonRecorded, events) == 1
    assert number_of(LessonResolved, events) == bool(said), (
        "its commit is titled with the scope, which is no help"
    )
    with LessonStore(lessons, tmp_path / "index.db") as store:
        [lesson] = store.most_frequent()
    assert (lesson.task_type, lesson.activity_type, lesson.failure_type) == (
        "add_feature",
        "implement",
        "command_failed",
    )
    assert "--fast" in lesson.failure_msg
    assert lesson.resolution == said
