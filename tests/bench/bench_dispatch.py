"""Tasks through the dispatcher alone, and through the whole local engine with its journal."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from engine import events as ev
from engine.activities import Attempt, Recalled
from engine.bus import Bus
from engine.dispatch import Dispatcher, Slot
from engine.errors import StageFailedError
from engine.events import Event
from engine.model import Change, Plan, Stage, Task, TaskState, Verdict, Verification
from engine.pipeline import run_task
from engine.recorder import JournalSink
from engine.state import RunState
from engine.store.journal import Journal
from engine.store.state_db import open_state
from tests.bench import Row
from tests.bench.long_run import long_run
from tests.samples import started

EMPTY = 10_000


def _tasks(count: int) -> list[Task]:
    return [Task(f"T{number}", "nothing to do", command="true") for number in range(count)]


async def _speedup() -> float:
    async def work(task: Task, slot: Slot) -> None:
        await asyncio.sleep(0.1)

    dispatcher = Dispatcher(work, max_concurrency=10)
    dispatcher.add(_tasks(9))
    await dispatcher.wait()
    return dispatcher.stats().speedup


async def _empty() -> float:
    async def work(task: Task, slot: Slot) -> None:
        return None

    start = time.perf_counter()
    dispatcher = Dispatcher(work, max_concurrency=10)
    dispatcher.add(_tasks(EMPTY))
    await dispatcher.wait()
    assert dispatcher.are_all_complete()
    return (time.perf_counter() - start) / EMPTY


async def _thousand_seconds() -> float:
    async def work(task: Task, slot: Slot) -> None:
        await asyncio.sleep(1.0)

    start = time.perf_counter()
    dispatcher = Dispatcher(work, max_concurrency=1000)
    dispatcher.add(_tasks(1000))
    await dispatcher.wait()
    return time.perf_counter() - start


class _Nothing:
    """Activities whose work takes no time; their events are all there, and what must be durable is."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    def now(self) -> float:
        return self._bus.clock()

    def emit(self, event: Event) -> None:
        self._bus.emit(event)

    async def commit(self, event: Event) -> None:
        await self._bus.commit(event)

    def log(self, attempt: Attempt, stage: Stage) -> str:
        return ""

    async def begin(self, task: Task, number: int, feedback: str) -> Attempt:
        attempt = Attempt(task, number, f"task/{task.id}", "0" * 40, "/nowhere", (), feedback)
        await self.commit(
            ev.AttemptStarted(
                at=self.now(), task=task.id, attempt=number, branch=attempt.branch, base=attempt.base
            )
        )
        return attempt

    async def brief(self, attempt: Attempt, plan: Plan) -> Attempt:
        return attempt

    async def reopen(self, attempt: Attempt, change: Change | None) -> None:
        return None

    async def recall(self, task: Task) -> Recalled | None:
        return None

    async def apply(self, attempt: Attempt, recalled: Recalled) -> Change:
        raise AssertionError("nothing is recalled")

    async def plan(self, attempt: Attempt) -> Plan:
        return Plan(("do it",), ("a.py",))

    async def implement(self, attempt: Attempt, plan: Plan) -> Change:
        return Change("1" * 40, attempt.base, 1, 1, 0, "done")

    async def verify(self, attempt: Attempt, change: Change) -> Verification:
        return Verification("true", 0, 0.0)

    async def judge(
        self, attempt: Attempt, plan: Plan, change: Change, verification: Verification
    ) -> Verdict:
        return Verdict(True, "fine")

    async def learn(self, attempt: Attempt, plan: Plan, stage: Stage, failure: StageFailedError) -> None:
        return None

    async def ready(self, attempt: Attempt, change: Change) -> None:
        self.emit(
            ev.TaskReadyToLand(
                at=self.now(), task=attempt.task.id, attempt=attempt.number, commit=change.commit
            )
        )


