"""Where snapshots come from, and what is looked up beside them."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine import events as ev
from engine.errors import StoreError
from engine.model import Change, Task, TaskState
from engine.store.journal import Journal
from engine.store.journal_reader import JournalReader
from engine.store.owner import Owner, process_mark
from engine.store.state_db import open_state
from engine.task_view import TaskView
from tests import samples
from tests.sample_repository import SampleRepository
from tests.tui import sample_run
from tui.diff import MAX_LINES, MOST_LINES, diff_text
from tui.estimates import throughput, time_to_go
from tui.frame import Frame
from tui.line import plain
from tui.log_tail import FIRST_BYTES, LogTail
from tui.source import Lookups, RecordedSource, ReplaySource, WatchSource
from tui.source.lookups import LessonSearch


async def until(condition: Callable[[], bool], seconds: float = 90.0) -> None:
    """Wait until the condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def living_process() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def frame_of(source: WatchSource) -> Frame:
    return Frame(source.latest(), source.now(), source.health(), source.mode)


def test_lessons_that_were_still_being_opened_at_the_end_are_let_go() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def open_lessons() -> LessonSearch:
        begun.set()
        go_on.wait(30)
        raise StoreError("too late")

    lookups = Lookups(open_lessons)

    async def dashboard() -> None:
        asking = asyncio.ensure_future(lookups.lesson("a"))
        await until(begun.is_set)
        asking.cancel()
        asyncio.get_running_loop().call_later(0.2, go_on.set)  # the loop waits for its threads as it ends

    asyncio.run(dashboard())
    asyncio.run(lookups.close())


async def test_a_watched_run_is_followed_until_its_process_dies(tmp_path: Path) -> None:
    process = living_process()
    source = WatchSource(tmp_path / "state.db", tmp_path / "archive")
    source.start()
    await until(lambda: "cannot be read" in source.health().text)
    owner = Owner(Owner.of_this_process().host, process.pid, process_mark(process.pid) or "")
    database = open_state(tmp_path / "state.db")
    try:
        journal = Journal(database, tmp_path / "archive")
        journal.begin_run("r1", "tasks/board.md", owner=owner)
        await asyncio.wrap_future(journal.append("r1", sample_run.events_until(95), durable=True))
        await until(lambda: source.latest().count(TaskState.LANDED) == 5)
        assert source.health().alive
        later = [e for e in sample_run.events() if sample_run.BEGIN + 95 < e.at <= sample_run.BEGIN + 290]
        await asyncio.wrap_future(journal.append("r1", later, durable=True))
        await until(lambda: source.latest().count(TaskState.FAILED) == 1)
        shown = frame_of(source).elapsed
        process.kill()
        process.wait()
        await until(lambda: not source.health().alive)
        assert source.health().text == "the run has died; take it up with: taskyard run"
        stopped = frame_of(source).elapsed
        assert stopped >= shown, "the clock stands where it was, and does not go back to the last event"
        assert frame_of(source).elapsed == stopped
    finally:
        process.kill()
        await source.stop()
        database.close()


async def test_watching_goes_on_with_the_next_run(tmp_path: Path) -> None:
    database = open_state(tmp_path / "state.db")
    journal = Journal(database, tmp_path / "archive")
    first = sample_run.events_until(50)
    journal.begin_run("r1", "tasks/board.md")
    await asyncio.wrap_future(journal.append("r1", first, durable=True))
    source = WatchSource(tmp_path / "state.db", tmp_path / "archive")
    source.start()
    try:
        await until(lambda: source.latest().at == first[-1].at)
        journal.begin_run("r2", "tasks/board.md")
        await asyncio.wrap_future(journal.append("r2", sample_run.events_until(20), durable=True))
        await until(lambda: 0 < source.latest().at < first[-1].at)
    finally:
        await source.stop()
        database.close()


