"""The history: the newest stay, the oldest are archived exactly once, whatever crashes."""

from __future__ import annotations

import gzip
import json
import random
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from engine.errors import StoreError
from engine.model import TaskState
from engine.store.database import Database
from engine.store.history import HistoryPruner, PrunePolicy, TaskHistory
from engine.store.state_db import open_state


class Clock:
    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def done(n: int, *, ended: float | None = None, **fields: object) -> TaskHistory:
    end = 1_000_000.0 + n if ended is None else ended
    return TaskHistory(
        id=f"r/{n}", run="r", task=f"T{n}", status=TaskState.LANDED, started=end - 5, ended=end, **fields
    )


def policy(tmp_path: Path, **limits: float) -> PrunePolicy:
    return PrunePolicy(archive_dir=tmp_path / "archive", **limits)


def ids(entries) -> list[str]:
    return [entry.id for entry in entries]


@pytest.fixture
def history(database: Database, tmp_path: Path, clock: Clock) -> HistoryPruner:
    return HistoryPruner(database, policy(tmp_path), clock=clock)


def settled(database: Database) -> None:
    """Wait until a pruning that an added entry set off is done."""
    database.flush()
    database.flush()


def test_the_newest_stay_and_each_of_the_others_is_archived_once(
    database: Database, tmp_path: Path, clock: Clock
) -> None:
    history = HistoryPruner(database, policy(tmp_path, max_entries=100), clock=clock)
    for n in range(1000):
        history.add(done(n))
    settled(database)
    history.prune()
    live = ids(history.recent(limit=1000))
    assert 80 <= len(live) <= 90
    assert live == [f"r/{n}" for n in range(999, 999 - len(live), -1)]
    assert ids(history.archive.entries()) == [f"r/{n}" for n in range(1000 - len(live))]
    stats = history.stats()
    assert (stats.entries, stats.archived, stats.problem) == (len(live), 1000 - len(live), "")


def test_it_prunes_by_itself_at_nine_tenths_and_down_to_eight(
    database: Database, tmp_path: Path, clock: Clock
) -> None:
    history = HistoryPruner(database, policy(tmp_path, max_entries=100), clock=clock)
    counts = []
    for n in range(300):
        history.add(done(n)).result()
        settled(database)
        counts.append(history.stats().entries)
    assert max(counts) == 90
    assert counts[89:92] == [90, 80, 81]
    assert history.stats().segments == (300 - 80) // 11


def test_the_byte_limit_counts_the_entries(database: Database, tmp_path: Path, clock: Clock) -> None:
    history = HistoryPruner(database, policy(tmp_path, max_bytes=100_000), clock=clock)
    for n in range(200):
        history.add(done(n, reason="x" * 1000)).result()
        settled(database)
        assert history.stats().bytes <= 92_000
    stats = history.stats()
    assert stats.bytes == history.memory_info().entries
    assert 60 <= stats.entries <= 80
    assert ids(history.recent())[0] == "r/199"
    # A longer reason makes the entry bigger, and the figure follows.
    history.update("r/199", reason="x" * 5000).result()
    assert history.stats().bytes == pytest.approx(stats.bytes + 4000, abs=1)


def test_age_counts_from_the_end_whatever_the_order_of_adding(
    database: Database, tmp_path: Path, clock: Clock
) -> None:
    history = HistoryPruner(database, policy(tmp_path, max_age=1000.0), clock=clock)
    ends = [clock.now + n for n in range(100)]
    random.Random(3).shuffle(ends)
    for n, end in enumerate(ends):
        history.add(done(n, ended=end))
    settled(database)
    assert history.stats().entries == 100
    clock.now += 1050
    history.add(done(100, ended=clock.now)).result()
    settled(database)
    left = history.recent(limit=200)
    # What is a little younger goes along, so that entries leave in company and not one by one.
    assert ids(left) == ["r/100"]
    assert sorted(entry.ended for entry in history.archive.entries()) == sorted(ends)
    assert history.stats().segments == 1


