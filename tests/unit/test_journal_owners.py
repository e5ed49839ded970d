"""Whose a run is: one process at a time works on it, and a former owner writes nothing more."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.errors import RunBusyError, StoreError
from engine.store.database import Database
from engine.store.journal import Journal
from engine.store.owner import FOREIGN_SILENCE, Owner, process_mark
from tests.unit.journals import STATE, Clock, note, start_child


def dead_owner() -> Owner:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = Owner(socket.gethostname(), child.pid, process_mark(child.pid) or "")
    assert owner.is_alive(silent_for=1e9)
    child.communicate(b"\n")
    return owner


def test_a_board_with_a_live_run_is_busy(journal: Journal) -> None:
    assert not journal.claim("board.md", "r1").resumed
    with pytest.raises(RunBusyError, match=f"process {os.getpid()} .*run r1"):
        journal.claim("board.md", "r2")
    assert journal.claim("other.md", "r3").run.run == "r3"
    journal.end_run("r1", 2000.0, "landed").result()
    assert journal.claim("board.md", "r2").run.run == "r2"


def test_the_run_of_a_dead_process_is_taken_up(journal: Journal) -> None:
    journal.begin_run("r1", "board.md", owner=dead_owner())
    journal.append("r1", [note(1)], durable=True)
    claim = journal.claim("board.md", "r2")
    assert (claim.run.run, claim.resumed) == ("r1", True)
    assert claim.run.owner == Owner.of_this_process()
    assert journal.append("r1", [note(2)], durable=True).result() == 2


def test_who_was_overtaken_right_after_its_claim_writes_nothing(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Journal(database, tmp_path / "archive", owner=dead_owner())
    other = Journal(database, tmp_path / "archive")
    submit = database.submit

    def overtaken(*args: Any, **options: Any) -> Any:
        monkeypatch.undo()
        done = submit(*args, **options)
        done.result()
        assert other.claim("board.md", "r2").run.run == "r1"
        return done

    monkeypatch.setattr(database, "submit", overtaken)
    late.claim("board.md", "r1")
    with pytest.raises(StoreError, match="another process's by now"):
        late.append("r1", [note(1)], durable=True).result()
    assert other.append("r1", [note(1)], durable=True).result() == 1


def test_only_the_newest_of_several_dead_runs_is_taken_up(journal: Journal) -> None:
    dead = dead_owner()
    journal.begin_run("old", "board.md", owner=dead, started=1.0)
    journal.begin_run("new", "board.md", owner=dead, started=2.0)
    assert journal.claim("board.md", "r3").run.run == "new"
    journal.end_run("new", 2000.0, "landed").result()
    assert not journal.claim("board.md", "r3").resumed
    assert {row.run: row.status for row in journal.runs()} == {"old": "abandoned", "new": "landed", "r3": ""}


def test_a_process_that_got_the_id_of_a_dead_one_is_not_its_owner(journal: Journal) -> None:
    ours = Owner.of_this_process()
    journal.begin_run("r1", "board.md", owner=Owner(ours.host, ours.pid, "an earlier boot:123"))
    assert journal.claim("board.md", "r2").resumed


def test_an_owner_on_another_host_lives_as_long_as_its_heart_beats(
    database: Database, tmp_path: Path
) -> None:
    clock = Clock()
    elsewhere = Owner("elsewhere", 1, "boot:1")
    journal = Journal(database, tmp_path / "archive", clock=clock)
    journal.begin_run("r1", "board.md", owner=elsewhere)
    clock.now += 50
    journal.beat("r1").result()
    clock.now += 50
    with pytest.raises(RunBusyError, match="elsewhere"):
        journal.claim("board.md", "r2")
    clock.now += 11
    assert journal.claim("board.md", "r2").resumed


CLAIM = """
import sys
from pathlib import Path
from engine.errors import RunBusyError
from engine.store.journal import Journal
from engine.store.state_db import open_state
folder = Path(sys.argv[1])
journal = Journal(open_state(folder / "state.db"), folder / "archive")
print("ready", flush=True)
input()
try:
    print(journal.claim("board.md", sys.argv[2]).run.run, flush=True)
except RunBusyError:
    print("busy", flush=True)
