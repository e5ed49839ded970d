"""The demo from end to end: everything lands by few pushes, again for nothing, and after kill -9 as if nothing was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.calls import CallRecord
from engine.demo import make_demo
from engine.events import AnyEvent, RunFinished, TaskLanded, decode
from engine.llm.simulator import Simulator, load_scenario
from engine.llm.simulator.counters import digest_of
from engine.process import strays
from engine.store.lessons import LessonStore
from tests import forked
from tests.cli.taskyard import PROGRAM, taskyard

TASKS = 14
TARGET = "taskyard/board"


@dataclass(frozen=True)
class Demo:
    """A kept demo, with what its run printed."""

    root: Path
    remote: Path
    events: tuple[AnyEvent, ...]

    @property
    def finished(self) -> RunFinished:
        last = self.events[-1]
        assert isinstance(last, RunFinished)
        return last

    def git(self, *args: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(self.remote), *args], capture_output=True, text=True, check=True
        )
        return done.stdout.rstrip("\n")

    def say(self, *command: str) -> Any:
        """What a command of Taskyard says in the project, as JSON."""
        said = taskyard(*command, "--json", at=self.root)
        assert said.status == 0, said
        return json.loads(said.out)

    @property
    def pushes(self) -> int:
        return len((self.remote / "logs" / "refs" / "heads" / TARGET).read_text().splitlines())

    @property
    def tree(self) -> str:
        return self.git("rev-parse", f"{TARGET}^{{tree}}")


def environment() -> dict[str, str]:
    # A train leaves when nobody else can come, and not because the machine is slow.
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TASKYARD_GIT_MAX_AGE": "600s"}


def run_demo(folder: Path, *more: str) -> Demo:
    done = forked.run(
        [*PROGRAM, "demo", "--headless", "--fast", "--json", "--keep", str(folder), *more],
        env=environment(),
        timeout=200,
    )
    assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()[-3000:]
    events = tuple(decode(line) for line in done.stdout.splitlines())
    return Demo(folder / "cartwright", folder / "cartwright.git", events)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    return run_demo(tmp_path_factory.mktemp("demo") / "first")


def test_everything_lands_by_few_pushes(first: Demo) -> None:
    finished = first.finished
    assert (finished.status, finished.landed, finished.total) == ("landed", TASKS, TASKS)
    assert finished.pushes == first.pushes == finished.trains
    assert finished.pushes <= TASKS * 2 // 3
    assert finished.batch_calls >= 1


def test_every_command_tells_the_same_figures(first: Demo) -> None:
    status = first.say("status")["totals"]
    history = first.say("history")
    for name in ("model_calls", "batched_requests", "cache_hits"):
        expected = getattr(first.finished, name)
        assert status[name] == expected
        assert sum(entry.get(name, 0) for entry in history) == expected
    for name in ("batch_calls", "pushes", "landed", "usd", "usd_saved"):
        assert status[name] == pytest.approx(getattr(first.finished, name))
    assert sum(entry["usd"] for entry in history) == pytest.approx(first.finished.usd)
    assert first.say("cache")["usd_saved"] == pytest.approx(status["usd_saved_results"])


def test_the_story_of_the_demo_is_told(first: Demo) -> None:
    kinds = Counter(type(event).__name__ for event in first.events)
    assert kinds["AttemptFailed"] >= 2, "one fails its verification, one is refused by the Judge"
    assert kinds["TaskSentBack"] >= 1, "two touch the same line"
    assert kinds["LessonRecorded"] >= 3
    assert kinds["LessonResolved"] >= 3
    assert kinds["CallFailed"] >= 1, "the busy moment"


def test_each_way_to_fail_teaches_a_lesson_that_names_no_task(first: Demo, tmp_path: Path) -> None:
    with LessonStore(first.root / ".git" / "taskyard" / "lessons.jsonl", tmp_path / "index.db") as store:
        lessons = store.most_frequent(50)
    kinds = {lesson.failure_type for lesson in lessons}
    assert kinds >= {"check_failed", "verdict_refused", "conflict"}
    assert all(lesson.resolution for lesson in lessons)
    assert not any("CART-" in lesson.failure_msg for lesson in lessons if lesson.failure_type == "conflict")
    assert all(lesson.files for lesson in lessons)


def test_the_remote_passes_its_tests_and_only_the_boxes_of_the_board_changed(
    first: Demo, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--branch", TARGET, str(first.remote), str(clone)], check=True)
    tests = subprocess.run(
        [sys.executable, "-B", "-m", "unittest", "discover", "-s", "tests", "-t", "."], cwd=clone
    )
    assert tests.returncode == 0
    before = (first.root / "tasks" / "board.md").read_bytes()
    assert (clone / "tasks" / "board.md").read_bytes() == before.replace(b"| [ ] |", b"| [x] |")
    assert before.count(b"| [ ] |") == TASKS


def test_the_users_checkout_is_as_it_was(first: Demo) -> None:
    status = subprocess.run(
        ["git", "-C", str(first.root), "status", "--porcelain"], capture_output=True, text=True, check=True
    )
    assert status.stdout == ""
    branch = subprocess.run(
        ["git", "-C", str(first.root), "branch", "--show-current"], capture_output=True, text=True, check=True
    )
    assert branch.stdout == "main\n"


def test_each_landed_commit_says_whose_it_is(first: Demo) -> None:
    named = first.git(
        "log", "--no-merges", "--format=%(trailers:key=Taskyard-Task,valueonly,separator=)", TARGET
    )
    assert Counter(line for line in named.splitlines() if line) == {
        f"CART-{n}": 1 for n in range(1, TASKS + 1)
    }


def test_the_same_board_again_asks_no_model_and_lands_the_same_tree(first: Demo, tmp_path: Path) -> None:
    again = run_demo(tmp_path / "again", "--cache-dir", str(first.root / ".git" / "taskyard"))
    assert again.finished.landed == TASKS
    assert again.finished.model_calls == 0
    assert again.finished.batch_calls == 0
    assert again.finished.usd == 0
    assert again.finished.usd_saved == pytest.approx(first.finished.usd, rel=0.01)
    assert again.tree == first.tree


class Killed:
    """A demo whose run is killed and taken up, against a simulator that counts what it answered."""

    def __init__(self, folder: Path) -> None:
        self.project = make_demo(folder, fast=True)
        self.simulator = Simulator(load_scenario(self.project.scenario))
        self.events: list[AnyEvent] = []
        self.answered_before_a_kill: dict[str, int] = {}

    def start(self) -> subprocess.Popen[bytes]:
        return forked.Popen(
            [*PROGRAM, "run", "--json"],
            cwd=self.project.root,
            env={**environment(), "TASKYARD_LLM_BASE_URL": self.simulator.url, "ANTHROPIC_API_KEY": "demo"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run_until_killed(self, events: int) -> None:
        """Let the run print so many events, and kill it in the middle of whatever it does."""
        with self.start() as process:
            assert process.stdout is not None
            for _ in range(events):
                line = process.stdout.readline()
                assert line, process.stderr.read() if process.stderr else ""
                self.events.append(decode(line))
            process.kill()
            process.wait()
        logs = self.project.root / ".git" / "taskyard" / "logs"
        answered = self.simulator.stats().answered
        for record in logs.rglob("*.json"):
            request = msgspec.json.decode(record.read_bytes(), type=CallRecord).request
            # An answer that an earlier kill cut off on its way had to be asked for twice before it could be kept.
            digest = digest_of(request.params())
            self.answered_before_a_kill.setdefault(digest, answered[digest])

    def run_to_the_end(self) -> RunFinished:
        out, err = self.start().communicate(timeout=200)
        events = [decode(line) for line in out.splitlines()]
        self.events += events
        last = events[-1] if events else None
        assert isinstance(last, RunFinished), err.decode()
        return last


@pytest.mark.parametrize("kills", [(120,), (260, 140, 60)])
def test_kill_9_and_the_same_command_again(tmp_path: Path, kills: tuple[int, ...]) -> None:
    demo = Killed(tmp_path)
    with demo.simulator:
        for events in kills:
            demo.run_until_killed(events)
        finished = demo.run_to_the_end()
        stats = demo.simulator.stats()
    assert (finished.status, finished.landed) == ("landed", TASKS)
    remote = Demo(demo.project.root, demo.project.remote, tuple(demo.events))
    # A kill may come after a push and before anybody could note it.
    assert finished.pushes <= remote.pushes <= finished.pushes + len(kills)
    named = remote.git(
        "log", "--no-merges", "--format=%(trailers:key=Taskyard-Task,valueonly,separator=)", TARGET
    )
    assert Counter(line for line in named.splitlines() if line) == {
        f"CART-{n}": 1 for n in range(1, TASKS + 1)
    }
    assert demo.answered_before_a_kill, "the kills came after something had been paid for"
    later = {digest: stats.answered[digest] for digest in demo.answered_before_a_kill}
    assert later == demo.answered_before_a_kill, "what was kept before a kill is never asked for again"
    landed = Counter(event.task for event in demo.events if isinstance(event, TaskLanded))
    assert set(landed) <= {f"CART-{n}" for n in range(1, TASKS + 1)}
    run = next(event.run for event in demo.events if event.__class__.__name__ == "RunStarted")
    assert strays(run) == ()
    worktrees = subprocess.run(
        ["git", "-C", str(demo.project.root), "worktree", "list", "--porcelain"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "branch refs/heads/task/" not in worktrees
    git_folder = demo.project.root / ".git"
    # What lies in our own folder are files that locks are taken on, not locks.
    assert [path for path in git_folder.rglob("*.lock") if "taskyard" not in path.parts] == []
