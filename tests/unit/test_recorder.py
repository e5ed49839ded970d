"""What listens to the bus: whatever is emitted or committed in whatever interleaving, a replay gives the same state."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import events as ev
from engine.bus import Bus
from engine.errors import StoreError
from engine.model import AnswerSource, Role, TaskState, Usage
from engine.recorder import HistoryRecorder, JournalSink
from engine.state import RunState
from engine.store.database import Database, ReadOnlyDatabase
from engine.store.history import HistoryPruner, HistoryReader, PrunePolicy
from engine.store.journal import Journal
from engine.store.journal_reader import JournalReader
from engine.store.owner import Owner
from engine.store.state_db import open_state
from tests import samples
from tests.bench.long_run import long_run
from tests.random_events import events

BOARD = "tasks/board.md"


@contextmanager
def opened(folder: Path) -> Iterator[tuple[Database, Journal]]:
    database = open_state(folder / "state.db")
    # Each opening is by a process that the next one finds dead: this process id, of another boot.
    owner = Owner(socket.gethostname(), os.getpid(), "another boot")
    try:
        yield database, Journal(database, folder / "archive", owner=owner)
    finally:
        database.close()


def join(journal: Journal, bus: Bus, *, cycle_bytes: int = 4_000_000) -> JournalSink:
    """Claim the board's run and go on from what it holds, as the engine does."""
    claim = journal.claim(BOARD, "r1")
    past = [event for _, event in journal.events(claim.run.run, claim.run.resume_after)]
    state = RunState().apply_all(past)
    sink = JournalSink(journal, claim.run.run, lambda: bus.state, cycle_bytes=cycle_bytes)
    bus.attach(sink, state)
    return sink


@contextmanager
def run_in(folder: Path, **options: int) -> Iterator[tuple[Bus, Journal, Database]]:
    """A run of the board in the folder, taken up where it stood."""
    with opened(folder) as (database, journal):
        bus = Bus()
        join(journal, bus, **options)
        yield bus, journal, database


def encoded(state: RunState) -> bytes:
    return msgspec.json.encode(state.snapshot())


def started() -> ev.RunStarted:
    return samples.started(at=1.0, board=BOARD, max_concurrency=2)


Step = tuple[str, ev.Event | None]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("emit"), events),
        st.tuples(st.just("commit"), events),
        st.tuples(st.just("pass"), st.none()),
        st.tuples(st.just("settle"), st.none()),
    ),
    max_size=40,
)


async def play(bus: Bus, script: Sequence[Step]) -> None:
    """Emit at once, commit in tasks that overlap, and let the loop turn where the script says so."""
    committing: list[asyncio.Task[None]] = []
    for what, event in script:
        match what:
            case "emit":
                assert event is not None
                bus.emit(event)
            case "commit":
                assert event is not None
                committing.append(asyncio.ensure_future(bus.commit(event)))
            case "pass":
                await asyncio.sleep(0)
            case "settle":
                await asyncio.gather(*committing)
    await asyncio.gather(*committing)


@given(steps, st.integers(500, 5_000))
@settings(max_examples=60, deadline=None)
def test_a_replay_gives_exactly_the_live_state(script: list[Step], cycle_bytes: int) -> None:
    async def live(journal: Journal) -> bytes:
        bus = Bus(lambda: 1.0)
        join(journal, bus, cycle_bytes=cycle_bytes)
        bus.emit(started())
        await play(bus, script)
        return encoded(bus.state)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with opened(folder) as (_, journal):
            state = asyncio.run(live(journal))
        # As a restart finds it: from the last cycle, and (for `replay`) from the very beginning.
        with opened(folder) as (_, journal):
            row = journal.runs()[0]
            newest = RunState().apply_all(event for _, event in journal.events("r1", row.resume_after))
            whole = RunState().apply_all(event for _, event in journal.events("r1"))
        reader = JournalReader(folder / "state.db", folder / "archive")
        watched = RunState().apply_all(event for _, event in reader.poll("r1", row.resume_after))
        reader.close()
    assert encoded(newest) == state
    assert encoded(whole) == state
    assert encoded(watched) == state


