"""`status`, `watch` and `replay` over a real journal."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from engine import events as ev
from engine.events import RunFinished, decode, encode
from engine.figures import PeerFigures
from engine.model import BoardStatus
from engine.snapshot import Snapshot
from engine.state import RunState
from engine.store.journal import Journal
from engine.store.owner import Owner
from engine.store.run_log import RunRow
from engine.store.state_db import open_state
from tests import forked
from tests.cli.taskyard import PROGRAM, taskyard
from tests.sample_repository import SampleRepository
from tests.samples import START, record, short_run
from tui.cli import look
from tui.source import Runs, WatchSource

Repo = Callable[..., SampleRepository]


def test_status_shows_counts_costs_and_every_task(repo: Repo) -> None:
    root = repo().path
    record(root, short_run())
    said = taskyard("status", at=root)
    assert said.status == 0
    assert said.out.splitlines() == [
        "run r1 of tasks/board.md, 01:12: some failed",
        "3 tasks: 2 landed, 1 failed",
        "$1.00 of $10.00 spent, $0.50 saved (prompts $0.50)",
        "2 calls, 0 answers used again; 1 push for 2 tasks, 1 saved",
        "",
        "ID  State   Attempt  Elapsed   Cost  Last",
        "T1  landed        1    00:14  $0.50  train 1, 1111111",
        "T2  landed        2    00:11  $0.50  train 1, 2222222",
        "T3  failed        1    00:01  $0.00  no change was made (attempt 2 of 2)",
    ]


def record_runs(root: Path) -> None:
    """r1 did something; r2 came later and found all landed; so did r3."""
    begun, *_, end = record_and_give(root, "r1")
    assert isinstance(begun, ev.RunStarted)
    assert isinstance(end, RunFinished)
    landed = tuple(replace(task, status=BoardStatus.LANDED) for task in begun.tasks)
    sums = {"landed": 3, "failed": 0, "usd": 0.0, "usd_saved": 0.0, "pushes": 0, "duration_s": 0.0}
    for run in ("r2", "r3"):
        empty = replace(end, status="landed", exit_status=0, at=START, **sums)
        record(root, [replace(begun, run=run, tasks=landed), empty], run=run)


def record_and_give(root: Path, run: str) -> list[ev.Event]:
    events = list(short_run())
    record(root, events, run=run)
    return events


def test_the_run_that_did_something_is_shown_and_not_the_empty_ones_since(repo: Repo) -> None:
    root = repo().path
    record_runs(root)
    lines = taskyard("status", at=root).out.splitlines()
    assert lines[0].startswith("run r1 of tasks/board.md, 01:12")
    assert re.fullmatch(r"run r3 found nothing to do since, .* ago", lines[-1])
    assert json.loads(taskyard("status", "--json", at=root).out)["run"]["run"] == "r1"
    assert taskyard("status", "r3", at=root).out.startswith("run r3 of tasks/board.md, 00:00: all landed")
    shown = taskyard("replay", "--json", at=root).out.splitlines()
    assert len(shown) == len(short_run())
    assert taskyard("watch", "--headless", at=root).status == 1, "the exit status of r1"


def test_a_run_that_is_at_work_is_shown_before_a_later_one(repo: Repo) -> None:
    root = repo().path
    record(root, short_run()[:3], run="r1", owner=Owner.of_this_process())
    record(root, short_run(), run="r2")
    assert taskyard("status", at=root).out.startswith("run r1 of ")


def test_runs_of_which_none_did_anything_are_shown_all_the_same(repo: Repo) -> None:
    root = repo().path
    *_, end = short_run()
    assert isinstance(end, RunFinished)
    record(root, [short_run()[0], replace(end, status="failed")], run="r1")
    assert taskyard("status", at=root).out.startswith("run r1 of ")


def test_the_runs_are_listed_newest_first(repo: Repo) -> None:
    root = repo().path
    none = taskyard("history", "runs", at=root)
    assert (none.status, none.out) == (0, "nothing was run yet; start with: taskyard run\n")
    record_runs(root)
    header, third, second, first = taskyard("history", "runs", at=root).out.splitlines()
    assert header.split() == ["Run", "Started", "State", "Landed", "Elapsed", "Cost", "Board"]
    for name, line in (("r3", third), ("r2", second)):
        assert line.split()[0] == name
        assert re.search(r"all landed, nothing to do +3/3 +00:00 +\$0\.00  tasks/board\.md$", line)
    assert re.search(r"^r1 .* some failed +2/3 +01:12 +\$1\.00  tasks/board\.md$", first)
    assert len(taskyard("history", "runs", "--limit", "1", at=root).out.splitlines()) == 2
    listed = json.loads(taskyard("history", "runs", "--json", at=root).out)
    assert [(each["run"], each["worked"], each["landed"], each["total"]) for each in listed] == [
        ("r3", False, 3, 3),
        ("r2", False, 3, 3),
        ("r1", True, 2, 3),
    ]
    assert (listed[2]["state"], listed[2]["usd"], listed[2]["started"]) == ("failed", 1.0, START)


def test_a_run_that_stopped_is_not_listed_as_one_that_died(repo: Repo) -> None:
    """The journal keeps it open, for the next process; its last event says how it ended."""
    root, gone = repo().path, Owner(Owner.of_this_process().host, 2**22 - 1)
    *before, end = short_run()
    assert isinstance(end, RunFinished)
    ends = (("interrupted", 130), ("interrupted", 2), ("budget", 3))
    for run, (status, exit_status) in enumerate(ends, start=1):
        last = replace(end, status=status, exit_status=exit_status)
        record(root, [*before, last], run=f"r{run}", owner=gone)
    record(root, before, run="r4", owner=gone)
    _, *rows = taskyard("history", "runs", at=root).out.splitlines()
    words = {row.split()[0]: re.split(r" {2,}", row)[2] for row in rows}
    assert words == {"r1": "interrupted", "r2": "stopped", "r3": "budget reached", "r4": "died"}
    states = {
        each["run"]: each["state"] for each in json.loads(taskyard("history", "runs", "--json", at=root).out)
    }
    assert states == {"r1": "interrupted", "r2": "interrupted", "r3": "budget", "r4": "died"}
    assert taskyard("status", "r3", at=root).out.startswith("run r3 of tasks/board.md, 01:12: budget reached")


def test_status_says_what_stopped_a_run(repo: Repo) -> None:
    root = repo().path
    *before, end = short_run()
    why = ev.Noticed(at=START + 1, level="error", text="cannot start agent: install it")
    assert isinstance(end, RunFinished)
    record(root, [*before, why, replace(end, status="interrupted", exit_status=2)])
    first = taskyard("status", at=root).out.splitlines()[0]
    assert first == "run r1 of tasks/board.md, 01:12: stopped by: cannot start agent: install it"


def test_status_says_which_rows_of_the_board_did_not_run(repo: Repo) -> None:
    root = repo().path
    *before, end = short_run()
    rows = tuple(f"tasks/board.md, line {line}: the row has no ID" for line in range(9, 16))
    record(root, [*before, ev.RowsRefused(at=START + 1, rows=rows), end])
    lines = taskyard("status", at=root).out.splitlines()
    assert lines[1] == "3 tasks: 2 landed, 1 failed, 7 rows not run"
    assert lines[4:10] == [
        *(f"not run: {row}" for row in rows[:5]),
        "not run: 2 more rows; see: taskyard doctor",
    ]


def test_status_as_json_is_the_snapshot(repo: Repo) -> None:
    root = repo().path
    record(root, short_run())
    said = taskyard("status", "--json", at=root)
    report = json.loads(said.out)
    assert report.pop("schema") == 2
    assert report.pop("alive") is False
    expected = RunState().apply_all(short_run()).snapshot()
    shown = msgspec.convert(report, Snapshot, str_keys=True)
    assert msgspec.json.encode(shown) == msgspec.json.encode(expected)


def test_status_tells_who_shares_the_board(repo: Repo) -> None:
    root = repo().path
    *before, finished = short_run()
    me = PeerFigures("elsewhere", 1, "r1", START, working=1)
    bea = PeerFigures("bea", 917, "r2", START, working=2, landed=3, pushes=1, usd=1.25)
    gone = msgspec.structs.replace(bea, host="cyd", run="r3", present=False, usd=0.25)
    shared = [
        *before,
        ev.TaskReopened(at=START + 30, task="T3"),
        ev.TaskElsewhere(at=START + 31, task="T3", host="bea", pid=917),
        ev.LocksChanged(at=START + 32, problem="the server does not answer"),
        ev.Measured(at=START + 33, peers=(gone, bea, me)),
    ]
    record(root, shared, owner=Owner.of_this_process())
    lines = taskyard("status", at=root).out.splitlines()
    assert lines[1:] == [
        "3 tasks: 1 elsewhere, 2 landed",
        "$1.00 spent, $0.50 saved (prompts $0.50)",
        "2 calls, 0 answers used again; 1 push for 2 tasks, 1 saved",
        "$2.50 of $10.00 spent by all; 2 orchestrators at work",
        "",
        "Orchestrator            Working  Landed  Pushes   Cost",
        "elsewhere, process 1          1       2       1  $1.00",
        "bea, process 917              2       3       1  $1.25",
        "cyd, process 917, gone        –       3       1  $0.25",
        "all                           3       8       3  $2.50",
        "the server does not answer: no task is claimed and nothing lands until it is back",
        "",
        "ID  State      Attempt  Elapsed   Cost  Last",
        "T1  landed           1    00:14  $0.50  train 1, 1111111",
        "T2  landed           2    00:11  $0.50  train 1, 2222222",
        lines[-1],
    ]
    assert lines[-1].endswith("at bea, process 917")
    report = json.loads(taskyard("status", "--json", at=root).out)
    assert [(peer["host"], peer["present"]) for peer in report["peers"]] == [
        ("cyd", False), ("bea", True), ("elsewhere", True),
    ]  # fmt: skip
    assert report["run"]["locks_away"] == "the server does not answer"
    record(root, [*shared, finished], run="ended")
    said = taskyard("status", "ended", at=root).out
    assert "$2.50 of $10.00 spent by all; 3 orchestrators took part" in said
    assert "the server does not answer" not in said


def test_status_from_below_the_top_and_by_the_beginning_of_an_id(repo: Repo) -> None:
    root = repo({"src/a.py": ""}).path
    record(root, short_run())
    assert taskyard("status", "r", at=root / "src").out.startswith("run r1 ")


def test_status_says_that_a_run_died(repo: Repo) -> None:
    root = repo().path
    gone = Owner(Owner.of_this_process().host, 2**22 - 1)
    record(root, short_run()[:-1], owner=gone)
    said = taskyard("status", at=root)
    words = f"died: process {gone.pid} on {gone.host} is gone; take it up with: taskyard run"
    assert said.out.splitlines()[0] == f"run r1 of tasks/board.md, 00:20: {words}"
    assert json.loads(taskyard("status", "--json", at=root).out)["alive"] is False


def test_nothing_runs_in_a_run_that_has_stopped(repo: Repo) -> None:
    root = repo().path
    stopped = [*short_run()[:-2], msgspec.structs.replace(short_run()[-1], status="interrupted")]
    record(root, stopped)
    lines = taskyard("status", at=root).out.splitlines()
    assert lines[0] == "run r1 of tasks/board.md, 01:12: interrupted"
    assert lines[1] == "3 tasks: 1 interrupted, 2 landed"
    assert lines[-1].split()[:2] == ["T3", "interrupted"]


def test_a_directory_that_was_removed_is_told_in_one_line(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["sh", "-c", 'cd gone && rmdir ../gone && exec "$@"', "sh", *PROGRAM, "status"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "taskyard: the current directory is gone: change to one that is there\n"


def test_status_of_a_run_that_has_said_nothing_yet(repo: Repo) -> None:
    root = repo().path
    record(root, [])
    assert taskyard("status", at=root).out.startswith("run r1 of tasks/board.md, ")


@pytest.mark.parametrize("command", ["status", "watch", "replay"])
def test_a_run_nobody_knows(repo: Repo, command: str) -> None:
    root = repo().path
    said = taskyard(command, at=root)
    assert (said.status, said.err) == (
        2,
        f"taskyard: nothing was run in {root} yet: start with: taskyard run\n",
    )
    assert not (root / ".git" / "taskyard").exists()
    record(root, short_run())
    said = taskyard(command, "nope", at=root)
    assert (said.status, said.err) == (2, "taskyard: there is no run nope: the newest are r1\n")


def test_replay_prints_the_run_and_a_file_of_events_is_a_run_too(repo: Repo, tmp_path: Path) -> None:
    root = repo().path
    record(root, short_run())
    lines = taskyard("replay", "--json", at=root).out
    assert [decode(line.encode()) for line in lines.splitlines()] == short_run()
    file = tmp_path / "run.jsonl"
    file.write_text(lines)
    again = taskyard("replay", str(file), at=tmp_path)
    assert again.out == taskyard("replay", "r1", "--headless", at=root).out
    assert "00:16  T1     landed with train 1, 1111111\n" in again.out


def test_a_file_that_holds_no_events(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    file.write_bytes(encode(short_run()[0]) + b"\n{}\n")
    said = taskyard("replay", str(file), at=tmp_path)
    assert said.status == 2
    assert said.err.startswith(f"taskyard: line 2 of {file} is no event (")
    assert said.err.endswith("): name a run, or a file from: taskyard run --json\n")
    file.write_text("")
    said = taskyard("replay", str(file), "--headless", at=file.parent)
    assert (said.status, said.err) == (
        2,
        f"taskyard: {file} is empty: name a run, or a file from: taskyard run --json\n",
    )


def test_watch_prints_what_another_process_writes_until_the_run_ends(repo: Repo) -> None:
    root = repo().path
    *first, finished = short_run()
    paths = record(root, first, owner=Owner.of_this_process())
    watching = forked.Popen(
        [*PROGRAM, "watch", "--json"], cwd=root, stdout=subprocess.PIPE, env=environment(), text=True
    )
    assert watching.stdout is not None
    seen = [decode(watching.stdout.readline().encode()) for _ in first]
    assert seen == first
    database = open_state(paths.state_db)
    Journal(database, paths.archive).append("r1", [finished], durable=True).result()
    assert isinstance(decode(watching.stdout.readline().encode()), RunFinished)
    assert watching.wait(timeout=200) == 1
    watching.stdout.close()
    database.close()


def test_watch_says_so_when_the_run_dies(repo: Repo) -> None:
    root = repo().path
    worker = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    record(root, short_run()[:-1], owner=Owner(Owner.of_this_process().host, worker.pid))
    watching = forked.Popen(
        [*PROGRAM, "watch"],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        text=True,
    )
    assert watching.stdout is not None
    assert "3 tasks of tasks/board.md" in watching.stdout.readline()
    assert watching.poll() is None
    worker.kill()
    worker.wait()
    assert worker.stdin is not None
    worker.stdin.close()
    _, err = watching.communicate(timeout=200)
    assert watching.returncode == 1
    assert f"the run has died: its process {worker.pid} is gone; take it up with: taskyard run" in err


@pytest.fixture
def ending(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run that tells its end and goes right before somebody looks whether its process lives."""
    root = repo().path
    worker = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    *first, end = short_run()
    paths = record(root, first, owner=Owner(Owner.of_this_process().host, worker.pid))
    is_alive = RunRow.is_alive

    def too_late(row: RunRow, now: float) -> bool:
        if worker.poll() is None:
            database = open_state(paths.state_db)
            journal = Journal(database, paths.archive)
            journal.append("r1", [replace(end, status="budget", exit_status=3)], durable=True).result()
            journal.end_run("r1", START, "budget").result()
            database.close()
            worker.kill()
            worker.wait()
        return is_alive(row, now)

    monkeypatch.setattr(RunRow, "is_alive", too_late)
    monkeypatch.chdir(root)
    yield root
    worker.kill()
    worker.communicate()


def test_watch_reads_what_a_run_said_last_before_it_takes_it_for_dead(
    ending: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = look.open_journal(look.find_place())
    row = reader.run("r1")
    assert row is not None
    assert look.follow(reader, row, as_json=False) == 3
    assert "has died" not in capsys.readouterr().err
    reader.close()


def test_status_of_a_run_that_ends_as_it_is_asked_for(
    ending: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert look.status("r1", False) == 0
    assert "budget reached" in capsys.readouterr().out.splitlines()[0]


def test_a_run_that_ends_as_it_is_listed_has_not_died(ending: Path) -> None:
    paths = look.find_place().paths
    runs = Runs(paths.state_db, paths.archive)
    assert [run.state for run in runs.list().runs] == ["budget"]
    runs.close()


def test_a_run_that_ends_as_it_is_watched_has_not_died(ending: Path) -> None:
    paths = look.find_place().paths
    reader = look.open_journal(look.find_place())
    source = WatchSource(paths.state_db, paths.archive)
    source._look(reader, "r1")
    assert source.health().alive
    reader.close()


def environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