async def _whole_engine(folder: Path, count: int) -> float:
    """Tasks a second through dispatcher, pipeline, reducer and a journal that survives a power cut."""
    database = open_state(folder / "state.db")
    journal = Journal(database, folder / "archive")
    journal.begin_run("r1", "board.md")
    bus = Bus()
    bus.attach(JournalSink(journal, "r1", lambda: bus.state), RunState())
    activities = _Nothing(bus)
    tasks = _tasks(count)
    await bus.commit(started(*tasks, at=time.time(), max_concurrency=64))

    async def work(task: Task, slot: Slot) -> None:
        ready = await run_task(task, activities)
        await bus.commit(ev.TaskLanded(at=time.time(), task=task.id, commit=ready.change.commit, train=1))

    start = time.perf_counter()
    dispatcher = Dispatcher(work, max_concurrency=64)
    dispatcher.add(tasks)
    await dispatcher.wait()
    took = time.perf_counter() - start
    assert bus.state.snapshot().count(TaskState.LANDED) == count
    database.close()
    return count / took


async def _long_run(folder: Path, count: int) -> None:
    """Journal what a run of that many tasks with three model calls each tells, as fast as the disk takes it."""
    database = open_state(folder / "state.db")
    journal = Journal(database, folder / "archive")
    journal.begin_run("r1", "board.md")
    bus = Bus()
    bus.attach(JournalSink(journal, "r1", lambda: bus.state), RunState())
    for n, event in enumerate(long_run(count)):
        # Every twentieth is waited for, as much as in a run: the file must not grow with what waits for the disk.
        if n % 20 == 0:
            await bus.commit(event)
        else:
            bus.emit(event)
    await asyncio.wrap_future(database.submit(lambda _: None))
    assert bus.state.snapshot().count(TaskState.LANDED) == count
    database.close()


def _resume(folder: Path) -> float:
    """Seconds to read the state of an interrupted run back."""
    database = open_state(folder / "state.db")
    journal = Journal(database, folder / "archive")
    start = time.perf_counter()
    row = journal.runs()[0]
    state = RunState().apply_all(event for _, event in journal.events(row.run, row.resume_after))
    took = time.perf_counter() - start
    assert row.cycle > 1
    assert state.snapshot().count(TaskState.LANDED) == EMPTY
    database.close()
    return took


def rows() -> list[Row]:
    """Measure."""
    speedup = max(asyncio.run(_speedup()) for _ in range(3))
    empty = min(asyncio.run(_empty()) for _ in range(3))
    wide = asyncio.run(_thousand_seconds())
    with tempfile.TemporaryDirectory() as folder:
        rate = max(asyncio.run(_whole_engine(Path(folder, f"empty{n}"), EMPTY)) for n in range(2))
        small, large = Path(folder) / "small", Path(folder) / "large"
        asyncio.run(_long_run(small, EMPTY // 10))
        asyncio.run(_long_run(large, EMPTY))
        resume = _resume(large)
        sizes = [(path / "state.db").stat().st_size for path in (small, large)]
    return [
        Row("9 tasks of 100 ms, 10 slots: speed-up", "≥ 8.9", speedup, "×", None, speedup >= 8.9),
        Row(
            "10,000 empty tasks in the dispatcher", "≤ 100 µs each", empty * 1e6, "µs", None, empty <= 100e-6
        ),
        Row(
            "10,000 empty tasks, whole engine with journal", "≥ 1,000/s", rate, "tasks/s", None, rate >= 1000
        ),
        Row(
            "live journal after 10,000 tasks",
            f"≤ after 1,000: {sizes[0] / 1e6:.1f} MB",
            sizes[1] / 1e6,
            "MB",
            sizes[1] / sizes[0],
            sizes[1] <= sizes[0],
        ),
        Row("resume from the last cycle of 10,000 tasks", "≤ 1 s", resume, "s", None, resume <= 1.0),
        Row("1,000 tasks of 1 s, 1,000 slots", "≤ 1.5 s", wide, "s", None, wide <= 1.5),
    ]
