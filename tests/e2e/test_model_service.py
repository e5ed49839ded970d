"""The model service as whole runs meet it: batches, storms of failures, kill -9, shared prefixes, and secrets."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from engine.bus import Bus
from engine.events import (
    AnyEvent,
    BatchCreating,
    BatchPolled,
    BatchSubmitted,
    CallAnswered,
    Event,
    Noticed,
    TaskEnded,
    TasksAdded,
    decode,
)
from engine.llm.messages import Prefix
from engine.llm.prefixes import PrefixLeader, Turn
from engine.llm.simulator import Batches, Fault, RandomFaults, Scenario, Simulator
from engine.model import AnswerSource, Lane, Role
from engine.orchestrator import Orchestrator
from engine.parts import Parts
from engine.settings import load_settings
from engine.thread import EngineThread
from tests import forked
from tests.e2e.many_tasks import ANSWERS, environment, make_project, run, start
from tests.sample_repository import SampleRepository
from tui.app import DashboardApp
from tui.screens.task import SECTIONS
from tui.source import RecordedSource

BATCHES = "[llm]\nbatch_size = 5000\nbatch_age = '60s'\n"
LANDED_BY = "--format=%(trailers:key=Taskyard-Task,valueonly,separator=)"


def landed_commits(made: SampleRepository) -> Counter[str]:
    named = made.git("log", "--no-merges", LANDED_BY, "taskyard/board", at=made.remote)
    return Counter(line for line in named.splitlines() if line)


def test_each_role_of_all_economy_tasks_is_one_batch_call(tmp_path: Path) -> None:
    tasks = 12
    made = make_project(tmp_path / "shop", tasks, lane="economy", settings=BATCHES)
    with Simulator(Scenario(answers=ANSWERS, batches=Batches(seconds=0.3, results="reversed"))) as simulator:
        ran = run(made.path, simulator.url)
        stats = simulator.stats()
    assert (ran.status, ran.finished.landed) == (0, tasks), ran.errors
    sent = [(event.role, len(event.tasks)) for event in ran.of(BatchSubmitted)]
    assert sent == [(Role.PLANNER, tasks), (Role.IMPLEMENTER, tasks), (Role.JUDGE, tasks)]
    assert (len(stats.batches), stats.batch_items) == (3, 3 * tasks)
    assert "POST /v1/messages" not in stats.requests
    assert set(stats.answered.values()) == {1}
    # Each answer came to its own task, though the results were in reverse.
    for number in (1, tasks):
        text = made.git("show", f"taskyard/board:t{number}.txt", at=made.remote)
        assert text == f"T{number}"


def test_a_storm_of_every_failure_lands_everything_and_pays_each_answer_once(tmp_path: Path) -> None:
    tasks, silence, under_way = 60, 6.0, 5.0
    made = make_project(
        tmp_path / "shop",
        tasks,
        kinds={"planner": "none"},
        settings="[run]\nmax_concurrency = 32\n[llm]\nmax_concurrency = 32\nidle_timeout = '10s'\n",
    )
    every = RandomFaults(
        rate=0.25,
        seed=7,
        retry_after=silence,
        kinds=(*RandomFaults(rate=0).kinds, "stalled", "timeout"),
    )
    scenario = Scenario(answers=ANSWERS, latency=0.02, tokens_per_second=100_000.0, random_faults=every)
    with Simulator(scenario) as simulator:
        ran = run(made.path, simulator.url, timeout=200)
        stats, log = simulator.stats(), simulator.log
    assert (ran.status, ran.finished.landed) == (0, tasks), ran.errors
    assert landed_commits(made) == {f"T{n}": 1 for n in range(1, tasks + 1)}
    assert set(stats.faults) == set(every.kinds), "every way of failing happened"
    assert set(stats.answered.values()) == {1}, "no answer was paid twice"
    assert len(stats.answered) == ran.finished.model_calls
    # Whoever fails has to be asked again; beyond that nothing is.
    needed = len(stats.answered) + sum(stats.faults.values())
    assert sum(stats.calls.values()) <= 1.2 * needed
    # Calls on their way when the 429 is told still arrive; once it was heard nobody calls until the pause is over.
    assert stats.statuses["429"] >= 3
    assert [entry for entry in log if 0 < entry.paused < silence - under_way] == []


def is_batch_answer(event: AnyEvent) -> bool:
    return isinstance(event, CallAnswered) and event.source is AnswerSource.BATCH


MOMENTS: dict[str, Callable[[AnyEvent], bool]] = {
    "about to be created": lambda event: isinstance(event, BatchCreating),
    "id journaled": lambda event: isinstance(event, BatchSubmitted),
    "polling": lambda event: isinstance(event, BatchPolled),
    "results": is_batch_answer,
}


def kill_when_known_to(simulator: Simulator, process: subprocess.Popen[bytes]) -> None:
    """Kill a run with SIGKILL as soon as the service has a batch of it, whose id it does not tell."""
    with process:
        deadline = time.monotonic() + 90
        while not simulator.stats().batches:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.kill()
        assert process.stdout is not None
        assert not any(isinstance(decode(line), BatchSubmitted) for line in process.stdout)


def kill_when(process: subprocess.Popen[bytes], reached: Callable[[AnyEvent], bool]) -> None:
    """Kill a run with SIGKILL at the first event that fits."""
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            if reached(decode(line)):
                break
        process.kill()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("moment", [*MOMENTS, "id unknown"])
def test_kill_9_around_a_batch_leaves_one_batch_and_every_answer_is_used_once(
    tmp_path: Path, moment: str
) -> None:
    tasks = 6
    made = make_project(
        tmp_path / "shop", tasks, lane="economy", kinds={"planner": "none", "judge": "none"}, settings=BATCHES
    )
    # The service makes the batch, but its answer with the id never arrives.
    silent = (Fault(kind="stalled", endpoint="batches.create"),) if moment == "id unknown" else ()
    scenario = Scenario(answers=ANSWERS, faults=silent, batches=Batches(seconds=1.0))
    with Simulator(scenario) as simulator:
        process = start(made.path, simulator.url)
        if moment == "id unknown":
            kill_when_known_to(simulator, process)
        else:
            kill_when(process, MOMENTS[moment])
        ran = run(made.path, simulator.url)
        stats = simulator.stats()
    assert (ran.status, ran.finished.landed) == (0, tasks), ran.errors
    assert (len(stats.batches), stats.batch_items) == (1, tasks)
    assert "POST /v1/messages" not in stats.requests
    assert set(stats.answered.values()) == {1}
    assert landed_commits(made) == {f"T{n}": 1 for n in range(1, tasks + 1)}
    # The bill has every answer once, whichever of the two processes got it.
    assert ran.finished.tokens.output == stats.tokens["output_tokens"]


@pytest.mark.parametrize(("leading", "writes", "latency"), [(True, 1, 1.0), (False, 16, 5.0)])
async def test_sixteen_tasks_write_their_shared_prefix_once_and_read_it_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leading: bool, writes: int, latency: float
) -> None:
    tasks = 16
    # A list of files with such names is a repository context of about 20,000 tokens.
    folders = "/".join(["a_folder_of_the_warehouse_with_a_long_name"] * 6)
    listed = {f"{folders}/{n:03}.py": "" for n in range(300)}
    settings = f"[run]\nmax_concurrency = {tasks}\n[llm]\nmax_concurrency = {tasks}\n"
    made = make_project(
        tmp_path / "shop",
        tasks,
        kinds={"planner": "none", "judge": "none"},
        settings=settings,
        files=listed,
    )
    # However slow this machine is, the one that leads is waited for; without one, all ask in the same moment.
    leader = partial(PrefixLeader, patience=100.0) if leading else partial(NobodyLeads, calls=tasks)
    monkeypatch.setattr("engine.llm.client.PrefixLeader", leader)
    heard: list[CallAnswered] = []
    bus = Bus()
    bus.subscribe(lambda event: heard.append(event) if isinstance(event, CallAnswered) else None)
    with Simulator(Scenario(answers=ANSWERS, latency=latency, tokens_per_second=10_000.0)) as simulator:
        environ = environment(simulator.url, XDG_STATE_HOME=str(tmp_path / "state"))
        opened = await Orchestrator.open(load_settings(made.path, environ=environ), bus=bus, environ=environ)
        finished = await opened.run()
    assert finished.landed == tasks
    first = {event.task: event for event in reversed(heard)}
    wrote = [event for event in first.values() if event.usage.cache_write_5m > 15_000]
    read = [event for event in first.values() if event.usage.cache_read > 15_000]
    assert (len(first), len(wrote), len(read)) == (tasks, writes, tasks - writes)
    later = [event for event in heard if first[event.task] is not event]
    assert later
    assert all(event.usage.cache_read > 15_000 for event in later)


class NobodyLeads(PrefixLeader):
    """What would happen without the lead call: the measure of what it saves. The first `calls` go out together."""

    def __init__(self, *, calls: int, monotonic: Callable[[], float]) -> None:
        super().__init__(monotonic=monotonic)
        self._to_come = calls
        self._all_here = asyncio.Event()

    @asynccontextmanager
    async def turn(self, prefixes: Sequence[Prefix]) -> AsyncIterator[Turn]:
        self._to_come -= 1
        if self._to_come == 0:
            self._all_here.set()
        await self._all_here.wait()
        async with super().turn(()) as turn:
            yield turn


async def test_the_key_is_nowhere_but_in_the_requests(tmp_path: Path) -> None:
    key = "sk-ant-api03-RECOGNISABLE-0123456789abcdef"
    # The first row's check looks into its own environment; the second role is a command, and does the same.
    made = make_project(tmp_path / "shop", 3, kinds={"judge": "command"})
    judge = 'cat > /dev/null; env; echo \'{"approved": true, "reason": "fine"}\''
    made.commit(
        "Judge by a command, and check by looking around",
        {
            "taskyard.toml": (made.path / "taskyard.toml").read_text()
            + f"command = {json.dumps(['/bin/sh', '-c', judge])}\n[verify]\ncommand = 'env'\n",
            "tasks/board.md": (made.path / "tasks/board.md")
            .read_text()
            .replace("`test -f t1.txt`", "`env; test -f t1.txt`"),
            ".githooks/pre-commit": "#!/bin/sh\nenv\n",
        },
    )
    made.git("push", "--quiet")
    refused = (
        Fault(kind="server_error", role="planner", task="T1"),
        Fault(kind="html", role="planner", task="T2"),
    )
    state = tmp_path / "state"
    with Simulator(Scenario(answers=ANSWERS, faults=refused, api_key=key)) as simulator:
        ran = run(made.path, simulator.url, ANTHROPIC_API_KEY=key, XDG_STATE_HOME=str(state))
        # And a key that the service refuses, which the error must not repeat.
        other = make_project(tmp_path / "other", 1)
        wrong = key.replace("0123", "9999")
        failed = run(other.path, simulator.url, ANTHROPIC_API_KEY=wrong, XDG_STATE_HOME=str(state))
    assert (ran.status, ran.finished.landed) == (0, 3), ran.of(TaskEnded)
    assert (failed.status, "the key is refused" in failed.errors) == (2, True), failed.errors
    printed = "".join(map(repr, (*ran.events, *failed.events))) + ran.errors + failed.errors
    assert "RECOGNISABLE" not in printed
    kept = [
        path
        for folder in (made.path, made.remote, other.path, state)
        for path in folder.rglob("*")
        if path.is_file()
    ]
    logs = [path for path in kept if path.suffix == ".log" and b"TASKYARD_RUN=" in path.read_bytes()]
    assert logs, "the children did print their environment"
    assert {"state.db", "cache.db"} <= {path.name for path in kept}
    assert [path for path in kept if b"RECOGNISABLE" in path.read_bytes()] == []
    pictures = [picture async for picture in screens(ran.events)] + [p async for p in screens(failed.events)]
    assert any("TASKYARD_RUN" in picture for picture in pictures), (
        "the log on the screen is that of such a child"
    )
    assert not any("RECOGNISABLE" in picture for picture in pictures)


async def screens(events: Sequence[AnyEvent]) -> AsyncIterator[str]:
    """Give a picture of the main screen, and of every section of the first task's."""
    app = DashboardApp(RecordedSource(events))
    async with app.run_test(size=(160, 80)) as pilot:
        await pilot.pause()
        yield app.export_screenshot()
        app.open_task("T1")
        for section in range(1, len(SECTIONS) + 1):
            await pilot.press(str(section))
            await pilot.pause()
            await app.workers.wait_for_complete()  # which read its log, its diff or its call
            await pilot.pause()
            yield app.export_screenshot()