@given(st.lists(steps, min_size=2, max_size=4), st.integers(500, 4_000))
@settings(max_examples=25, deadline=None)
def test_a_run_that_is_taken_up_again_and_again_goes_on_where_it_was(
    scripts: list[list[Step]], cycle_bytes: int
) -> None:
    async def live(journal: Journal, script: list[Step], before: bytes | None) -> bytes:
        bus = Bus(lambda: 1.0)
        join(journal, bus, cycle_bytes=cycle_bytes)
        if before is None:
            bus.emit(started())
        else:
            assert encoded(bus.state) == before
        await play(bus, script)
        return encoded(bus.state)

    with tempfile.TemporaryDirectory() as name:
        state: bytes | None = None
        for script in scripts:
            with opened(Path(name)) as (_, journal):
                state = asyncio.run(live(journal, script, state))


async def test_the_journal_stays_small_and_the_live_state_counts_its_cycles(tmp_path: Path) -> None:
    with run_in(tmp_path, cycle_bytes=20_000) as (bus, journal, _):
        bus.emit(started())
        for n in range(1_000):
            bus.emit(ev.Progressed(at=float(n), task="A-1", text=f"line {n}"))
            await asyncio.sleep(0)
        await bus.commit(ev.TaskQueued(at=2_000.0, task="A-1"))
        row = journal.runs()[0]
        left = list(journal.events("r1", row.resume_after))
        size = journal.cycle_size("r1")
    assert bus.state.run.cycle >= 4
    assert size.events + 2.5 * size.state <= 20_000
    assert sum(len(ev.encode(event)) for _, event in left[1:]) == size.events
    assert isinstance(left[0][1], ev.CycleStarted)
    assert left[0][1].cycle == bus.state.run.cycle


@pytest.mark.parametrize("waits", ["before", "after"])
async def test_who_waits_beside_the_run_hears_of_a_failed_write_without_a_commit(
    tmp_path: Path, waits: str
) -> None:
    with opened(tmp_path) as (database, journal):
        bus = Bus()
        sink = join(journal, bus)
        await bus.commit(started())
        database.submit(lambda connection: connection.execute("DROP TABLE events")).result()
        waiter = asyncio.ensure_future(sink.until_broken()) if waits == "before" else None
        bus.emit(ev.TaskQueued(at=2.0, task="A-1"))
        await asyncio.sleep(0)
        await asyncio.to_thread(database.flush)
        async with asyncio.timeout(30):
            with pytest.raises(StoreError, match=r"the journal cannot be written: .*no such table"):
                await (waiter or sink.until_broken())


async def test_what_one_turn_of_the_loop_emits_is_kept_whole_and_in_order(tmp_path: Path) -> None:
    with run_in(tmp_path, cycle_bytes=20_000) as (bus, journal, _):
        bus.emit(started())
        for n in range(1_000):
            bus.emit(ev.Progressed(at=float(n), task="A-1", text=f"line {n}"))
        await bus.commit(ev.TaskQueued(at=2_000.0, task="A-1"))
        kept = [e.text for _, e in journal.events("r1") if isinstance(e, ev.Progressed)]
    assert kept == [f"line {n}" for n in range(1_000)]
    assert bus.state.run.cycle >= 3


def test_a_cycle_takes_details_from_old_tasks_once_and_leaves_all_others_as_they_are() -> None:
    state = RunState().apply_all(long_run(600))
    before = state.snapshot().tasks
    first = state.begin_cycle().tasks
    assert [view.calls for view in first[:100]] == [()] * 100
    assert first[100:] == before[100:]  # By identity: what did not change is not shown anew.
    assert all(one is other for one, other in zip(state.begin_cycle().tasks, first, strict=True))