def test_what_runs_and_what_ended_last_never_leaves(database: Database, tmp_path: Path, clock: Clock) -> None:
    history = HistoryPruner(database, policy(tmp_path, max_entries=5, max_age=10.0), clock=clock)
    for n in range(20):
        running = TaskHistory(id=f"run/{n}", run="r2", task="T", status=TaskState.RUNNING, started=1.0)
        history.add(running)
    for n in range(5):
        history.add(done(n))
    clock.now += 10_000
    history.prune()
    assert history.stats().by_status == {TaskState.RUNNING: 20, TaskState.LANDED: 1}
    assert ids(history.by_status(TaskState.LANDED)) == ["r/4"]
    # A run that died takes nothing with it: its entries are ended, and can leave.
    assert history.end_run("r2", clock.now, "the process was killed").result() == 20
    assert history.prune().entries == 17
    assert history.recent()[0].reason == "the process was killed"


def test_finding(history: HistoryPruner) -> None:
    for n in range(10):
        history.add(done(n, reason="odd" if n % 2 else "even"))
    history.add(
        TaskHistory(id="q/1", run="q", task="T1", status=TaskState.RUNNING, started=2_000_000.0)
    ).result()
    assert ids(history.recent(3)) == ["q/1", "r/9", "r/8"]
    assert ids(history.by_status(TaskState.LANDED, 2)) == ["r/9", "r/8"]
    assert ids(history.between(1_000_000.0, 1_000_002.0)) == ["r/6", "r/5"]
    assert ids(history.find(task="T1")) == ["q/1", "r/1"]
    assert ids(history.find(task="T1", run="r", status=TaskState.LANDED)) == ["r/1"]
    assert history.find(run="nobody") == ()
    assert history.get("r/3").reason == "odd"
    assert history.get("r/33") is None
    assert history.get("r/3").duration == 5.0
    assert history.get("q/1").duration is None


def test_updating_checks_names_and_types(history: HistoryPruner) -> None:
    history.add(TaskHistory(id="a", run="r", task="T1", status=TaskState.RUNNING, started=1.0)).result()
    changed = history.update(
        "a", status=TaskState.LANDED, ended=9.0, commit="abc", metadata={"k": "v"}
    ).result()
    assert changed == history.get("a")
    assert (changed.status, changed.duration, changed.task) == (TaskState.LANDED, 8.0, "T1")
    for wrong in ({"ended": "later"}, {"usd": None}, {"metadata": {"k": 1}}, {"colour": "red"}, {"id": "b"}):
        with pytest.raises(StoreError):
            history.update("a", **wrong).result()
    assert history.get("a") == changed
    with pytest.raises(StoreError, match="no live entry"):
        history.update("b", ended=1.0).result()


def test_one_id_is_one_entry(history: HistoryPruner) -> None:
    history.add(done(1)).result()
    with pytest.raises(StoreError, match="r/1 already"):
        history.add(done(1)).result()
    assert history.stats().entries == 1


def test_two_executions_of_one_task_in_one_second_are_both_archived(
    database: Database, tmp_path: Path, clock: Clock
) -> None:
    history = HistoryPruner(database, policy(tmp_path, max_entries=2), clock=clock)
    for n in range(6):
        history.add(
            TaskHistory(id=f"r/T1/{n}", run="r", task="T1", status=TaskState.FAILED, started=5.0, ended=6.0)
        ).result()
        history.prune()
    assert ids(history.archive.entries()) + ids(history.recent()) == [f"r/T1/{n}" for n in range(6)]


