"""The stores under a whole run: cycles seen by all who read them, prompts edited live, and a disk that is full."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from engine.demo import make_demo
from engine.events import AgentAsked, AnyEvent, CycleStarted, Measured, Noticed, RunFinished, decode
from engine.llm.simulator import Simulator, load_scenario
from engine.state import RunState
from tests import forked
from tests.cli.taskyard import PROGRAM, taskyard
from tests.sample_repository import SampleRepository

ROOT = Path(__file__).parents[2]
SHORT_CYCLES = (
    sys.executable,
    "-c",
    "import sys; from engine.recorder import JournalSink; from tui.cli import main; "
    "JournalSink.__init__.__kwdefaults__['cycle_bytes'] = 40_000; sys.exit(main())",
)
BOARD = """\
| ID | Scope | Status | Branch | Verification |
|----|-------|--------|--------|--------------|
| T1 | Write one file | [ ] | | `test -f T1.txt` |
| T2 | Write another | [ ] | | `test -f T2.txt` |
| T3 | Write a third | [ ] | | `test -f T3.txt` |
"""
# Keeps the prompt it was given, and waits for a word before it does its work.
AGENT = """\
import pathlib, re, sys, time
folder, prompt = pathlib.Path(sys.argv[1]), sys.stdin.read()
task = re.search(r"\\bT[0-9]\\b", prompt)[0]
(folder / (task + ".part")).write_text(prompt)
(folder / (task + ".part")).rename(folder / (task + ".prompt"))
while not (folder / (task + ".go")).exists():
    time.sleep(0.02)