async def test_a_resumed_run_counts_only_the_events_of_its_cycle(tmp_path: Path) -> None:
    """A long run must not begin a new cycle with every start."""
    with run_in(tmp_path, cycle_bytes=20_000) as (bus, _, _):
        bus.emit(started())
        for n in range(120):
            bus.emit(ev.Progressed(at=float(n), task="A-1", text=f"line {n}"))
        await bus.commit(ev.TaskQueued(at=2_000.0, task="A-1"))
        cycle = bus.state.run.cycle
    with run_in(tmp_path, cycle_bytes=20_000) as (again, _, _):
        await again.commit(ev.TaskQueued(at=2_001.0, task="A-1"))
        assert again.state.run.cycle == cycle


async def test_a_commit_returns_when_another_process_could_read_it(tmp_path: Path) -> None:
    with run_in(tmp_path) as (bus, _, _):
        await bus.commit(started())
        reader = JournalReader(tmp_path / "state.db", tmp_path / "archive")
        for n in range(20):
            await bus.commit(ev.TaskQueued(at=float(n), task="A-1"))
            assert len(reader.poll("r1", 0)) == n + 2
        reader.close()


async def test_text_that_is_no_utf_8_is_journaled_like_any_other(tmp_path: Path) -> None:
    with run_in(tmp_path) as (bus, journal, _):
        await bus.commit(started())
        bus.emit(ev.Progressed(at=2.0, task="A-1", text="caf\udce9"))
        await bus.commit(ev.TaskEnded(at=3.0, task="A-1", state=TaskState.FAILED, reason="git: \udcff"))
        replayed = RunState().apply_all(event for _, event in journal.events("r1"))
    assert encoded(replayed) == encoded(bus.state)
    assert bus.state.view("A-1").problem == "git: ?"


async def test_after_a_write_that_failed_nothing_is_promised_any_more(tmp_path: Path) -> None:
    with run_in(tmp_path) as (bus, _, database):
        await bus.commit(started())
        database.submit(lambda connection: connection.execute("DROP TABLE events")).result()
        with pytest.raises(StoreError):
            await bus.commit(ev.TaskQueued(at=2.0, task="A-1"))
        with pytest.raises(StoreError, match="journal cannot be written"):
            await bus.commit(ev.TaskQueued(at=3.0, task="A-1"))


async def test_a_failed_write_of_an_emitted_event_stops_the_next_commit(tmp_path: Path) -> None:
    with run_in(tmp_path) as (bus, _, database):
        await bus.commit(started())
        database.submit(lambda connection: connection.execute("DROP TABLE events")).result()
        bus.emit(ev.TaskQueued(at=2.0, task="A-1"))
        database.submit(lambda connection: None).result()
        with pytest.raises(StoreError):
            await bus.commit(ev.TaskQueued(at=3.0, task="A-1"))


async def test_cancelling_a_commit_does_not_take_the_event_back(tmp_path: Path) -> None:
    with run_in(tmp_path) as (bus, journal, _):
        await bus.commit(started())
        committing = asyncio.ensure_future(bus.commit(ev.TaskQueued(at=2.0, task="A-1")))
        await asyncio.sleep(0)
        committing.cancel()
        await asyncio.gather(committing, return_exceptions=True)
        await bus.commit(ev.TaskQueued(at=3.0, task="B-2"))
        replayed = RunState().apply_all(event for _, event in journal.events("r1"))
    assert encoded(replayed) == encoded(bus.state)
    assert bus.state.view("A-1").state is TaskState.QUEUED


# The history


def historian(
    database: Database, bus: Bus, folder: Path, run: str = "r1"
) -> tuple[HistoryPruner, HistoryRecorder]:
    policy = PrunePolicy(max_bytes=10**6, max_age=86_400.0, max_entries=100, archive_dir=folder / "old")
    pruner = HistoryPruner(database, policy, clock=lambda: 20.0)
    recorder = HistoryRecorder(pruner, run, lambda: bus.state)
    bus.subscribe(recorder.hear)
    return pruner, recorder


def begun(at: float, task: str = "A-1", attempt: int = 1) -> ev.AttemptStarted:
    return ev.AttemptStarted(at=at, task=task, attempt=attempt, branch=f"task/{task}", base="b")


