"""The engine in its thread: real runs with a shell script as the agent, started, commanded and stopped from outside."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import orchestrator
from engine.errors import PreflightError
from engine.events import Event, Noticed, StageStarted, TaskReopened, TrainMoved
from engine.following import Follower
from engine.model import Lane, TaskState
from engine.parts import Parts
from engine.process import strays
from engine.settings import load_settings
from engine.store.journal import Journal
from engine.store.journal_reader import JournalReader
from engine.store.run_log import RunRow
from engine.thread import EngineThread
from tests.sample_repository import SampleRepository

BOARD = """\
| ID | Scope | Status | Branch | Verification |
|---|---|---|---|---|
| A | one | [ ] | | `test -s work.txt` |
| B | two | [ ] | | `test -s work.txt` |
"""
WORKS = "cat > /dev/null; mkdir -p done; basename $PWD > done/$(basename $PWD).txt; echo x > work.txt"
SLEEPS = "sleep 600"
PATIENCE = 90.0  # seconds: far less than the agents would sleep
MakeEngine = Callable[..., EngineThread]


@pytest.fixture
def engine(repo: Callable[..., SampleRepository], tmp_path: Path) -> Iterator[MakeEngine]:
    made: list[EngineThread] = []

    def make(
        agent: str = WORKS, *, folder: Path | None = None, check: str = "true", **options: Any
    ) -> EngineThread:
        root = folder or repo({"tasks/board.md": BOARD}).path
        overrides = {
            "roles.planner.kind": "none",
            "roles.judge.kind": "none",
            "roles.implementer.kind": "command",
            "roles.implementer.command": ["/bin/sh", "-c", agent],
            "git.max_age": "0.2s",
            "verify.command": check,
        }
        environ = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
        settings = load_settings(root, overrides=overrides, environ={})
        made.append(EngineThread(settings, environ, **options))
        return made[-1]

    yield make
    for each in made:
        each.stop(PATIENCE)


def until(condition: Callable[[], object], seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def test_a_run_goes_to_its_end_and_is_seen_from_outside(engine: MakeEngine) -> None:
    heard: list[Event] = []
    running = engine(linger=False, listener=heard.append)
    assert not running.done
    running.start()
    until(lambda: running.done)
    assert running.error is None
    assert running.finished is not None
    assert running.finished.status == "landed"
    snapshot = running.latest()
    assert snapshot.run.finished == running.finished == heard[-1]
    assert snapshot.counts == {TaskState.LANDED: 2}


def test_a_lingering_engine_waits_for_commands_and_stops_when_told(engine: MakeEngine) -> None:
    running = engine(linger=True)
    running.start()
    until(lambda: running.latest().run.finished is not None)
    assert not running.done
    assert running.stop(PATIENCE)
    assert running.done
    assert running.error is None


def test_stopping_ends_what_runs_and_leaves_no_process(engine: MakeEngine) -> None:
    running = engine(SLEEPS, linger=True)
    running.start()
    until(lambda: running.latest().count(TaskState.RUNNING) == 2)
    run = running.latest().run.run
    until(lambda: len(strays(run)) >= 2)
    assert running.stop(PATIENCE)
    assert running.error is None
    assert running.finished is not None
    assert running.finished.status == "interrupted"
    assert strays(run) == ()


def test_stopping_ends_the_check_of_a_train_and_keeps_its_cargo_queued(
    engine: MakeEngine, repo: Callable[..., SampleRepository]
) -> None:
    sample = repo({"tasks/board.md": BOARD})
    heard: list[Event] = []
    running = engine(
        folder=sample.path, check="test $(ls done | wc -l) -lt 2 || sleep 600", listener=heard.append
    )
    running.start()
    until(lambda: any(isinstance(event, TrainMoved) and event.stage == "verify" for event in tuple(heard)))
    run = running.latest().run.run
    until(lambda: strays(run))
    assert running.stop(PATIENCE)
    assert running.error is None
    assert heard[-1] is running.finished
    assert strays(run) == ()
    assert running.latest().counts == {TaskState.TO_LAND: 2}
    queued = sample.git("for-each-ref", "--format=%(refname)", "refs/taskyard/queue")
    assert [ref.rpartition("/")[2].partition("-")[0] for ref in queued.split()] == ["a", "b"]


def test_stopping_at_any_moment_of_the_start_is_soon_done(engine: MakeEngine) -> None:
    running = engine(SLEEPS)
    running.start()
    assert running.stop(PATIENCE)
    assert running.error is None


def test_who_stops_as_the_run_is_claimed_leaves_no_run(
    engine: MakeEngine, repo: Callable[..., SampleRepository], monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, claimed, go_on = Journal.claim, threading.Event(), threading.Event()

    def slowly(*args: Any, **options: Any) -> Any:
        done = claim(*args, **options)
        claimed.set()
        go_on.wait(30)
        return done

    monkeypatch.setattr(Journal, "claim", slowly)
    root = repo({"tasks/board.md": BOARD}).path
    running = engine(SLEEPS, folder=root)
    running.start()
    assert claimed.wait(PATIENCE)
    # Its thread still waits for the claim, which nobody waits for any more.
    assert not running.stop(0.5)
    go_on.set()
    until(lambda: running.done)
    assert running.error is None
    reader = JournalReader(root / ".git" / "taskyard" / "state.db", root / ".git" / "taskyard" / "archive")
    assert reader.runs() == ()
    reader.close()


def test_an_engine_that_never_started_stops_at_once(engine: MakeEngine) -> None:
    running = engine()
    running.control.pause()
    assert running.stop(PATIENCE)
    assert not running.done


def test_what_keeps_a_run_from_starting_is_an_error_with_words(engine: MakeEngine, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    running = engine(folder=empty)
    running.start()
    until(lambda: running.done)
    assert isinstance(running.error, PreflightError)
    assert "git" in str(running.error)
    assert running.finished is None
    running.control.resume()  # nobody is left to command, and that is no error


def test_commands_reach_the_run(engine: MakeEngine) -> None:
    running = engine(SLEEPS, linger=True)
    running.start()
    until(lambda: running.latest().count(TaskState.RUNNING) == 2)
    running.control.pause()
    until(lambda: running.latest().run.dispatch == "paused")
    running.control.set_concurrency(7)
    until(lambda: running.latest().run.max_concurrency == 7)
    running.control.resume()
    until(lambda: running.latest().run.dispatch == "running")
    running.control.cancel(["A"])
    until(lambda: running.latest().count(TaskState.CANCELLED) == 1)
    running.control.retry(["A"])
    until(lambda: running.latest().count(TaskState.RUNNING) == 2)
    running.control.cancel()
    until(lambda: running.latest().count(TaskState.CANCELLED) == 2)
    running.control.cancel(["nobody"])
    until(lambda: running.latest().run.finished is not None)


def test_a_command_that_cannot_be_done_is_a_notice_and_prints_nothing(
    engine: MakeEngine, capfd: pytest.CaptureFixture[str]
) -> None:
    heard: list[Event] = []
    running = engine(SLEEPS, listener=heard.append)
    running.start()
    until(lambda: running.latest().count(TaskState.RUNNING) == 2)
    running.control.set_concurrency(0)
    until(lambda: any(isinstance(event, Noticed) and "cannot be done" in event.text for event in heard))
    assert running.stop(PATIENCE)
    assert "Traceback" not in capfd.readouterr().err


def test_a_state_folder_that_is_removed_under_the_run_is_told_once(
    engine: MakeEngine, repo: Callable[..., SampleRepository]
) -> None:
    root = repo({"tasks/board.md": BOARD}).path
    run = engine(SLEEPS, folder=root)
    run.start()
    until(lambda: run.latest().count(TaskState.RUNNING) == 2)
    # At one blow: whoever removes file by file meets those that the run makes meanwhile.
    shutil.rmtree((root / ".git" / "taskyard").rename(root.parent / "removed"))
    until(lambda: any("was removed while the run" in notice.text for notice in run.latest().notices))
    assert run.stop(PATIENCE)
    told = [notice for notice in run.latest().notices if "was removed while the run" in notice.text]
    assert [notice.level for notice in told] == ["error"]
    assert str(root / ".git" / "taskyard") in told[0].text


def test_what_breaks_beside_the_tasks_ends_the_run(
    engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks() -> None:
        raise RuntimeError("the look after the others broke")

    monkeypatch.setattr(Parts, "background", lambda parts: (breaks(),))
    running = engine(SLEEPS, linger=False)
    running.start()
    until(lambda: running.done)
    assert isinstance(running.error, RuntimeError), "whoever waits for that would wait for ever"


def test_nothing_that_is_wished_for_as_a_run_begins_starts_a_task_before_it_has(
    engine: MakeEngine, repo: Callable[..., SampleRepository], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What had landed already is known only then: until then it would be worked on once more."""
    folder = repo({"tasks/board.md": BOARD}).path
    first = engine(SLEEPS, folder=folder)
    first.start()
    until(lambda: first.latest().count(TaskState.RUNNING) == 2)
    first.control.cancel(["A"])
    until(lambda: first.latest().count(TaskState.CANCELLED) == 1)
    assert first.stop(PATIENCE)
    happened: list[object] = []
    recover = Parts.recover

    async def slowly(parts: Parts, *args: Any) -> Any:
        again.control.retry(["A"])
        again.control.cancel(["B"])
        again.control.set_lane("A", Lane.ECONOMY)
        for _ in range(10):
            await asyncio.sleep(0)
        happened.append("begun")
        return await recover(parts, *args)

    async def look(self: Follower, *, last: bool = False) -> None:
        happened.append("look")
        await asyncio.sleep(0.05)

    monkeypatch.setattr(RunRow, "is_alive", lambda *_: False)  # as if this had been another process
    monkeypatch.setattr(Parts, "recover", slowly)
    monkeypatch.setattr(Follower, "look", look)
    monkeypatch.setattr(orchestrator, "LOOK_EVERY", 0)
    again = engine(folder=folder, linger=False, listener=lambda event: happened.append(type(event)))
    again.start()
    until(lambda: again.done)
    assert again.finished is not None, again.error
    assert (again.finished.landed, again.finished.cancelled) == (1, 1)
    assert again.latest().tasks[0].task.lane is Lane.ECONOMY
    assert not any("cannot be done" in notice.text for notice in again.latest().notices)
    for what in ("look", TaskReopened, StageStarted):
        assert happened.index("begun") < happened.index(what)
