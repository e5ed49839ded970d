"""`cache` and `history` over real files."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.model import TaskState
from engine.paths import StatePaths
from engine.store.cache import CacheKey, ResultCache
from engine.store.history import HistoryPruner, PrunePolicy, TaskHistory
from engine.store.journal import Journal
from engine.store.owner import Owner
from engine.store.state_db import open_state
from tests.cli.taskyard import taskyard
from tests.sample_repository import SampleRepository

Repo = Callable[..., SampleRepository]
Run = Callable[..., str]


def paths_of(root: Path) -> StatePaths:
    return StatePaths.of(root / ".git", os.environ)


def fill_cache(root: Path, **where: Path) -> None:
    cache = ResultCache(StatePaths.of(root / ".git", os.environ, cache_dir=where.get("cache_dir")).cache_db)
    for task, activity in (("T1", "planner"), ("T1", "judge"), ("T2", "judge")):
        key = CacheKey(activity, task, "a" * 64, "claude-opus-5-5")
        cache.set(key, b"x" * 2000, tokens=4100, usd=0.25).result()
    assert cache.get(key) is not None
    cache.close()


def test_looking_at_a_cache_that_is_not_there_makes_none(root: Path, run: Run) -> None:
    assert json.loads(run("cache", "stats", "--json"))["entries"] == 0
    assert run("cache", "list") == "nothing is cached\n"
    assert json.loads(run("cache", "clear", "--json")) == {"removed": 0}
    assert not (root / ".git" / "taskyard").exists()


def test_cache_stats(root: Path, run: Run) -> None:
    fill_cache(root)
    assert run("cache", "stats").splitlines() == [
        "entries   3, 6.0 kB of 1.1 GB",
        "hits      100% of 1 look-up (model answers, checks, landed work)",
        "saved     $0.25, 4.1k tokens, by what was used again; prompt caches and batches: taskyard status",
        "gone      0 evicted, 0 expired, 0 damaged",
    ]
    report = json.loads(run("cache", "stats", "--json"))
    assert (report["entries"], report["hits"], report["usd_saved"]) == (3, 1, 0.25)


def test_the_commands_alone_print_what_one_looks_for_first(root: Path, run: Run) -> None:
    fill_cache(root)
    assert run("cache") == run("cache", "stats")
    assert run("cache", "--json") == run("cache", "stats", "--json")
    assert run("history") == run("history", "list")


def test_cache_list_and_filters(root: Path, run: Run) -> None:
    fill_cache(root)
    lines = run("cache", "list").splitlines()
    assert lines[0].split() == ["Key", "Task", "Activity", "Model", "Size", "Tokens", "Cost", "Used"]
    assert re.search(r"  T2  +judge  +claude-opus-5-5  +2\.0 kB  +4\.1k  +\$0\.25  +\d+ s ago$", lines[1])
    found = json.loads(run("cache", "list", "--task", "T1", "--activity", "judge", "--json"))
    assert [(entry["key"]["task_id"], entry["key"]["activity_type"]) for entry in found] == [("T1", "judge")]
    assert len(json.loads(run("cache", "list", "--limit", "2", "--json"))) == 2


def test_cache_invalidate_by_key_task_and_activity(root: Path, run: Run) -> None:
    fill_cache(root)
    [entry] = json.loads(run("cache", "list", "--task", "T2", "--json"))
    assert run("cache", "invalidate", entry["digest"][:12]) == "1 result forgotten\n"
    assert "nothing is cached under" in run("cache", "invalidate", entry["digest"], status=2)
    assert "2 cached results begin with" in run("cache", "invalidate", "", status=2)
    assert run("cache", "invalidate", "--activity", "judge") == "1 result forgotten\n"
    assert json.loads(run("cache", "invalidate", "--task", "T1", "--json")) == {"removed": 1}
    assert json.loads(run("cache", "stats", "--json"))["entries"] == 0


def test_cache_clear_needs_a_yes(root: Path, run: Run) -> None:
    fill_cache(root)
    assert "say it with: taskyard cache clear --yes" in run("cache", "clear", status=2)
    assert run("cache", "clear", "--yes") == "3 results forgotten\n"


def test_a_shared_cache_is_named_by_flag_or_setting(
    root: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    fill_cache(root, cache_dir=shared)
    assert json.loads(run("cache", "stats", "--json"))["entries"] == 0
    assert json.loads(run("cache", "stats", "--json", "--cache-dir", "../shared"))["entries"] == 3
    monkeypatch.setenv("TASKYARD_RUN_CACHE_DIR", str(shared))
    assert json.loads(run("cache", "stats", "--json"))["entries"] == 3


def fill_history(root: Path) -> None:
    paths = paths_of(root)
    paths.state.mkdir(parents=True, exist_ok=True)
    database = open_state(paths.state_db)
    now = time.time()
    history = HistoryPruner(database, PrunePolicy(paths.archive, max_entries=10))
    for number in range(10):
        history.add(
            TaskHistory(
                id=f"r1/T{number}/1",
                run="r1",
                task=f"T{number}",
                status=TaskState.LANDED if number % 2 else TaskState.FAILED,
                started=now - 1000 + number,
                ended=now - 900 + number,
                attempts=1,
                reason="" if number % 2 else f"Time-out number {number}",
                commit="c" * 40,
                usd=0.5,
            )
        ).result()
    history.prune()
    database.close()


def test_looking_at_a_history_that_is_not_there_makes_none(root: Path, run: Run) -> None:
    assert run("history", "list") == "nothing was run yet; start with: taskyard run\n"
    assert json.loads(run("history", "stats", "--json"))["entries"] == 0
    assert run("history", "archive", "list") == "nothing is archived yet\n"
    assert run("history", "archive", "search", "x") == "no execution matches\n"
    assert not (root / ".git" / "taskyard").exists()


def test_history_list_and_filters(root: Path, run: Run) -> None:
    fill_history(root)
    lines = run("history", "list").splitlines()
    assert lines[0].split() == [
        "Task",
        "State",
        "Attempts",
        "Started",
        "Elapsed",
        "Cost",
        "Run",
        "How",
        "it",
        "ended",
    ]
    assert lines[1].split()[:3] == ["T9", "landed", "1"]
    assert lines[1].split()[-4:] == ["01:40", "$0.50", "r1", "ccccccc"]
    failed = json.loads(run("history", "list", "--state", "failed", "--json"))
    assert failed == json.loads(run("history", "list", "--status", "failed", "--json")), "its older name"
    assert [entry["task"] for entry in failed] == ["T8", "T6", "T4", "T2"]
    assert json.loads(run("history", "list", "--task", "T9", "--since", "1h", "--limit", "5", "--json"))
    assert run("history", "list", "--run", "r2") == "no execution matches\n"
    assert run("history", "list", "--since", "5m") == "no execution matches\n"


def test_history_of_a_run_that_stopped_says_that_nothing_runs(root: Path, run: Run) -> None:
    fill_history(root)
    paths = paths_of(root)
    database = open_state(paths.state_db)
    journal, history = Journal(database, paths.archive), HistoryPruner(database, PrunePolicy(paths.archive))
    dead = subprocess.Popen(["true"])
    dead.wait()
    owners = {"dead": Owner(socket.gethostname(), dead.pid), "alive": Owner.of_this_process()}
    for name, owner in owners.items():
        journal.begin_run(name, "board.md", owner=owner)
        entry = TaskHistory(id=name, run=name, task=name, status=TaskState.RUNNING, started=time.time())
        history.add(entry).result()
    database.close()

    def listed(*options: str) -> dict[str, str]:
        entries = json.loads(run("history", "list", *options, "--json"))
        return {entry["task"]: entry["status"] for entry in entries}

    assert listed("--limit", "2") == {"dead": "interrupted", "alive": "running"}
    assert listed("--status", "running", "--limit", "1") == {"alive": "running"}
    assert listed("--status", "interrupted", "--limit", "1") == {"dead": "interrupted"}
    _, row = run("history", "list", "--run", "dead").splitlines()
    assert "interrupted" in row
    assert "$" not in row, "nobody has told yet what it cost"
    assert "4 failed, 4 landed, 1 running, 1 interrupted" in run("history", "stats")
    assert json.loads(run("history", "stats", "--json"))["by_status"]["interrupted"] == 1


def test_history_stats(root: Path, run: Run) -> None:
    fill_history(root)
    lines = run("history", "stats").splitlines()
    assert lines[0] == "entries   8 of 1,000"
    assert lines[2] == "oldest    16 min of 1 d"
    assert lines[3].startswith("archived  2 in 1 segment, ")
    assert lines[4] == "pruned    1 time"
    assert "4 failed" in lines[6]
    assert "4 landed" in lines[6]
    assert json.loads(run("history", "stats", "--json"))["by_status"] == {"failed": 4, "landed": 4}


def test_history_archive(root: Path, run: Run) -> None:
    fill_history(root)
    [segment] = json.loads(run("history", "archive", "list", "--json"))
    assert (segment["number"], segment["entries"]) == (1, 2)
    assert run("history", "archive", "list").splitlines()[1].split()[:2] == ["1", "2"]
    assert [entry["task"] for entry in json.loads(run("history", "archive", "read", "--json"))] == [
        "T0",
        "T1",
    ]
    assert "Time-out number 0" in run("history", "archive", "read", "1")
    assert "there is no segment 9" in run("history", "archive", "read", "9", status=2)
    assert [e["task"] for e in json.loads(run("history", "archive", "search", "TIME-OUT", "--json"))] == [
        "T0"
    ]


def test_history_is_read_where_nothing_may_be_written(root: Path) -> None:
    paths = paths_of(root)
    paths.state.mkdir(parents=True)
    database = open_state(paths.state_db)
    entry = TaskHistory(id="r1/T1/1", run="r1", task="T1", status=TaskState.LANDED, started=time.time())
    HistoryPruner(database, PrunePolicy(paths.archive)).add(entry).result()
    database.close()
    subprocess.run(["chmod", "-R", "a-w", str(root)], check=True)
    try:
        listed = taskyard("history", "list", at=root, plain_user=True)
        counted = taskyard("history", "stats", at=root, plain_user=True)
    finally:
        subprocess.run(["chmod", "-R", "u+w", str(root)], check=True)
    assert (listed.status, listed.err) == (0, "")
    assert "T1" in listed.out
    assert counted.out.startswith("entries   1 of 1,000\n")


def test_a_journal_that_a_full_disk_left_empty_counts_as_none(repo: Repo) -> None:
    root = repo({"a.txt": "a\n"}).path
    state_db = paths_of(root).state_db
    state_db.parent.mkdir(parents=True)
    state_db.touch()
    said = taskyard("status", at=root)
    assert (said.status, said.err) == (
        2,
        f"taskyard: nothing was run in {root} yet: start with: taskyard run\n",
    )
    said = taskyard("history", at=root)
    assert (said.status, said.out) == (0, "nothing was run yet; start with: taskyard run\n")
    said = taskyard("locks", at=root)
    assert (said.status, said.err) == (0, "")