def test_ctrl_c_leaves_no_request_in_flight_and_a_batch_that_the_next_run_picks_up(tmp_path: Path) -> None:
    tasks = 5
    made = make_project(tmp_path / "shop", tasks, lane="economy", kinds={"planner": "none", "judge": "none"})
    with Simulator(Scenario(answers=ANSWERS, batches=Batches(seconds=2.0))) as simulator:
        process = start(made.path, simulator.url)
        assert process.stdout is not None
        for line in process.stdout:
            if isinstance(decode(line), BatchSubmitted):
                break
        process.send_signal(signal.SIGINT)
        stopped = [decode(line) for line in process.stdout]
        process.wait(timeout=200)
        assert process.returncode == 130
        assert simulator.wait(
            lambda stats: not stats.in_flight
        )  # it hears a moment later that nobody is there
        told = [event.text for event in stopped if isinstance(event, Noticed)]
        assert any("goes on at the service; the next run picks" in text for text in told), stopped
        ran = run(made.path, simulator.url)
        stats = simulator.stats()
    assert (ran.status, ran.finished.landed) == (0, tasks), ran.errors
    assert (len(stats.batches), set(stats.answered.values())) == (1, {1})


# A dashboard's engine whose person quits, and says that the batches shall be cancelled.
QUITS = """
import os, pathlib, time
from engine.parts import Parts
from engine.settings import load_settings
from engine.thread import EngineThread
engine = EngineThread(load_settings(pathlib.Path.cwd(), environ=os.environ), os.environ)
engine.start()
while not engine.latest().batches:
    time.sleep(0.01)
engine.control.cancel_batches()
assert engine.stop(90) and engine.error is None
"""