async def test_watching_goes_on_in_a_state_folder_that_was_removed_and_made_anew(tmp_path: Path) -> None:
    state = tmp_path / "state"

    async def begin(run: str, *, until_: float) -> ev.Event:
        database = open_state(state / "state.db")
        journal = Journal(database, state / "archive")
        journal.begin_run(run, "tasks/board.md")
        events = sample_run.events_until(until_)
        await asyncio.wrap_future(journal.append(run, events, durable=True))
        database.close()
        return events[-1]

    for run in ("r1", "r2"):
        first = await begin(run, until_=50)
    source = WatchSource(state / "state.db", state / "archive")
    source.start()
    try:
        await until(lambda: source.latest().at == first.at)
        shutil.rmtree(state)
        await until(lambda: "cannot be read" in source.health().text)
        assert source.latest().at == first.at, "what was read last stays"
        later = await begin("r3", until_=20)
        await until(lambda: source.latest().at == later.at)
        assert "cannot be read" not in source.health().text
    finally:
        await source.stop()


def test_the_end_of_a_watched_run_does_not_give_way_to_an_older_one_at_work(tmp_path: Path) -> None:
    database = open_state(tmp_path / "state.db")
    journal = Journal(database, tmp_path / "archive")
    for run in ("r1", "r2"):
        journal.begin_run(run, "tasks/board.md")
        journal.append(run, sample_run.events_until(20), durable=True).result()
    source = WatchSource(tmp_path / "state.db", tmp_path / "archive")
    reader = JournalReader(tmp_path / "state.db", tmp_path / "archive")
    assert source._look(reader, None)
    journal.end_run("r2", sample_run.events_until(20)[-1].at, "landed").result()
    assert reader.shown_run(time.time()) == reader.run("r1")
    assert not source._look(reader, None)
    assert source._look(reader, "r1")
    reader.close()
    database.close()


def test_a_replay_ends_where_the_run_ended() -> None:
    """What a dashboard that stayed open told of it later stretched the tape, and so did the pause before a retry."""
    clock = [0.0]
    events = [
        samples.started(at=100.0),
        samples.finished(at=107.0),
        ev.Measured(at=147.0),
        ev.RunResumed(at=150.0, host="here", pid=1, rested=True),
        ev.TaskReopened(at=151.0, task="A-1"),
        samples.finished(at=153.0, total=2),
        ev.Noticed(at=190.0, level="info", text="told while nothing went on"),
    ]
    source = ReplaySource(events, monotonic=lambda: clock[0])
    source.start()
    assert source.playback.length == 10.0
    clock[0] = 7.0
    assert source.latest().run.finished is None
    assert source.latest().run.resumes == 1
    clock[0] = 10.0
    ended = source.latest().run.finished
    assert ended is not None
    assert ended.total == 2
    assert source.latest().notices[-1].text == "told while nothing went on"


def test_a_replay_jumps_back_to_exactly_what_was() -> None:
    clock = [0.0]
    source = ReplaySource(sample_run.events(), monotonic=lambda: clock[0])
    source.start()
    source.playback.seek(120)
    there = source.latest()
    source.playback.seek(300)
    assert source.latest().count(TaskState.LANDED) > there.count(TaskState.LANDED)
    source.playback.seek(120)
    assert source.latest().counts == there.counts
    assert source.latest().totals == there.totals


def test_the_tape_stops_at_its_end_and_begins_anew() -> None:
    clock = [0.0]
    source = ReplaySource(sample_run.events_until(60), speed=4.0, monotonic=lambda: clock[0])
    source.start()
    clock[0] = 1000.0
    assert source.playback.position == source.playback.length
    assert not source.playback.playing
    source.playback.toggle()
    assert source.playback.position == 0.0
    clock[0] += 2
    assert source.playback.position == 8.0


def test_the_tape_leaves_out_the_time_in_which_nobody_worked_on_the_run() -> None:
    events = sample_run.events_until(60)
    gone = events[-1].at + 3600.0
    again = ev.RunResumed(at=gone, host="here", pid=2)
    later = ev.Noticed(at=gone + 5.0, level="info", text="on again")
    source = ReplaySource([*events, again, later], monotonic=lambda: 0.0)
    worked = events[-1].at - events[0].at
    assert source.playback.length == pytest.approx(worked + 5.0)
    for at in (0.0, 20.0, worked - 0.1, worked + 2.0, worked + 5.0):
        source.playback.seek(at)
        snapshot = source.latest()
        assert snapshot.run.elapsed(source.now()) == pytest.approx(at), "the header has the same clock"
    assert source.now() == pytest.approx(later.at)