async def test_an_execution_that_was_interrupted_is_gone_on_with_and_a_retry_is_another(
    tmp_path: Path,
) -> None:
    with run_in(tmp_path) as (bus, _, database):
        historian(database, bus, tmp_path)
        await bus.commit(started())
        await bus.commit(begun(2.0))
        await bus.commit(begun(3.0, attempt=2))
    with run_in(tmp_path) as (bus, _, database):
        pruner, _ = historian(database, bus, tmp_path)
        await bus.commit(ev.RunResumed(at=1004.0, host="h", pid=2))
        await bus.commit(begun(1005.0, attempt=2))
    with run_in(tmp_path) as (bus, _, database):
        pruner, _ = historian(database, bus, tmp_path)
        await bus.commit(ev.RunResumed(at=9005.0, host="h", pid=3))
        await bus.commit(begun(9005.5, attempt=2))
        await bus.commit(ev.TaskEnded(at=9006.0, task="A-1", state=TaskState.FAILED, reason="no"))
        await bus.commit(ev.TaskReopened(at=9007.0, task="A-1"))
        await bus.commit(begun(9008.0, attempt=3))
        await bus.commit(ev.TaskLanded(at=9009.0, task="A-1", commit="c" * 40, train=1))
        database.flush()
        second, first = pruner.recent(10)
        worked = bus.state.view("A-1").elapsed(9010.0)
    assert (first.status, first.started, first.ended, first.attempts) == (TaskState.FAILED, 2.0, 9006.0, 2)
    assert (second.status, second.started, second.ended, second.attempts) == (
        TaskState.LANDED,
        9008.0,
        9009.0,
        1,
    )
    # Neither the dead time counts nor that between the two, here and on the screen.
    assert (first.duration, second.duration, worked) == (3.0, 1.0, 4.0)


async def test_each_execution_has_what_it_took_itself(tmp_path: Path) -> None:
    """A retry stood there with the cost and the attempts of all before it: the sum was more than the run's."""

    def paid(at: float, usd: float | None) -> ev.CallAnswered:
        return samples.answered(f"c{at}", "A-1", at=at, usd=usd, duration=1.0)

    with run_in(tmp_path) as (bus, _, database):
        historian(database, bus, tmp_path)
        await bus.commit(started())
        for event in (
            begun(2.0),
            paid(2.5, 0.25),
            begun(3.0, attempt=2),
            paid(3.5, None),
            ev.TaskEnded(at=4.0, task="A-1", state=TaskState.FAILED, reason="no"),
            ev.TaskReopened(at=5.0, task="A-1"),
            begun(6.0, attempt=3),
            paid(6.5, 0.5),
            samples.finished(at=7.0),
        ):
            await bus.commit(event)
        database.flush()
        left = HistoryReader(database, tmp_path / "old").find(task="A-1", limit=1)[0]
        assert (left.status, left.ended, left.attempts, left.usd) == (TaskState.RUNNING, None, 1, 0.5)
    with run_in(tmp_path) as (bus, _, database):
        pruner, _ = historian(database, bus, tmp_path)
        await bus.commit(ev.RunResumed(at=100.0, host="h", pid=2))
        for event in (
            begun(101.0, attempt=4),
            paid(102.0, 1.0),
            ev.TaskLanded(at=103.0, task="A-1", commit="c" * 40, train=1),
        ):
            await bus.commit(event)
        database.flush()
        second, first = pruner.recent(10)
        view = bus.state.view("A-1")
    took = [(each.attempts, each.usd, each.unpriced, each.model_calls) for each in (first, second)]
    assert took == [(2, 0.25, 1, 2), (2, 1.5, 0, 2)]
    assert (view.attempt, view.usd, view.unpriced, view.model_calls) == (4, 1.75, 1, 4)
    assert first.usage + second.usage == view.usage
    assert view.usage.total > 0


