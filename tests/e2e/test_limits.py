"""What ends a run before its board does: the budget, a signal, a killed process with a busy agent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.demo import make_demo
from engine.events import (
    AnyEvent,
    AttemptStarted,
    BudgetReached,
    CallAnswered,
    CallFailed,
    Noticed,
    RunFinished,
    RunResumed,
    RunStarted,
    decode,
)
from engine.llm.simulator import Fault, Scenario, Simulator, load_scenario
from engine.process import strays
from tests import forked
from tests.cli.taskyard import PROGRAM
from tests.sample_repository import SampleRepository

ROOT = Path(__file__).parents[2]
BOARD = """\
| ID | Scope | Status | Branch | Verification |
|----|-------|--------|--------|--------------|
| T1 | Write one file | [ ] | | `test -f T1.txt` |
| T2 | Write another | [ ] | | `test -f T2.txt` |
"""
# The first time it starts a child and waits for ever; once `go` exists it does its work.
AGENT = """\
import pathlib, re, subprocess, sys
task = re.search(r"\\bT[0-9]\\b", sys.stdin.read())[0]
if not pathlib.Path(sys.argv[1]).exists():
    subprocess.run([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path(task + ".txt").write_text(task)
"""


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


def run(at: Path, *args: str, **environ: str) -> tuple[int, list[AnyEvent]]:
    done = forked.run(
        [*PROGRAM, "run", "--json", *args],
        cwd=at,
        env=environment(**environ),
        timeout=200,
    )
    return done.returncode, [decode(line) for line in done.stdout.splitlines()]


def test_a_budget_is_never_passed_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    demo = make_demo(tmp_path, tasks=5, fast=True)
    with Simulator(load_scenario(demo.scenario)) as simulator:
        # Small answers keep the worst case of a call small beside the budget.
        service = {
            "TASKYARD_LLM_BASE_URL": simulator.url,
            "TASKYARD_LLM_MAX_TOKENS": "1500",
            "ANTHROPIC_API_KEY": "demo",
        }
        status, events = run(demo.root, "--budget", "0.07", **service)
        stopped = events[-1]
        assert isinstance(stopped, RunFinished)
        assert (status, stopped.status) == (3, "budget")
        assert 0 < stopped.usd <= 0.07
        assert stopped.waiting == stopped.total - stopped.landed > 0, "the next run goes on with all of them"
        assert any(isinstance(event, BudgetReached) and event.next_usd > 0 for event in events)
        status, events = run(demo.root, "--budget", "30", **service)
        finished = events[-1]
        assert isinstance(finished, RunFinished)
        assert (status, finished.landed) == (0, 5)
        assert finished.usd > stopped.usd
        resumed = next(event for event in events if isinstance(event, RunResumed))
        assert resumed.setup is not None
        assert resumed.setup.budget_usd == 30
        assert max(simulator.stats().answered.values()) == 1


@pytest.fixture
def busy(repo: Callable[..., SampleRepository], tmp_path: Path) -> tuple[SampleRepository, Path]:
    """A project whose agent hangs until the second path exists."""
    made = repo({"README.md": "# Shop\n"})
    go = tmp_path / "go"
    (tmp_path / "agent.py").write_text(AGENT)
    command = json.dumps([sys.executable, str(tmp_path / "agent.py"), str(go)])
    roles = "".join(f'[roles.{role}]\nkind = "none"\n' for role in ("planner", "judge"))
    settings = f'{roles}[roles.implementer]\nkind = "command"\ncommand = {command}\n[git]\nmax_age = "600s"\n'
    made.commit("Plan", {"tasks/board.md": BOARD, "taskyard.toml": settings})
    made.git("push", "--quiet")
    return made, go


def start(at: Path) -> subprocess.Popen[bytes]:
    return forked.Popen([*PROGRAM, "run", "--json"], cwd=at, env=environment(), stdout=subprocess.PIPE)


def read_until_agents_work(process: subprocess.Popen[bytes], run_id: list[str]) -> None:
    """Read events until two attempts began and their agents have started their children."""
    assert process.stdout is not None
    begun = 0
    while begun < 2:
        event = decode(process.stdout.readline())
        begun += isinstance(event, AttemptStarted)
        if isinstance(event, RunStarted):
            run_id.append(event.run)
    deadline = time.monotonic() + 90
    while len(strays(run_id[0])) < 4:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_kill_9_leaves_agents_that_the_next_run_ends(busy: tuple[SampleRepository, Path]) -> None:
    made, go = busy
    run_id: list[str] = []
    with start(made.path) as process:
        read_until_agents_work(process, run_id)
        process.kill()
    assert len(strays(run_id[0])) >= 4, "nobody is left to end them"
    go.touch()
    status, events = run(made.path)
    finished = events[-1]
    assert isinstance(finished, RunFinished)
    assert (status, finished.landed, finished.pushes) == (0, 2, 1)
    assert strays(run_id[0]) == ()
    assert made.pushes("taskyard/board") == 1


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_run_and_its_agents(
    busy: tuple[SampleRepository, Path], number: int, status: int
) -> None:
    made, go = busy
    run_id: list[str] = []
    with start(made.path) as process:
        read_until_agents_work(process, run_id)
        process.send_signal(number)  # the agents would go on for ten minutes
        out = process.stdout.read() if process.stdout else b""
        process.wait(timeout=200)
    last = decode(out.splitlines()[-1])
    assert isinstance(last, RunFinished)
    assert (process.returncode, last.status) == (status, "interrupted")
    assert strays(run_id[0]) == ()
    go.touch()
    again, events = run(made.path)
    finished = events[-1]
    assert isinstance(finished, RunFinished)
    assert (again, finished.landed) == (0, 2)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("command", "cannot start "),
        ("anthropic", "key"),
    ],
)
def test_what_no_task_can_mend_stops_the_run_and_gives_nothing_up(
    repo: Callable[..., SampleRepository], tmp_path: Path, kind: str, words: str
) -> None:
    made = repo({"README.md": "# Shop\n"})
    (tmp_path / "agent").write_text("#!/nowhere/python\n")  # it is there, and yet cannot start
    (tmp_path / "agent").chmod(0o755)
    roles = "".join(f'[roles.{role}]\nkind = "none"\n' for role in ("planner", "judge"))
    agent = f'kind = "{kind}"\n' + f"command = [{json.dumps(str(tmp_path / 'agent'))}]\n" * (
        kind == "command"
    )
    made.commit("Plan", {"tasks/board.md": BOARD, "taskyard.toml": f"{roles}[roles.implementer]\n{agent}"})
    made.git("push", "--quiet")
    refusing = Scenario(faults=(Fault(kind="unauthorized", times=1000),))
    with Simulator(refusing) as simulator:
        service = {"TASKYARD_LLM_BASE_URL": simulator.url, "ANTHROPIC_API_KEY": "sk-wrong"}
        done = forked.run(
            [*PROGRAM, "run", "--json"],
            cwd=made.path,
            env=environment(**service),
            timeout=200,
        )
    finished = decode(done.stdout.splitlines()[-1])
    assert isinstance(finished, RunFinished)
    assert (done.returncode, finished.exit_status, finished.status) == (2, 2, "interrupted")
    assert (finished.failed, finished.landed) == (0, 0)
    assert words in done.stderr.decode()
    assert "sk-wrong" not in done.stderr.decode() + done.stdout.decode()
    assert made.pushes("taskyard/board") == 0


def test_no_run_is_begun_without_its_agent(repo: Callable[..., SampleRepository], tmp_path: Path) -> None:
    """Ten planners were paid for, until the first of them had done: then nobody could take its plan."""
    made = repo({"README.md": "# Shop\n"})
    asked = tmp_path / "asked"
    planner = json.dumps(["/bin/sh", "-c", f"touch {asked}"])
    settings = (
        f'[roles.planner]\nkind = "command"\ncommand = {planner}\n[roles.judge]\nkind = "none"\n'
        '[roles.implementer]\nkind = "command"\ncommand = ["no-such-agent"]\n'
    )
    made.commit("Plan", {"tasks/board.md": BOARD, "taskyard.toml": settings})
    made.git("push", "--quiet")
    done = forked.run([*PROGRAM, "run", "--json"], cwd=made.path, env=environment(), timeout=60)
    assert (done.returncode, done.stdout) == (2, b"")
    hint = "install it, or set [roles.implementer] command to its whole path"
    assert done.stderr.decode() == f"taskyard: the agent command no-such-agent is not on PATH: {hint}\n"
    assert not asked.exists()


def test_a_model_without_a_price_is_refused_under_a_budget_and_counted_without_one(tmp_path: Path) -> None:
    demo = make_demo(tmp_path, tasks=1, fast=True)
    scenario = load_scenario(demo.scenario)
    with Simulator(replace(scenario, models=(*scenario.models, "claude-nobody-1"))) as simulator:
        service = {
            "TASKYARD_LLM_BASE_URL": simulator.url,
            "TASKYARD_ROLES_PLANNER_MODEL": "claude-nobody-1",
            "ANTHROPIC_API_KEY": "demo",
        }
        status, events = run(demo.root, "--budget", "5", **service)
        refused = events[-1]
        assert isinstance(refused, RunFinished)
        assert (status, refused.status, refused.usd) == (3, "budget", 0.0)
        assert not simulator.stats().answered, "nothing was asked"
        told = [event.text for event in events if isinstance(event, Noticed)]
        told += [event.error for event in events if isinstance(event, CallFailed)]
        assert any("price of claude-nobody-1 is not known" in text for text in told)
        # The demo's own settings hold a budget; a plain run has none.
        settings = demo.root / "taskyard.toml"
        settings.write_text(settings.read_text().replace("[budget]\nusd = 25.0", ""))
        status, events = run(demo.root, **service)
        finished = events[-1]
        assert isinstance(finished, RunFinished)
        assert (status, finished.landed) == (0, 1)
        planned = next(event for event in events if isinstance(event, CallAnswered))
        assert planned.usd is None
        assert planned.usage.total > 0