def test_the_archive_can_be_listed_read_and_searched(
    database: Database, tmp_path: Path, clock: Clock
) -> None:
    history = HistoryPruner(database, policy(tmp_path, max_entries=10), clock=clock)
    for n in range(40):
        reason = 'said "Nein" in 漢字 👩‍💻' if n in (3, 17) else ""
        history.add(done(n, reason=reason, metadata={"Key": f"value{n}"})).result()
        settled(database)
    segments = history.archive.segments()
    assert [segment.number for segment in segments] == list(range(1, len(segments) + 1))
    assert (
        sum(segment.entries for segment in segments)
        == history.stats().archived
        == 40 - history.stats().entries
    )
    assert segments[0].first == 1_000_000.0
    assert all(a.last <= b.first for a, b in pairwise(segments))
    assert sum(segment.bytes for segment in segments) == history.stats().archived_bytes
    first = list(history.archive.entries(1))
    assert (first[0].id, len(first)) == ("r/0", segments[0].entries)
    assert ids(history.archive.search('SAID "nein"')) == ["r/17", "r/3"]
    assert ids(history.archive.search("漢字 👩‍💻", limit=1)) == ["r/17"]
    assert ids(history.archive.search("VALUE9")) == ["r/9"]
    assert history.archive.search("metadata") == ()  # a name of ours, and in no entry
    # Any tool can read a segment.
    lines = gzip.decompress(Path(segments[0].path).read_bytes()).splitlines()
    assert json.loads(lines[1])["id"] == "r/0"
    Path(segments[1].path).write_bytes(b"\x1f\x8b broken")
    with pytest.raises(StoreError, match="cannot be read"):
        list(history.archive.entries())


def test_a_failing_archive_keeps_the_entries_and_is_told(
    database: Database, tmp_path: Path, clock: Clock
) -> None:
    blocked = tmp_path / "archive"
    blocked.write_text("in the way of the directory")
    history = HistoryPruner(database, policy(tmp_path, max_entries=10), clock=clock)
    for n in range(30):
        history.add(done(n)).result()
    settled(database)
    assert history.stats().entries == 30
    assert "was not written" in history.stats().problem
    with pytest.raises(StoreError, match="was not written"):
        history.prune()
    blocked.unlink()
    clock.now += 61
    history.add(done(30)).result()
    settled(database)
    stats = history.stats()
    assert (stats.problem, stats.entries, stats.archived) == ("", 8, 23)


def test_the_archive_outlives_a_lost_database(database: Database, tmp_path: Path, clock: Clock) -> None:
    history = HistoryPruner(database, policy(tmp_path, max_entries=10), clock=clock)
    for n in range(20):
        history.add(done(n)).result()
        settled(database)
    before = ids(history.archive.entries())
    assert before
    (tmp_path / "second").mkdir()
    fresh = open_state(tmp_path / "second" / "state.db")
    again = HistoryPruner(fresh, policy(tmp_path, max_entries=10), clock=clock)
    assert again.stats().archived == len(before)
    for n in range(100, 120):
        again.add(done(n)).result()
        settled(fresh)
    assert ids(again.archive.entries())[: len(before)] == before
    assert ids(again.archive.entries())[len(before) :] + ids(again.recent())[::-1] == [
        f"r/{n}" for n in range(100, 120)
    ]
    fresh.close()


def test_the_live_store_does_not_grow_with_what_passed_through(
    database: Database, tmp_path: Path, clock: Clock
) -> None:
    history = HistoryPruner(database, policy(tmp_path), clock=clock)
    for n in range(1000):
        history.add(done(n))
    settled(database)
    early = history.memory_info()
    for n in range(1000, 20_000):
        history.add(done(n))
        if n % 50 == 0:
            database.flush()
    settled(database)
    late = history.memory_info()
    # How full the table is between two prunings depends on when they came: between 800 and 1,000 entries.
    assert late.entries <= 1000 / 800 * early.entries
    assert late.file <= 1000 / 800 * early.file
    assert history.stats().entries + history.stats().archived == 20_000
    assert late.archive > 0
    assert 10**7 < late.resident < 10**9


