"""The journal: order, durability, cycles, and readers in other processes."""

from __future__ import annotations

import asyncio
import random
import signal
import tempfile
import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import StoreError
from engine.events import Event, Progressed, TaskQueued
from engine.model import Task
from engine.state import RunState
from engine.store import moving, run_log
from engine.store.database import Database
from engine.store.journal import Journal
from engine.store.journal_reader import JournalReader
from engine.store.state_db import open_state
from tests.samples import begun, started
from tests.unit.journals import STATE, note, start_child


def reader_of(journal_path: Path) -> JournalReader:
    return JournalReader(journal_path / "state.db", journal_path / "archive")


def test_a_run_that_did_nothing_until_it_was_taken_up_again_has_done_something(
    journal: Journal, tmp_path: Path
) -> None:
    run = journal.claim("board.md", "r").run.run
    journal.append(run, [note(1)], durable=True)
    journal.end_run(run, 1.0, "landed").result()
    reader = reader_of(tmp_path)

    def did_anything() -> bool:
        row = reader.run(run)
        assert row is not None
        return reader.did_anything(row)

    assert not did_anything()
    journal.reclaim(run)
    journal.append(run, [begun("A", at=2.0)], durable=True)
    journal.end_run(run, 3.0, "landed").result()
    assert did_anything()
    reader.close()


async def test_events_come_back_in_order_and_numbered_from_one(journal: Journal) -> None:
    journal.begin_run("r", "board.md")
    futures = [journal.append("r", [note(n), note(n + 1)], durable=n % 4 == 0) for n in range(0, 100, 2)]
    assert [await asyncio.wrap_future(f) for f in futures] == list(range(2, 101, 2))
    assert list(journal.events("r")) == [(n + 1, note(n)) for n in range(100)]
    assert [seq for seq, _ in journal.events("r", after_seq=97)] == [98, 99, 100]


def test_another_process_reads_across_cycles(journal: Journal, tmp_path: Path) -> None:
    journal.begin_run("r", "board.md")
    journal.append("r", [note(n) for n in range(1, 5001)], durable=True).result()
    reader = reader_of(tmp_path)
    assert reader.changed()
    assert not reader.changed()
    assert reader.poll("r", 4990) == [(n, note(n)) for n in range(4991, 5001)]
    assert journal.begin_cycle("r", STATE, 7.0).result() == 5001
    journal.append("r", [note(5002)], durable=True).result()
    assert reader.changed()
    row = reader.latest_run()
    assert row is not None
    assert (row.cycle, row.cycle_seq, row.archived_seq) == (2, 5001, 5000)
    # From the cycle on: the state, and one event. From before: everything once, from the archive and the table.
    assert [seq for seq, _ in reader.poll("r", row.resume_after)] == [5001, 5002]
    everything = reader.poll("r", 0)
    assert [seq for seq, _ in everything] == list(range(1, 5003))
    assert everything[4999] == (5000, note(5000))
    assert reader.poll("r", 1990, limit=20) == [(n, note(n)) for n in range(1991, 2011)]
    reader.close()


def test_reading_goes_on_while_cycles_change_under_it(journal: Journal, tmp_path: Path) -> None:
    """A watcher that polls through ten cycle changes sees every event once and in order."""
    journal.begin_run("r", "board.md")
    done = threading.Event()

    def write() -> None:
        for start in range(0, 10_000, 1000):
            for n in range(start, start + 999, 37):
                journal.append("r", [note(m) for m in range(n, min(n + 37, start + 999))], durable=False)
            journal.begin_cycle("r", STATE, 1.0)
        journal.append("r", [note(0)], durable=True).result()
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    reader, seen = reader_of(tmp_path), []
    while not done.is_set() or reader.changed():
        after = seen[-1] if seen else 0
        seen += [seq for seq, _ in reader.poll("r", after, limit=700)]
    writer.join()
    seen += [seq for seq, _ in reader.poll("r", seen[-1])]
    assert seen == list(range(1, 10_002))
    reader.close()


def test_a_resume_from_the_last_cycle_knows_as_much_as_from_the_first_event(
    journal: Journal, database: Database
) -> None:
    state, at, generator = RunState(), 0.0, random.Random(7)
    journal.begin_run("r", "board.md")
    tasks = tuple(Task(id=f"T{n}", scope=f"scope {n}") for n in range(20))
    start = started(*tasks, at=at, run="r", board="board.md")
    events: list[Event] = [start]
    for _ in range(5):
        for _ in range(200):
            at += 1
            task = generator.choice(tasks).id
            events.append(
                generator.choice([TaskQueued(at=at, task=task), Progressed(at=at, task=task, text="x")])
            )
        state.apply_all(events)
        journal.append("r", events, durable=True)
        journal.begin_cycle("r", msgspec.json.encode(state.snapshot()), at).result()
        events = []
    (row,) = journal.runs()
    assert row.cycle == 6
    resumed = RunState().apply_all(event for _, event in journal.events("r", row.resume_after))
    whole = RunState().apply_all(event for _, event in journal.events("r"))
    assert msgspec.json.encode(resumed.snapshot()) == msgspec.json.encode(whole.snapshot())
    assert resumed.view("T3").task.scope == "scope 3"