def test_batches_are_cancelled_with_the_run_where_a_person_says_so(tmp_path: Path) -> None:
    tasks = 4
    made = make_project(tmp_path / "shop", tasks, lane="economy", kinds={"planner": "none", "judge": "none"})
    with Simulator(Scenario(answers=ANSWERS, batches=Batches(seconds=20.0))) as simulator:
        quitting = forked.run(
            [sys.executable, "-c", QUITS], cwd=made.path, env=environment(simulator.url), timeout=60
        )
        assert quitting.returncode == 0, quitting.stderr
        assert simulator.wait(lambda stats: not stats.in_flight)
        stats = simulator.stats()
        assert stats.requests["POST /v1/messages/batches/{id}/cancel"] == 1
        assert stats.answered == {}
        # The next run asks anew: nobody meant the tasks to stay without an answer.
        ran = run(made.path, simulator.url)
        stats = simulator.stats()
    assert (ran.status, ran.finished.landed) == (0, tasks), ran.of(TaskEnded)
    assert set(stats.answered.values()) == {1}


def test_a_lane_changed_in_the_middle_takes_the_task_out_of_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_project(
        tmp_path / "shop", 2, lane="economy", kinds={"planner": "none", "judge": "none"}, settings=BATCHES
    )
    heard: list[Event] = []
    # The batch leaves when all tasks wait for it, which might be before anybody could say a word.
    moved, send = threading.Event(), Parts._send_batches
    monkeypatch.setattr(Parts, "_send_batches", lambda parts: send(parts) if moved.is_set() else None)
    with Simulator(Scenario(answers=ANSWERS, batches=Batches(seconds=0.2))) as simulator:
        environ = environment(simulator.url)
        engine = EngineThread(
            load_settings(made.path, environ=environ), environ, linger=False, listener=heard.append
        )
        engine.start()
        until(
            lambda: any(each.name == "model requests" and each.queued == 2 for each in engine.latest().queues)
        )
        engine.control.set_lane("T1", Lane.FAST)
        until(lambda: any(isinstance(event, TasksAdded) for event in tuple(heard)))
        moved.set()
        until(lambda: engine.done)
        assert engine.error is None
        stats = simulator.stats()
    assert engine.finished is not None
    assert engine.finished.landed == 2
    moved = [event for event in heard if isinstance(event, TasksAdded)]
    assert [(task.id, task.lane) for event in moved for task in event.tasks] == [("T1", Lane.FAST)]
    assert stats.batch_items == 1
    assert stats.requests["POST /v1/messages"] >= 1
    assert set(stats.answered.values()) == {1}


def until(condition: Callable[[], bool], seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)