ADD_AND_PRUNE = """
import sys
from pathlib import Path
from engine.model import TaskState
from engine.store.history import HistoryPruner, PrunePolicy, TaskHistory
from engine.store.state_db import open_state
folder, name = Path(sys.argv[1]), sys.argv[2]
database = open_state(folder / "state.db")
policy = PrunePolicy(archive_dir=folder / "archive", max_entries=20, max_age=1e12)
history = HistoryPruner(database, policy)
for n in range(150):
    entry = TaskHistory(id=f"{name}/{n}", run=name, task="T", status=TaskState.LANDED, started=1.0, ended=float(n))
    history.add(entry).result()
history.prune()
assert not history.stats().problem, history.stats().problem
database.close()
"""


def test_two_processes_prune_one_history_and_archive_each_entry_once(tmp_path: Path, clock: Clock) -> None:
    command = [sys.executable, "-c", ADD_AND_PRUNE, str(tmp_path)]
    children = [subprocess.Popen([*command, name], cwd=Path(__file__).parents[2]) for name in ("a", "b")]
    assert [child.wait(timeout=200) for child in children] == [0, 0]
    database = open_state(tmp_path / "state.db")
    history = HistoryPruner(database, policy(tmp_path, max_entries=20, max_age=1e12), clock=clock)
    live = ids(history.recent(limit=1000))
    assert len(live) <= 18
    everything = sorted(ids(history.archive.entries()) + live)
    assert everything == sorted(f"{name}/{n}" for name in ("a", "b") for n in range(150))
    assert history.stats().archived == 300 - len(live)
    database.close()


# kill -9 in the middle of a pruning

PRUNE = """
import sys
from pathlib import Path
from engine.model import TaskState
from engine.store.history import HistoryPruner, PrunePolicy, TaskHistory
from engine.store.state_db import open_state
from tests.unit.deadly import die, die_archiving

folder, point = Path(sys.argv[1]), sys.argv[2]
database = open_state(folder / "state.db")
wide = PrunePolicy(archive_dir=folder / "archive", max_entries=1000, max_age=1e12)
history = HistoryPruner(database, wide)
for n in range(100):
    history.add(TaskHistory(id=f"r/{n}", run="r", task="T", status=TaskState.LANDED, started=float(n), ended=float(n)))
database.flush(); database.flush()

die_archiving(point)
if point == "commit":
    commits = []
    # Called for this transaction, too.
    def commit():
        commits.append(1)
        return len(commits) == 2 and die()
    database.submit(lambda c: c.set_commit_hook(commit)).result()
elif point == "committed":
    database.submit(lambda c: c.set_wal_hook(die)).result()
narrow = PrunePolicy(archive_dir=folder / "archive", max_entries=50, max_age=1e12)
history.policy = narrow
history.prune()
print("survived", flush=True)
"""


@pytest.mark.parametrize("point", ["half written", "written", "renamed", "synced", "commit", "committed"])
def test_kill_9_in_a_pruning_loses_nothing_and_doubles_nothing(
    tmp_path: Path, point: str, clock: Clock
) -> None:
    child = subprocess.run(
        [sys.executable, "-c", PRUNE, tmp_path, point],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
        timeout=200,
        check=False,
    )
    assert child.stdout == ""
    assert child.returncode == -signal.SIGKILL
    database = open_state(tmp_path / "state.db")
    for _ in range(2):  # Opening settles it, and opening again changes nothing.
        history = HistoryPruner(database, policy(tmp_path, max_entries=50, max_age=1e12), clock=clock)
        live, archived = ids(history.recent(limit=1000)), ids(history.archive.entries())
        assert archived + live[::-1] == sorted(archived + live, key=lambda name: int(name[2:]))
        assert len(live) + len(archived) == 100
        assert len(live) == (40 if point == "committed" else 100)
        assert history.stats().archived == len(archived)
        assert not list(tmp_path.rglob("*.tmp"))
    history.prune()
    archived = ids(history.archive.entries())
    assert archived == [f"r/{n}" for n in range(60)]
    assert ids(history.find(limit=1000)) == [f"r/{n}" for n in range(99, 59, -1)]
    database.close()