def test_ten_cycles_leave_no_more_live_than_one(journal: Journal, database: Database) -> None:
    journal.begin_run("r", "board.md")
    sizes = []
    for _ in range(10):
        journal.append("r", [note(n) for n in range(3000)], durable=True)
        journal.begin_cycle("r", STATE, 1.0).result()
        assert database.read(lambda c: c.execute("SELECT count(*) FROM events").get) == 1
        sizes.append(database.read(lambda c: c.pragma("page_count")))
    assert sizes[-1] <= sizes[0] * 1.02


def test_events_of_old_ended_runs_are_retired_and_can_still_be_read(
    journal: Journal, database: Database
) -> None:
    for n in range(5):
        journal.begin_run(f"r{n}", "board.md", started=float(n))
        journal.append(f"r{n}", [note(m) for m in range(10)], durable=True)
        if n != 1:
            journal.end_run(f"r{n}", 50.0, "landed").result()
    assert journal.retire(keep=2) == 20  # r0 and r2; r1 has not ended
    assert journal.retire(keep=2) == 0
    assert database.read(lambda c: c.execute("SELECT count(*) FROM events").get) == 30
    for n in range(5):
        assert [event for _, event in journal.events(f"r{n}")] == [note(m) for m in range(10)]


def test_a_full_disk_in_the_archive_keeps_the_events_live(journal: Journal, tmp_path: Path) -> None:
    journal.begin_run("r", "board.md")
    journal.append("r", [note(n) for n in range(1, 11)], durable=True)
    (tmp_path / "archive").write_text("in the way of the directory")
    with pytest.raises(StoreError, match="was not written"):
        journal.begin_cycle("r", STATE, 1.0).result()
    (tmp_path / "archive").unlink()
    journal.append("r", [note(12)], durable=True).result()
    assert [seq for seq, _ in journal.events("r")] == list(range(1, 13))
    assert journal.begin_cycle("r", STATE, 2.0).result() == 13
    assert [seq for seq, _ in journal.events("r")] == list(range(1, 14))
    (row,) = journal.runs()
    assert (row.cycle, row.archived_seq) == (3, 12)


def test_a_damaged_event_is_told_and_not_passed_on(journal: Journal, database: Database) -> None:
    journal.begin_run("r", "board.md")
    journal.append("r", [note(1), note(2)], durable=True)
    database.submit(
        lambda c: c.execute("UPDATE events SET payload = CAST(replace(payload, 'step 2', 'step 3') AS BLOB)")
    ).result()
    with pytest.raises(StoreError, match="event 2 of the journal is damaged"):
        list(journal.events("r"))


def test_an_event_of_a_newer_version_says_so(journal: Journal, database: Database) -> None:
    journal.begin_run("r", "board.md")
    payload, crc = run_log.pack(1, b'{"event":"teleported","at":1}')
    database.submit(lambda c: c.execute("INSERT INTO events VALUES(1, 1, ?, ?)", (payload, crc))).result()
    with pytest.raises(StoreError, match="another version"):
        list(journal.events("r"))


def test_an_unknown_run_and_a_taken_id_are_errors(journal: Journal) -> None:
    journal.begin_run("r", "board.md")
    with pytest.raises(StoreError, match="no run x"):
        journal.append("x", [note(1)], durable=True)
    with pytest.raises(StoreError, match="no run x"):
        list(journal.events("x"))
    with pytest.raises(StoreError, match="a run r already"):
        journal.begin_run("r", "board.md")


@pytest.mark.parametrize("run", ["..", "../../etc", "a/b", ".hidden", "über 漢字", "A%2FB"])
def test_any_run_id_keeps_its_segments_in_the_archive(journal: Journal, tmp_path: Path, run: str) -> None:
    journal.begin_run(run, "board.md")
    journal.append(run, [note(1)], durable=True)
    journal.begin_cycle(run, STATE, 1.0).result()
    files = list(tmp_path.rglob("*.jsonl.gz"))
    assert [path.parent.parent for path in files] == [tmp_path / "archive" / "events"]
    assert [seq for seq, _ in journal.events(run)] == [1, 2]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 6)),
        st.tuples(st.just("cycle"), st.just(0)),
        st.tuples(st.just("restart"), st.just(0)),
        st.tuples(st.just("retire"), st.integers(0, 1)),
        st.tuples(st.just("read"), st.integers(0, 40)),
    ),
    max_size=25,
)