pathlib.Path(task + ".txt").write_text(task)
"""


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


def state_of(lines: bytes) -> RunState:
    return RunState().apply_all(decode(line) for line in lines.splitlines())


def shown(state: RunState) -> bytes:
    return msgspec.json.encode(state.snapshot())


def test_a_run_of_many_cycles_is_resumed_watched_and_replayed_as_one(tmp_path: Path) -> None:
    demo = make_demo(tmp_path, fast=True)
    with Simulator(load_scenario(demo.scenario)) as simulator:
        environ = environment(TASKYARD_LLM_BASE_URL=simulator.url, ANTHROPIC_API_KEY="demo")
        command = [*SHORT_CYCLES, "run", "--json"]
        with forked.Popen(command, cwd=demo.root, env=environ, stdout=subprocess.PIPE) as first:
            assert first.stdout is not None
            for _ in range(200):
                assert first.stdout.readline()
            first.kill()
        with forked.Popen(command, cwd=demo.root, env=environ, stdout=subprocess.PIPE) as second:
            assert second.stdout is not None
            begun = second.stdout.readline()
            watch = forked.Popen(
                [*PROGRAM, "watch", "--json"], cwd=demo.root, env=environ, stdout=subprocess.PIPE
            )
            rest = second.stdout.read()
            watched, _ = watch.communicate(timeout=200)
        answered = simulator.stats().answered
    finished = decode(rest.splitlines()[-1])
    assert isinstance(finished, RunFinished)
    assert (finished.status, finished.landed) == ("landed", 14)
    assert begun
    replayed = taskyard("replay", "--json", at=demo.root).out.encode()
    whole = state_of(replayed)
    cycles = [event for event in map(decode, replayed.splitlines()) if isinstance(event, CycleStarted)]
    assert whole.run.cycle == len(cycles) + 1 >= 4
    assert whole.run.resumes == 1
    assert shown(state_of(watched)) == shown(whole)
    report = json.loads(taskyard("status", "--json", at=demo.root).out)
    assert report["run"]["cycle"] == whole.run.cycle
    assert report["counts"] == {"landed": 14}
    assert sum(answered.values()) >= len(answered) > 0


class Prompted:
    """A run of three tasks, one at a time, whose agent keeps each prompt and waits for leave."""

    def __init__(self, made: SampleRepository, folder: Path) -> None:
        self.folder = folder
        self.prompts = made.path / ".taskyard" / "prompts"
        (folder / "agent.py").write_text(AGENT)
        command = json.dumps([sys.executable, str(folder / "agent.py"), str(folder)])
        roles = "".join(f'[roles.{role}]\nkind = "none"\n' for role in ("planner", "judge"))
        settings = (
            f'[run]\nmax_concurrency = 1\n{roles}[roles.implementer]\nkind = "command"\ncommand = {command}\n'
        )
        made.commit("Plan", {"tasks/board.md": BOARD, "taskyard.toml": settings})
        made.git("push", "--quiet")
        self.process = forked.Popen(
            [*PROGRAM, "run", "--json"], cwd=made.path, env=environment(), stdout=subprocess.PIPE
        )
        self.events: list[AnyEvent] = []

    def until(self, condition: Callable[[AnyEvent], bool]) -> AnyEvent:
        """Read events up to one that fits."""
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            self.events.append(decode(line))
            if condition(self.events[-1]):
                return self.events[-1]
        raise AssertionError("the run ended before")

    def notice(self, words: str) -> Noticed:
        found = self.until(lambda event: isinstance(event, Noticed) and words in event.text)
        assert isinstance(found, Noticed)
        return found

    def prompt(self, task: str) -> str:
        """The prompt of a task whose work has begun and ended."""
        (self.folder / f"{task}.go").touch()
        self.until(
            lambda event: event.__class__.__name__ == "Verified" and getattr(event, "task", "") == task
        )
        return (self.folder / f"{task}.prompt").read_text()

    def edit(self, text: str) -> None:
        self.prompts.mkdir(parents=True, exist_ok=True)
        (self.prompts / "agent_task.md.j2").write_text(text)


def test_an_edited_prompt_is_in_use_at_once_and_a_broken_one_never_is(
    repo: Callable[..., SampleRepository], tmp_path: Path
) -> None:
    run = Prompted(repo(), tmp_path)
    with run.process:
        run.until(lambda event: isinstance(event, AgentAsked))
        run.edit('{% include "task" %}\nAnswer in Latin.\n')
        assert "prompt agent_task was edited and is in use" in run.notice("agent_task").text
        first = run.prompt("T1")
        run.until(lambda event: event.__class__.__name__ == "StageStarted")
        run.edit("{% include")
        broken = run.notice("cannot be used")
        (run.folder / "T2.go").touch()
        second, third = run.prompt("T2"), run.prompt("T3")
        finished = run.until(lambda event: isinstance(event, RunFinished))
    assert "Answer in Latin." not in first
    assert "Answer in Latin." in second
    assert "Answer in Latin." in third, "the last good one"
    assert broken.level == "error"
    assert "agent_task.md.j2" in broken.text
    assert isinstance(finished, RunFinished)
    assert finished.landed == 3
    texts = [notice.text for notice in RunState().apply_all(run.events).snapshot().notices]
    assert sum("agent_task" in text for text in texts) == 2, "the screen's list of notices, each told once"


def _can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", "mount -t tmpfs none /mnt"], capture_output=True, check=False
    )
    return tried.returncode == 0


@pytest.mark.skipif(not _can_mount(), reason="no user namespaces here")
def test_a_run_without_room_for_its_journal_does_not_begin(tmp_path: Path) -> None:
    demo = make_demo(tmp_path / "demo", tasks=2, fast=True)
    small = tmp_path / "small"
    small.mkdir()
    script = """mount -t tmpfs -o size=64k none "$0" && for words in run\\ --headless status history doctor
    do "$@" $words 2>&1; echo "$words: $?"; done"""
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", script, str(small), *PROGRAM],
        cwd=demo.root,
        env=environment(TASKYARD_RUN_STATE_DIR=str(small), ANTHROPIC_API_KEY="demo"),
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert f"the disk is full: no room for the journal in {small}: free some space" in done.stdout
    assert "✗ disk" in done.stdout
    assert [line for line in done.stdout.splitlines() if line[-3:-1] == ": "] == [
        "run --headless: 2",
        "status: 2",
        "history: 0",
        "doctor: 1",
    ]


@pytest.mark.skipif(not _can_mount(), reason="no user namespaces here")
def test_a_run_whose_cache_has_a_full_disk_goes_on_uncached_and_says_so(tmp_path: Path) -> None:
    demo = make_demo(tmp_path / "demo", tasks=5, fast=True)
    small = tmp_path / "small"
    small.mkdir()
    script = 'mount -t tmpfs -o size=256k none "$0" && exec "$@"'
    with Simulator(load_scenario(demo.scenario)) as simulator:
        done = subprocess.run(
            ["unshare", "-Urm", "sh", "-c", script, str(small), *PROGRAM, "run", "--json"],
            cwd=demo.root,
            env=environment(
                TASKYARD_LLM_BASE_URL=simulator.url,
                TASKYARD_RUN_CACHE_DIR=str(small),
                ANTHROPIC_API_KEY="demo",
            ),
            capture_output=True,
            timeout=200,
        )
    events = [decode(line) for line in done.stdout.splitlines()]
    finished = events[-1] if events else None
    assert isinstance(finished, RunFinished), done.stderr.decode()
    assert (done.returncode, finished.status, finished.landed) == (0, "landed", 5)
    measured = [event.results for event in events if isinstance(event, Measured) and event.results]
    assert any("full" in figures.disabled for figures in measured)
    (told,) = {
        event.text for event in events if isinstance(event, Noticed) and "result cache is off" in event.text
    }
    assert "full" in told