input()
"""


def test_of_three_processes_that_claim_at_once_one_gets_the_board(tmp_path: Path) -> None:
    children = [start_child(CLAIM, tmp_path, f"r{n}") for n in range(3)]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("\n")
        child.stdin.flush()
    answers = sorted(child.stdout.readline() for child in children)
    assert answers[:2] == ["busy\n", "busy\n"]
    assert answers[2].startswith("r")
    for child in children:
        child.communicate("\n")


def test_what_a_former_owner_writes_is_refused(database: Database, tmp_path: Path) -> None:
    """A process of another host that was silent for too long wakes up: neither events nor a cycle nor the end count."""
    clock = Clock()
    sleeper = Journal(database, tmp_path / "archive", clock=clock, owner=Owner("far", 1, "a"))
    sleeper.claim("board.md", "r1")
    sleeper.append("r1", [note(1)], durable=True).result()
    clock.now += FOREIGN_SILENCE + 1
    heir = Journal(database, tmp_path / "archive", clock=clock, owner=Owner("near", 2, "b"))
    assert heir.claim("board.md", "r2").run.run == "r1"
    heir.append("r1", [note(2)], durable=True).result()
    for late in (
        lambda: sleeper.append("r1", [note(3)], durable=True),
        lambda: sleeper.begin_cycle("r1", STATE, clock.now),
        lambda: sleeper.end_run("r1", clock.now, "landed"),
    ):
        with pytest.raises(StoreError, match="another process's by now"):
            late().result()
    assert [event for _, event in heir.events("r1")] == [note(1), note(2)]
    assert heir.runs()[0].ended is None


def test_runs_share_a_board_only_when_all_of_them_do(database: Database, tmp_path: Path) -> None:
    one, two = (Journal(database, tmp_path / "archive", owner=Owner.of_this_process()) for _ in range(2))
    first = one.claim("board.md", "r1", shared=True)
    assert (first.run.run, first.spaced) == ("r1", True)
    with pytest.raises(RunBusyError, match="run --join"):
        two.claim("board.md", "r2")
    assert two.claim("board.md", "r2", shared=True).run.run == "r2"
    one.claim("other.md", "r3")
    with pytest.raises(RunBusyError) as busy:
        two.claim("other.md", "r4", shared=True)
    assert "was not started with --join" in str(busy.value)
    with pytest.raises(RunBusyError) as alone:
        two.claim("other.md", "r4")
    assert "--join" not in str(alone.value)


def test_a_run_that_ended_goes_on_unless_another_began_meanwhile(database: Database, tmp_path: Path) -> None:
    one, two = (Journal(database, tmp_path / "archive", owner=Owner.of_this_process()) for _ in range(2))
    one.claim("board.md", "r1")
    one.end_run("r1", 2000.0, "failed").result()
    one.reclaim("r1")
    assert (one.runs()[0].ended, one.runs()[0].status) == (None, "")
    with pytest.raises(RunBusyError, match="run r1"):
        two.claim("board.md", "r2")
    one.end_run("r1", 2001.0, "failed").result()
    two.claim("board.md", "r2")
    with pytest.raises(RunBusyError, match=r"is working on board\.md"):
        one.reclaim("r1")
    two.end_run("r2", 2002.0, "failed").result()
    with pytest.raises(RunBusyError, match=r"r2 has worked on board\.md since"):
        one.reclaim("r1")
    assert next(row for row in one.runs() if row.run == "r1").ended == 2001.0
    two.reclaim("r2")


def test_a_shared_run_that_ended_goes_on_beside_those_that_share(database: Database, tmp_path: Path) -> None:
    one, two = (Journal(database, tmp_path / "archive", owner=Owner.of_this_process()) for _ in range(2))
    one.claim("board.md", "r1", shared=True)
    two.claim("board.md", "r2", shared=True)
    one.end_run("r1", 2000.0, "failed").result()
    one.reclaim("r1")
    one.end_run("r1", 2001.0, "failed").result()
    two.end_run("r2", 2002.0, "failed").result()
    two.claim("board.md", "r3")
    with pytest.raises(RunBusyError, match="run r3"):
        one.reclaim("r1")