async def test_what_a_run_leaves_open_is_ended_once_nobody_takes_it_up(tmp_path: Path) -> None:
    with run_in(tmp_path) as (bus, _, database):
        _, recorder = historian(database, bus, tmp_path)
        await bus.commit(started())
        await bus.commit(begun(2.0))
        pruner, later = historian(database, Bus(), tmp_path, "r2")
        later.settle({"r0": 1.0})
        database.flush()
        assert pruner.by_status(TaskState.RUNNING)
        later.settle({"r1": 5.0})
        database.flush()
        (entry,) = pruner.recent(10)
        assert (entry.status, entry.ended, entry.reason) == (TaskState.CANCELLED, 5.0, "its run ended")
        await bus.commit(begun(6.0, "B-2"))
        recorder.end_run()
        database.flush()
        assert not pruner.by_status(TaskState.RUNNING)


async def test_what_another_orchestrator_landed_is_in_the_history_only_if_it_was_begun_here(
    tmp_path: Path,
) -> None:
    with run_in(tmp_path) as (bus, _, database):
        pruner, _ = historian(database, bus, tmp_path)
        await bus.commit(started())
        await bus.commit(begun(2.0))
        for task in ("A-1", "B-2"):
            await bus.commit(ev.TaskLanded(at=9.0, task=task, commit="c" * 40, train=0, by="h, pid 2"))
        database.flush()
        entries = pruner.recent(10)
    assert [(entry.task, entry.status, entry.ended) for entry in entries] == [("A-1", TaskState.LANDED, 9.0)]


async def test_an_ended_task_is_in_the_history_with_what_it_used(tmp_path: Path) -> None:
    with run_in(tmp_path) as (bus, _, database):
        pruner, recorder = historian(database, bus, tmp_path)
        await bus.commit(started())
        bus.emit(ev.AttemptStarted(at=2.0, task="A-1", attempt=1, branch="task/A-1", base="b"))
        database.flush()
        (running,) = pruner.recent(10)
        assert (running.task, running.status, running.ended) == ("A-1", TaskState.RUNNING, None)
        for source in (AnswerSource.CALL, AnswerSource.CACHE, AnswerSource.CACHE):
            bus.emit(
                ev.CallAnswered(
                    at=3.0,
                    call=source,
                    task="A-1",
                    attempt=1,
                    role=Role.JUDGE,
                    model="m",
                    source=source,
                    usage=Usage(input=5),
                    usd=0.25,
                )
            )
        await bus.commit(ev.TaskLanded(at=9.0, task="A-1", commit="c" * 40, train=1))
        await bus.commit(ev.TaskEnded(at=9.5, task="B-2", state=TaskState.CANCELLED, reason="cancelled"))
        await bus.commit(ev.TaskEnded(at=9.5, task="nobody", state=TaskState.FAILED, reason="?"))
        database.flush()
        entries = {entry.task: entry for entry in pruner.recent(10)}
        figures = recorder.figures()
    assert set(entries) == {"A-1", "B-2"}
    landed = entries["A-1"]
    assert (landed.status, landed.started, landed.ended, landed.commit) == ("landed", 2.0, 9.0, "c" * 40)
    assert (landed.model_calls, landed.batched_requests, landed.cache_hits) == (1, 0, 2)
    assert (landed.usd, landed.usage) == (0.25, Usage(input=5))
    assert (entries["B-2"].status, entries["B-2"].reason) == ("cancelled", "cancelled")
    assert figures.entries == 2
    assert figures.journal_bytes > 0


async def test_the_journal_is_as_large_as_another_process_finds_it(tmp_path: Path) -> None:
    with run_in(tmp_path) as (bus, _, database):
        pruner, recorder = historian(database, bus, tmp_path)
        await bus.commit(started())
        sizes = [recorder.figures().journal_bytes]
        for _ in range(3):
            for number in range(100):
                bus.emit(ev.Progressed(at=3.0, task="A-1", text=f"{number} " * 60))
            await bus.commit(ev.Progressed(at=3.0, task="A-1", text="done"))
            sizes.append(recorder.figures().journal_bytes)
        other = ReadOnlyDatabase(tmp_path / "state.db")
        assert HistoryReader(other, pruner.policy).stats().journal_bytes == sizes[-1]
        other.close()
    assert all(after > before for before, after in pairwise(sizes)), "though the WAL holds it all"