@settings(max_examples=25, deadline=None)
@given(steps, st.integers(1, 4))
def test_whatever_happens_the_journal_is_the_list_of_its_events(
    plan: list[tuple[str, int]], moved: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(moving, "MOVED_AT_ONCE", moved)
        path, archive = Path(folder, "state.db"), Path(folder, "archive")
        database = open_state(path)
        journal = Journal(database, archive)
        journal.begin_run("r", "board.md")
        expected: list[Event | None] = []  # None stands for the event that opens a cycle
        for what, n in plan:
            if what == "append":
                events = [note(len(expected) + k) for k in range(n)]
                journal.append("r", events, durable=True).result()
                expected += events
            elif what == "cycle":
                assert journal.begin_cycle("r", STATE, 1.0).result() == len(expected) + 1
                expected.append(None)
            elif what == "restart":
                database.close()
                database = open_state(path)
                journal = Journal(database, archive)
            elif what == "retire":
                journal.end_run("r", 1.0, "landed")
                journal.retire(keep=n)
            else:
                found = list(journal.events("r", n))
                assert [seq for seq, _ in found] == list(range(n + 1, len(expected) + 1))
                assert all(expected[seq - 1] in (None, event) for seq, event in found)
        assert len(list(journal.events("r"))) == len(expected)
        database.close()


# kill -9 in the middle of a cycle change

CHANGE_CYCLE = """
import sys
from pathlib import Path
import engine.store.database
from engine.events import Progressed
from engine.store.journal import Journal
from engine.store.state_db import open_state
from tests.unit.deadly import die, die_archiving

folder, point = Path(sys.argv[1]), sys.argv[2]
database = open_state(folder / "state.db")
journal = Journal(database, folder / "archive")
journal.begin_run("r", "board.md")
journal.append("r", [Progressed(at=float(n), task="A", text="x") for n in range(1, 3001)], durable=True).result()

commits = []
def nth_commit(number, *_):
    commits.append(1)
    if len(commits) == number:
        die()
    return False

die_archiving(point)
if point.startswith("commit"):
    # The first transaction (after this one) opens the cycle, the second and third move 1000 events each.
    journal._database.submit(lambda c: c.set_commit_hook(lambda: nth_commit(int(point[-1]) + 1))).result()
elif point.startswith("after"):
    # This hook is called when a transaction is committed, and not for one that wrote nothing, as this one.
    journal._database.submit(lambda c: c.set_wal_hook(lambda *a: nth_commit(int(point[-1])) or 0)).result()
# One job a transaction, whatever waits in the queue.
engine.store.database.GROUP = 1
journal.begin_cycle("r", b"{}", 1.0).result()
print("survived", flush=True)
"""

POINTS = ["half written", "written", "renamed", "synced"]
POINTS += [f"{kind} {n}" for kind in ("commit", "after") for n in (1, 2, 3)]


@pytest.mark.parametrize("point", POINTS)
def test_kill_9_in_a_cycle_change_loses_nothing_and_doubles_nothing(tmp_path: Path, point: str) -> None:
    child = start_child(CHANGE_CYCLE, tmp_path, point)
    assert child.communicate(timeout=200)[0] == ""
    assert child.returncode == -signal.SIGKILL

    reader = reader_of(tmp_path)
    seen = [seq for seq, _ in reader.poll("r", 0)]
    opened = point != "commit 1"
    assert seen == list(range(1, 3002 if opened else 3001))
    reader.close()

    database = open_state(tmp_path / "state.db")
    journal = Journal(database, tmp_path / "archive")
    claim = journal.claim("board.md", "new")
    assert claim.resumed
    assert claim.run.cycle == (2 if opened else 1)
    journal.append("r", [note(1)], durable=True)
    last = journal.begin_cycle("r", STATE, 2.0).result()
    assert [seq for seq, _ in journal.events("r")] == list(range(1, last + 1))
    on_disk = [
        seq
        for segment in run_log.event_segments(tmp_path / "archive", "r")
        for seq, _ in run_log.archived_payloads(tmp_path / "archive", "r", segment.first - 1, segment.last)
    ]
    assert on_disk == list(range(1, last))
    assert [
        path.name for path in (tmp_path / "archive").rglob("*") if path.name.endswith((".tmp", ".kept"))
    ] == []
    database.close()
