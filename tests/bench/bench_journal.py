"""The journal: writing, following from another connection, cycles that keep it small, and resuming a big run."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import threading
import time
from pathlib import Path

import msgspec

from engine.events import Progressed, TaskQueued
from engine.model import Task
from engine.state import RunState
from engine.store.journal import Journal
from engine.store.journal_reader import JournalReader
from engine.store.state_db import open_state
from tests.bench import Row
from tests.samples import started


def rows() -> list[Row]:
    """Measure in a temporary folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return [*asyncio.run(_writing(folder)), _following(folder), _cycles(folder), _resuming(folder)]


def _event(n: int) -> Progressed:
    return Progressed(at=float(n), task=f"T{n % 50}", text="reading engine/parser.py, 120 lines")


async def _writing(folder: Path) -> list[Row]:
    database = open_state(folder / "writing.db")
    journal = Journal(database, folder / "archive")
    journal.begin_run("run", "board.md")

    async def write(count: int) -> None:
        for n in range(count):
            await asyncio.wrap_future(journal.append("run", [_event(n)], durable=True))

    start = time.perf_counter()
    await asyncio.gather(*(write(200) for _ in range(50)))
    shared = 10_000 / (time.perf_counter() - start)
    start = time.perf_counter()
    await write(500)
    alone = 500 / (time.perf_counter() - start)
    start = time.perf_counter()
    for n in range(20_000):
        written = journal.append("run", [_event(n)], durable=False)
    called = (time.perf_counter() - start) / 20_000 * 1e6
    await asyncio.wrap_future(written)
    database.close()
    return [
        Row(
            "durable events, 50 tasks that wait (to one)",
            "≥ 10,000",
            shared,
            "/s",
            shared / alone,
            shared >= 10_000,
        ),
        Row("append without waiting, for the caller", "≤ 40", called, "µs", None, called <= 40),
    ]


def _following(folder: Path) -> Row:
    """From the call that appends to the moment a reader that polls every 20 ms has the event."""
    path, archive = folder / "following.db", folder / "archive"
    database = open_state(path)
    journal = Journal(database, archive)
    journal.begin_run("run", "board.md")
    arrived: dict[int, float] = {}
    stop = threading.Event()

    def follow() -> None:
        reader, seen = JournalReader(path, archive), 0
        while not stop.wait(0.02):
            if reader.changed():
                for seq, _ in reader.poll("run", seen):
                    arrived[seq] = time.perf_counter()
                    seen = seq
        reader.close()

    thread = threading.Thread(target=follow)
    thread.start()
    sent = {}
    for n in range(1, 101):
        time.sleep(0.0137)
        sent[n] = time.perf_counter()
        journal.append("run", [_event(n)], durable=True).result()
    while len(arrived) < len(sent):
        time.sleep(0.01)
    stop.set()
    thread.join()
    database.close()
    median = statistics.median((arrived[n] - sent[n]) * 1000 for n in sent)
    return Row("from append to a reader that polls (p50)", "≤ 25", median, "ms", None, median <= 25)


def _cycles(folder: Path) -> Row:
    """The file after 10,000 tasks of 20 events, beside that after 1,000; the numbers of events grow by a byte."""
    database = open_state(folder / "cycles.db")
    journal = Journal(database, folder / "archive")
    journal.begin_run("run", "board.md")
    live: list[int] = []
    for cycle in range(1, 101):
        for start in range(0, 2000, 100):
            journal.append("run", [_event(start + n) for n in range(100)], durable=False)
        journal.begin_cycle("run", b"{}", float(cycle)).result()
        live.append(database.read(lambda c: int(c.pragma("page_count")) * int(c.pragma("page_size"))))
    database.close()
    ratio = live[99] / live[9]
    return Row(
        "journal after 10,000 tasks (to 1,000)", "≤ 1.02 ×", live[99] / 1e3, "KB", ratio, ratio <= 1.02
    )


def _resuming(folder: Path) -> Row:
    """A board of 10,000 tasks: read the state that opened the last cycle, and the events after it."""
    database = open_state(folder / "resuming.db")
    journal = Journal(database, folder / "archive")
    tasks = tuple(
        Task(id=f"T{n}", scope=f"Handle case {n} of the parser", branch=f"task/T{n}") for n in range(10_000)
    )
    start = started(*tasks, at=1.0, run="run", board="board.md")
    journal.begin_run("run", "board.md")
    state = RunState().apply_all([start, *(TaskQueued(at=2.0, task=task.id) for task in tasks)])
    journal.append("run", [start], durable=True)
    journal.begin_cycle("run", msgspec.json.encode(state.snapshot()), 3.0).result()
    journal.append("run", [_event(n) for n in range(5000)], durable=True).result()
    began = time.perf_counter()
    (row,) = journal.runs()
    resumed = RunState().apply_all(event for _, event in journal.events("run", row.resume_after))
    taken = time.perf_counter() - began
    database.close()
    whole = len(resumed.snapshot().tasks) == 10_000
    return Row("resume 10,000 tasks and 5,000 events", "≤ 1", taken, "s", None, whole and taken <= 1)