async def test_a_diff_is_what_git_says(repo: Callable[..., SampleRepository]) -> None:
    project = repo({"a.py": "x = 1\n"})
    base = project.git("rev-parse", "HEAD").strip()
    (project.path / "a.py").write_text("x = 2\n")
    project.git("commit", "-qam", "Change it")
    commit = project.git("rev-parse", "HEAD").strip()
    view = TaskView(Task("T1", ""), TaskState.LANDED, change=Change(commit, base))
    diff = await Lookups().diff(str(project.path), view, view.change)
    shown = [plain(line) for line in diff_text(diff).lines]
    assert shown[0] == "a.py  +1 −1"
    assert shown[2:] == ["     - x = 1", "   1 + x = 2"]


def test_a_huge_diff_is_capped_and_says_so() -> None:
    body = "\n".join(f"+line {n}" for n in range(2 * MAX_LINES))
    diff = f"diff --git a/f.txt b/f.txt\n--- a/f.txt\n+++ b/f.txt\n@@ -0,0 +1,{2 * MAX_LINES} @@\n{body}\n"
    shown = diff_text(diff)
    assert len(shown.lines) == MAX_LINES + 1
    assert shown.cut
    assert "a shows all, o opens all of it" in plain(shown.lines[-1])
    everything = diff_text(diff, MOST_LINES)
    assert plain(everything.lines[-1]).endswith(f"line {2 * MAX_LINES - 1}")


def test_a_diff_of_many_files_begins_with_what_changed_in_each() -> None:
    diff = "".join(
        f"diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n@@ -1 +1,2 @@\n-x\n+y\n+z\n"
        for name in ("a.py", "b.py")
    )
    shown = diff_text(diff)
    assert [plain(line) for line in shown.lines[:3]] == ["2 files  +4 −2", "  a.py  +2 −1", "  b.py  +2 −1"]
    assert [plain(shown.lines[at]) for at in shown.files] == ["a.py  +2 −1", "b.py  +2 −1"]


def test_a_growing_log_is_read_only_where_it_grew(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"y\n" * (2 * FIRST_BYTES))
    tail = LogTail(path)
    assert tail.read()
    assert tail.skipped.startswith("the last")
    assert tail.lines[-1] == "y"
    with open(path, "ab") as file:
        file.write(b"half")
    assert tail.read()
    assert tail.lines[-1] == "half"
    with open(path, "ab") as file:
        file.write(b" and half\nnext\n")
    assert tail.read()
    assert tail.lines[-2:] == ["half and half", "next"]
    assert not tail.read()


def test_a_log_that_was_written_anew_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("old line\nanother\n")
    tail = LogTail(path)
    tail.read()
    path.write_text("new\n")
    assert tail.read()
    assert tail.lines == ["new"]


def test_nothing_is_promised_before_enough_is_known() -> None:
    early = RecordedSource(sample_run.events_until(3)).latest()
    assert time_to_go(early, early.at) is None
    later = RecordedSource(sample_run.events_until(170)).latest()
    estimate = time_to_go(later, later.at)
    assert estimate is not None
    left = max(e.at for e in sample_run.events() if isinstance(e, ev.TaskLanded)) - later.at
    assert 0.4 * left < estimate.seconds < 2.5 * left


def test_throughput_counts_every_landing_of_the_window_once() -> None:
    snapshot = RecordedSource(sample_run.events_until(290)).latest()
    pace = throughput(snapshot, snapshot.at)
    assert pace is not None
    assert sum(pace.counts) == len(snapshot.landings)
    assert pace.in_words == f"{len(snapshot.landings) / pace.seconds * 60:.1f}/min"
