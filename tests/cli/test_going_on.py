"""A run that has finished in a dashboard that stays, and goes on: whose the board is then, and what starts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.events import Event, Noticed, RunResumed
from engine.model import TaskState
from engine.settings import load_settings
from engine.store.journal_reader import JournalReader
from engine.thread import EngineThread
from tests.cli import shell_agent
from tests.cli.taskyard import taskyard
from tests.sample_repository import SampleRepository

# Each task waits while there is a file `hold`, and does its work once there is a file `go-<task>`.
AGENT = (
    'name=$(sed -n "s/^Task: //p"); while [ -e {at}/hold ]; do sleep 0.05; done;'
    " if [ -e {at}/go-$name ]; then echo x > $name.txt; fi"
)


class Desk:
    """A repository, a dashboard's engine over it, and what that told."""

    def __init__(self, made: SampleRepository, environ: dict[str, str]) -> None:
        self.made = made
        self.environ = environ
        self.heard: list[Event] = []
        self.engines: list[EngineThread] = []

    def start(self, *, join: bool = False) -> EngineThread:
        overrides = {"locks.shared": True} if join else {}
        settings = load_settings(self.made.path, overrides=overrides, environ={})
        engine = EngineThread(settings, {**os.environ, **self.environ}, listener=self.heard.append)
        self.engines.append(engine)
        engine.start()
        return engine

    def signal(self, name: str) -> Path:
        path = self.made.path.parent / name
        path.touch()
        return path

    def run(self, *args: str) -> tuple[int, str]:
        said = taskyard(*args, at=self.made.path, environ=self.environ)
        return said.status, said.out + said.err

    @property
    def given_up(self) -> bool:
        """Whether the newest run is nobody's any more, which it is a moment after it told its end."""
        folder = self.made.path / ".git" / "taskyard"
        with closing(JournalReader(folder / "state.db", folder / "archive")) as reader:
            newest = reader.latest_run()
        return newest is not None and newest.ended is not None

    @property
    def resumes(self) -> int:
        return sum(isinstance(event, RunResumed) for event in self.heard)


@pytest.fixture
def desk(repo: Callable[..., SampleRepository], tmp_path: Path) -> Iterator[Callable[..., Desk]]:
    desks: list[Desk] = []

    def make(slots: int = 2) -> Desk:
        made = repo({"tasks/board.md": shell_agent.BOARD})
        agent = AGENT.format(at=made.path.parent)
        more = f'[run]\nmax_attempts = 1\nmax_concurrency = {slots}\n[git]\nmax_age = "0.2s"\n'
        made.write({"taskyard.toml": shell_agent.settings(agent, more)})
        desks.append(Desk(made, {"XDG_STATE_HOME": str(tmp_path / "state")}))
        return desks[-1]

    yield make
    for each in desks:
        for engine in each.engines:
            engine.stop(90)


def until(condition: Callable[[], object], seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def finished(engine: EngineThread) -> Callable[[], object]:
    return lambda: engine.latest().run.finished is not None


def test_a_finished_run_that_goes_on_has_the_board_to_itself(desk: Callable[..., Desk]) -> None:
    here = desk()
    here.signal("go-A")
    engine = here.start()
    until(finished(engine))
    assert engine.latest().counts == {TaskState.LANDED: 1, TaskState.FAILED: 1}
    here.signal("go-B")
    hold = here.signal("hold")
    engine.control.retry(["B"])
    until(lambda: engine.latest().count(TaskState.RUNNING) == 1)
    _, said = here.run("status")
    assert "running" in said, said
    assert "interrupted" not in said
    status, said = here.run("run", "--headless")
    assert status == 2, said
    assert f"process {os.getpid()}" in said
    hold.unlink()
    until(finished(engine))
    assert engine.latest().counts == {TaskState.LANDED: 2}
    assert here.resumes == 1
    status, said = here.run("run", "--headless")
    assert status == 0, said


@pytest.mark.parametrize("ended", [False, True], ids=["at work", "ended"])
def test_a_finished_run_does_not_go_on_beside_another(desk: Callable[..., Desk], ended: bool) -> None:
    here = desk()
    first = here.start()
    until(finished(first))
    if not ended:
        hold = here.signal("hold")
    second = here.start()
    if ended:
        until(lambda: finished(second)() and here.given_up)
    else:
        until(lambda: second.latest().count(TaskState.RUNNING) == 2)
    before = len(here.heard)
    first.control.retry(["B"])
    until(lambda: first.latest().notices and "cannot go on" in first.latest().notices[-1].text)
    assert first.latest().counts == {TaskState.FAILED: 2}
    assert first.latest().run.finished is not None
    notice = next(event for event in here.heard[before:] if isinstance(event, Noticed))
    assert notice.level == "error"
    what_to_do = "quit, and start again" if ended else "look on with"
    assert notice.text.startswith(f"this run cannot go on: {what_to_do}"), "the end of a long line is cut off"
    whose = f"run {second.latest().run.run} has worked on" if ended else f"process {os.getpid()}"
    assert whose in notice.text
    assert here.resumes == 0
    if not ended:
        hold.unlink()


def test_a_run_that_shared_its_board_lands_what_is_tried_again(desk: Callable[..., Desk]) -> None:
    here = desk()
    here.signal("go-A")
    engine = here.start(join=True)
    until(finished(engine))
    here.signal("go-B")
    engine.control.retry(["B"])
    until(lambda: engine.latest().count(TaskState.LANDED) == 2)
    until(finished(engine))
    assert here.resumes == 1
    assert here.made.git("show", "taskyard/board:B.txt", at=here.made.remote) == "x"


def test_what_was_paused_before_the_end_starts_when_it_is_tried_again(desk: Callable[..., Desk]) -> None:
    here = desk()
    hold = here.signal("hold")
    engine = here.start()
    until(lambda: engine.latest().count(TaskState.RUNNING) == 2)
    engine.control.pause()
    until(lambda: engine.latest().run.dispatch == "paused")
    hold.unlink()
    until(finished(engine))
    here.signal("go-A")
    engine.control.retry(["A"])
    until(lambda: engine.latest().count(TaskState.LANDED) == 1)
    assert engine.latest().run.dispatch == "running"


def test_what_a_drain_left_goes_on_when_dispatch_does(desk: Callable[..., Desk]) -> None:
    here = desk(slots=1)
    here.signal("go-A")
    here.signal("go-B")
    hold = here.signal("hold")
    engine = here.start()
    until(lambda: engine.latest().count(TaskState.RUNNING) == 1)
    engine.control.drain()
    until(lambda: engine.latest().run.dispatch == "draining")
    hold.unlink()
    until(finished(engine))
    assert engine.latest().counts == {TaskState.LANDED: 1, TaskState.QUEUED: 1}
    engine.control.resume()
    until(lambda: engine.latest().count(TaskState.LANDED) == 2)
    until(finished(engine))
    assert here.resumes == 1


def test_nothing_goes_on_when_nothing_is_left_to_start(desk: Callable[..., Desk]) -> None:
    here = desk()
    for name in ("A", "B"):
        here.signal(f"go-{name}")
    engine = here.start()
    until(finished(engine))
    engine.control.resume()
    engine.control.retry(["A", "B"])
    engine.control.set_concurrency(3)
    until(lambda: engine.latest().run.max_concurrency == 3)
    assert engine.latest().run.finished is not None
    assert here.resumes == 0
