"""Several orchestrators on one board: each task done once, whoever dies, sleeps or loses the lock server."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.bus import Bus
from engine.events import LocksChanged, Measured, TaskElsewhere, TaskLanded
from engine.model import TaskState
from engine.orchestrator import Orchestrator
from engine.settings import load_settings
from engine.state import RunState
from tests.cli.taskyard import taskyard
from tests.e2e.crew import Crew, until
from tests.locks.servers import Server
from tui.headless import ProgressLines

LEASE = 6.0  # seconds
AWAY = 15.0  # seconds for which the lock server is killed


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server")
    server.start()
    yield server
    server.kill()


@pytest.fixture
def crews(tmp_path: Path) -> Iterator[list[Crew]]:
    """The crews of a test, none of which outlives it."""
    made: list[Crew] = []
    yield made
    for crew in made:
        crew.close()


def all_landed_once(crew: Crew, tasks: int) -> None:
    assert crew.landed() == {f"T{n}": 1 for n in range(1, tasks + 1)}
    board = crew.sample.git("show", "taskyard/board:tasks/board.md", at=crew.sample.remote)
    assert board.count("| [x] |") == tasks


@pytest.mark.parametrize("hosts", [1, 3])
def test_a_board_is_worked_off_together(
    tmp_path: Path, crews: list[Crew], server: Server, hosts: int
) -> None:
    tasks, members = 24, 3
    crew = Crew.make(tmp_path, tasks, seconds=0.5, url=server.url if hosts > 1 else "")
    crews.append(crew)
    places = [crew.sample.path] if hosts == 1 else [crew.clone() for _ in range(hosts)]
    with crew.held():
        for number in range(members):
            crew.start(places[number % hosts])
        until(lambda: all(crew.in_work(member) for member in crew.members))
    crew.wait()
    for member in crew.members:
        assert member.process.returncode == 0, member.err.read_text()
        assert (member.finished.landed, member.finished.total) == (tasks, tasks)
    all_landed_once(crew, tasks)
    assert len(crew.worked) == tasks
    assert len({run for _, run in crew.worked}) == members, "all of them have worked"
    assert crew.pushes == sum(member.finished.pushes for member in crew.members)
    assert crew.pushes <= tasks / 10 + members
    assert crew.left_behind(places) == []
    # Each knows who works on what, and what all have done.
    for member in crew.members:
        mine = [event for event in member.told(TaskLanded) if isinstance(event, TaskLanded) and not event.by]
        theirs = [event for event in member.told(TaskLanded) if isinstance(event, TaskLanded) and event.by]
        assert len(mine) + len(theirs) == tasks
        pids = {event.pid for event in member.told(TaskElsewhere) if isinstance(event, TaskElsewhere)}
        assert pids <= {other.process.pid for other in crew.members} - {member.process.pid}
        peers = [
            event.peers for event in member.told(Measured) if isinstance(event, Measured) and event.peers
        ]
        assert max(map(len, peers)) == members
        lines = ProgressLines()
        told = [line for event in member.events for line in lines.of(event)]
        assert any(f"{members} orchestrators at work" in line for line in told)
    for place in places:
        assert f"{members} orchestrators took part" in taskyard("status", at=place).out
        assert taskyard("locks", at=place).out == "nothing is locked\n"


def test_a_killed_ones_tasks_are_taken_over(tmp_path: Path, crews: list[Crew], server: Server) -> None:
    tasks = 12
    crew = Crew.make(tmp_path, tasks, seconds=0.1, url=server.url, lease=LEASE)
    crews.append(crew)
    places = [crew.clone() for _ in range(3)]
    with crew.held():
        first, *others = [crew.start(place) for place in places]
        until(lambda: len(crew.in_work(first)) >= 2)
        first.kill()
        killed = crew.in_work(first)
    crew.wait(*others)
    for member in others:
        assert member.finished.landed == tasks
    all_landed_once(crew, tasks)
    again = [task for task, run in crew.worked if run != first.run and task in killed]
    assert sorted(again) == sorted(killed), "each of the dead one's tasks was begun once more"


def test_one_that_slept_past_its_lease_is_refused(tmp_path: Path, crews: list[Crew], server: Server) -> None:
    tasks, hold = 4, tmp_path / "verify"
    check = tmp_path / "check.sh"
    # The first one's train is verified for as long as the file is there.
    check.write_text(f'#!/bin/sh\nwhile [ -n "$SLOW" ] && [ -e {hold} ]; do sleep 0.1; done\n')
    check.chmod(0o755)
    hold.touch()
    # The train waits for all of them.
    settings = f'[verify]\ncommand = "{check}"\n[git]\nmax_age = "600s"\n'
    crew = Crew.make(tmp_path, tasks, seconds=0.1, url=server.url, lease=LEASE, settings=settings)
    crews.append(crew)
    first = crew.start(crew.clone(), SLOW="yes")
    until(lambda: '"stage":"verify","detail"' in first.out.read_text())
    os.kill(first.process.pid, signal.SIGSTOP)
    second = crew.start(crew.clone())
    crew.wait(second)
    assert second.finished.landed == tasks, "taken over once the lease has lapsed"
    pushes = crew.pushes
    hold.unlink()
    os.kill(first.process.pid, signal.SIGCONT)
    crew.wait(first)
    assert "came too late, and was not pushed" in first.notices()
    assert crew.pushes == pushes
    assert first.finished.landed == tasks
    all_landed_once(crew, tasks)
    # Its verified work was handed on: nobody did it again.
    assert len(crew.worked) == tasks


@pytest.mark.parametrize("forgets", [False, True])
def test_while_the_lock_server_is_away_the_run_waits(
    tmp_path: Path, crews: list[Crew], forgets: bool
) -> None:
    """Also for longer than the leases: nobody could take anything over meanwhile."""
    tasks = 16
    (tmp_path / "data").mkdir()
    server = Server(tmp_path / "data", durable=not forgets)
    server.start()
    try:
        crew = Crew.make(tmp_path, tasks, seconds=0.8, slots=2, url=server.url, lease=LEASE)
        crews.append(crew)
        members = [crew.start(crew.clone()) for _ in range(2)]
        until(lambda: len(crew.worked) >= 4)
        server.kill()
        back = time.monotonic() + AWAY
        until(lambda: all(member.told(LocksChanged) for member in members))
        until(lambda: time.monotonic() > back)
        server.start()
        crew.wait()
    finally:
        server.kill()
    for member in members:
        problems = [event.problem for event in member.told(LocksChanged) if isinstance(event, LocksChanged)]
        assert "does not answer" in problems[0]
        assert problems[-1] == ""
        assert "another orchestrator" not in member.notices()
        assert member.finished.landed == tasks
    all_landed_once(crew, tasks)
    assert len(crew.worked) == tasks


def test_one_that_is_stopped_gives_its_tasks_back_at_once(
    tmp_path: Path, crews: list[Crew], server: Server
) -> None:
    tasks = 6
    crew = Crew.make(tmp_path, tasks, seconds=0.1, slots=2, url=server.url)
    crews.append(crew)
    with crew.held():
        first, second = crew.start(crew.clone()), crew.start(crew.clone())
        until(lambda: crew.in_work(first) and crew.in_work(second))
        first.process.send_signal(signal.SIGINT)
        crew.wait(first)
    crew.wait()
    assert first.process.returncode == 130
    assert first.finished.status == "interrupted"
    # Had it kept them for the lease, the other would have waited for ten minutes.
    assert (second.process.returncode, second.finished.landed) == (0, tasks)
    all_landed_once(crew, tasks)


def test_what_failed_here_is_not_tried_there(tmp_path: Path, crews: list[Crew]) -> None:
    crew = Crew.make(tmp_path, 3, seconds=0.1, slots=1)
    crews.append(crew)
    crew.sample.commit("A task that cannot pass", {"tasks/board.md": BOARD_WITH_A_FAILURE})
    crew.sample.git("push", "--quiet", "origin", "main")
    with crew.held():
        members = [crew.start(), crew.start()]
        until(lambda: all(crew.in_work(member) for member in members))
    crew.wait()
    for member in members:
        finished = member.finished
        assert (finished.status, finished.exit_status, finished.landed, finished.failed) == (
            "failed",
            1,
            2,
            1,
        )
    tries = Counter(task for task, _ in crew.worked)
    assert tries == {"T1": 1, "T2": 3, "T3": 1}
    assert len({run for task, run in crew.worked if task == "T2"}) == 1, (
        "by one of them, up to its last attempt"
    )


BOARD_WITH_A_FAILURE = """\
| ID | Scope | Status | Branch | Verification |
|---|---|---|---|---|
| T1 | Write the file number 1 | [ ] | | `test -s t1.txt` |
| T2 | Write the file number 2 | [ ] | | `false` |
| T3 | Write the file number 3 | [ ] | | `test -s t3.txt` |
"""


def test_what_the_board_takes_back_is_left_out_once_nobody_works_on_it(
    tmp_path: Path, crews: list[Crew], server: Server
) -> None:
    crew = Crew.make(tmp_path, 3, seconds=600, url=server.url, lease=LEASE)
    crews.append(crew)
    here, there = crew.start(crew.clone()), crew.clone()
    until(lambda: len(crew.worked) == 3)
    other = crew.start(there, TASKYARD_RUN_FOLLOW_BOARD="always")
    until(lambda: len(other.told(TaskElsewhere)) == 3)
    board = there / "tasks" / "board.md"
    marked, _, given_up = rows = board.read_text().splitlines(keepends=True)[2:]
    edited = [marked.replace("[ ]", "[x]"), given_up.replace("[ ]", "[!]")]
    board.write_text(board.read_text().replace("".join(rows), "".join(edited)))
    until(lambda: other.notices().count("what the board says of it counts once nobody does") == 3)
    state = RunState().apply_all(other.events).snapshot()
    assert state.counts == {TaskState.ELSEWHERE: 3}
    here.kill()
    crew.wait(other)
    views = RunState().apply_all(other.events).snapshot().tasks
    assert [(view.id, view.state.value, view.last) for view in views] == [
        ("T1", "landed", "landed, says the board"),
        ("T2", "cancelled", "removed from the board"),
        ("T3", "failed", "given up on the board"),
    ]
    assert len(crew.worked) == 3, "nobody took them over"


async def test_what_the_locks_do_not_know_is_asked_of_the_target(tmp_path: Path, crews: list[Crew]) -> None:
    """Each clone has locks of its own here, as where somebody has removed the state folder between two runs."""
    crew = Crew.make(tmp_path, 2, seconds=0.1)
    crews.append(crew)
    orchestrator = await Orchestrator.open(
        load_settings(crew.clone(), environ={}), bus=Bus(), environ=os.environ
    )
    crew.start()
    await asyncio.to_thread(crew.wait)
    finished = await orchestrator.run()
    assert (finished.landed, finished.pushes) == (2, 0)
    all_landed_once(crew, 2)
    assert len(crew.worked) == 2


def test_without_the_lock_server_nothing_begins(tmp_path: Path, crews: list[Crew]) -> None:
    crew = Crew.make(tmp_path, 1, seconds=0.1, url="redis://:hush@127.0.0.1:1/0")
    crews.append(crew)
    member = crew.start()
    crew.wait()
    said = member.err.read_text()
    assert member.process.returncode == 2, said
    assert "127.0.0.1:1" in said
    assert "start it, or mend [locks] url" in said
    assert "hush" not in said
    assert crew.worked == []
