"""The dispatcher: order, limits, failures and commands."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.dispatch import Dispatcher, Progress, Slot
from engine.model import Lane, Task


def tasks(*names: str, **fields: object) -> list[Task]:
    return [Task(name, f"do {name}", **fields) for name in names]  # type: ignore[arg-type]


async def nothing(task: Task, slot: Slot) -> None:
    return None


async def settle() -> None:
    """Let everything that is ready run."""
    for _ in range(20):
        await asyncio.sleep(0)


class Gate:
    """Work that waits until told to go on, and remembers who started."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.gates: dict[str, asyncio.Future[str]] = {}

    async def __call__(self, task: Task, slot: Slot) -> str:
        self.started.append(task.id)
        self.gates[task.id] = asyncio.get_running_loop().create_future()
        return await self.gates[task.id]

    async def open(self, name: str, error: Exception | None = None) -> None:
        if error is not None:
            self.gates[name].set_exception(error)
        else:
            self.gates[name].set_result(name)
        await settle()


async def test_nine_tasks_of_100_ms_in_ten_slots_run_side_by_side() -> None:
    here = asyncio.Barrier(9)

    async def work(task: Task, slot: Slot) -> None:
        await asyncio.sleep(0.1)
        await here.wait()  # where one of them had to wait for a slot, none would come to its end

    dispatcher = Dispatcher(work, max_concurrency=10)
    dispatcher.add(tasks(*"ABCDEFGHI"))
    async with asyncio.timeout(60):
        await dispatcher.wait()
    stats = dispatcher.stats()
    assert stats.completed == 9
    assert 1 < stats.speedup <= 9.01  # the benchmark holds 8.9


async def test_a_task_starts_the_moment_what_it_waits_for_is_done() -> None:
    gate = Gate()
    dispatcher = Dispatcher(gate)
    dispatcher.add([Task("C", "", after=("A", "B")), *tasks("A", "B")])
    await settle()
    assert gate.started == ["A", "B"]
    await gate.open("A")
    assert gate.started == ["A", "B"]
    await gate.open("B")
    assert gate.started == ["A", "B", "C"]


async def test_a_failure_disturbs_nobody_but_those_who_wait_for_it() -> None:
    gate = Gate()
    dispatcher = Dispatcher(gate)
    dispatcher.add([*tasks("A", "B"), Task("C", "", after=("A",))])
    await settle()
    error = RuntimeError("no")
    await gate.open("A", error)
    await gate.open("B")
    outcomes = {outcome.task_id: outcome for outcome in await dispatcher.wait()}
    assert outcomes["A"].progress is Progress.FAILED
    assert outcomes["A"].error is error
    assert outcomes["B"].result == "B"
    assert dispatcher.progress("C") is Progress.WAITING
    assert not dispatcher.are_all_complete()


async def test_all_complete_is_only_said_when_it_is_true() -> None:
    gate = Gate()
    dispatcher = Dispatcher(gate)
    dispatcher.add(tasks("A", "B"))
    await settle()
    assert not dispatcher.are_all_complete()
    await gate.open("A")
    assert dispatcher.is_complete("A")
    assert not dispatcher.are_all_complete()
    await gate.open("B")
    assert dispatcher.are_all_complete()


async def test_cancelled_tasks_keep_a_result_with_times() -> None:
    gate = Gate()
    dispatcher = Dispatcher(gate, max_concurrency=1)
    dispatcher.add(tasks("A", "B"))
    await settle()
    assert dispatcher.cancel("A")
    assert dispatcher.cancel("B")
    outcomes = await dispatcher.wait()
    assert [(o.task_id, o.progress) for o in outcomes] == [
        ("A", Progress.CANCELLED),
        ("B", Progress.CANCELLED),
    ]
    first = dispatcher.outcome("A")
    assert first is not None
    assert first.started_at is not None
    assert first.ended_at >= first.started_at
    assert not dispatcher.cancel("A")
    assert dispatcher.stats().cancelled == 2


async def test_priority_first_then_the_order_of_the_board() -> None:
    gate = Gate()
    dispatcher = Dispatcher(gate, max_concurrency=1)
    dispatcher.pause()
    dispatcher.add(
        [Task("low", "", priority=-1), Task("first", ""), Task("second", ""), Task("high", "", priority=5)]
    )
    dispatcher.resume()
    for name in ("high", "first", "second", "low"):
        await settle()
        assert gate.started[-1] == name
        await gate.open(name)


async def test_limits_by_type_and_lane_let_others_pass() -> None:
    gate = Gate()
    dispatcher = Dispatcher(gate, max_concurrency=4, type_limits={"docs": 1}, lane_limits={Lane.ECONOMY: 1})
    dispatcher.add(
        [
            Task("D1", "", type="docs"),
            Task("D2", "", type="docs"),
            Task("E1", "", lane=Lane.ECONOMY),
            Task("E2", "", lane=Lane.ECONOMY),
            Task("F", ""),
        ]
    )
    await settle()
    assert gate.started == ["D1", "E1", "F"]
    await gate.open("D1")
    await gate.open("E1")
    assert gate.started[3:] == ["D2", "E2"]


async def test_pause_resume_drain_and_another_limit_while_running() -> None:
    gate = Gate()
    dispatcher = Dispatcher(gate, max_concurrency=1)
    dispatcher.add(tasks("A", "B", "C", "D"))
    await settle()
    dispatcher.pause()
    await gate.open("A")
    assert gate.started == ["A"]
    dispatcher.resume()
    await settle()
    dispatcher.set_concurrency(2)
    await settle()
    assert gate.started == ["A", "B", "C"]
    dispatcher.drain()
    await gate.open("B")
    await gate.open("C")
    await dispatcher.wait()
    assert gate.started == ["A", "B", "C"]
    assert dispatcher.progress("D") is Progress.QUEUED
    assert dispatcher.mode == "draining"


async def test_retry_runs_a_failed_task_again_and_then_its_dependants() -> None:
    gate = Gate()
    dispatcher = Dispatcher(gate)
    dispatcher.add([*tasks("A"), Task("B", "", after=("A",))])
    await settle()
    await gate.open("A", RuntimeError("once"))
    assert not dispatcher.retry("B")
    assert dispatcher.retry("A")
    await settle()
    await gate.open("A")
    await gate.open("B")
    await dispatcher.wait()
    assert dispatcher.are_all_complete()


async def test_a_released_slot_is_used_and_who_comes_back_goes_first() -> None:
    order: list[str] = []
    landing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    hold: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work(task: Task, slot: Slot) -> None:
        order.append(task.id)
        if task.id == "A":
            slot.release()
            await landing
            await slot.acquire()
            order.append("A again")
        elif task.id == "B":
            await hold

    dispatcher = Dispatcher(work, max_concurrency=1)
    dispatcher.add(tasks("A", "B", "C"))
    await settle()
    assert order == ["A", "B"]
    landing.set_result(None)
    await settle()
    assert order == ["A", "B"]
    hold.set_result(None)
    await dispatcher.wait()
    assert order == ["A", "B", "A again", "C"]


async def test_unknown_and_doubled_ids_are_refused() -> None:
    dispatcher = Dispatcher(nothing)
    dispatcher.add(tasks("A"))
    with pytest.raises(ValueError, match="already"):
        dispatcher.add(tasks("A"))
    with pytest.raises(KeyError):
        dispatcher.progress("Z")
    with pytest.raises(ValueError, match="at least 1"):
        dispatcher.set_concurrency(0)


async def test_ten_thousand_tasks_leave_no_waiting_behind() -> None:
    dispatcher = Dispatcher(nothing, max_concurrency=7)
    dispatcher.add([Task(f"T{i}", "", after=(f"T{i - 1}",) if i % 5 else ()) for i in range(10_000)])
    await dispatcher.wait()
    assert dispatcher.are_all_complete()
    assert dispatcher.holding == 0


@st.composite
def boards(draw: st.DrawFn) -> list[Task]:
    count = draw(st.integers(1, 14))
    made = []
    for index in range(count):
        after = draw(st.sets(st.integers(0, index - 1), max_size=3)) if index else set()
        made.append(
            Task(
                f"T{index}",
                "",
                after=tuple(f"T{i}" for i in after),
                type=draw(st.sampled_from(["a", "b"])),
                lane=draw(st.sampled_from(list(Lane))),
                priority=draw(st.integers(-2, 2)),
            )
        )
    return made


@settings(max_examples=120, deadline=None)
@given(
    board=boards(),
    limit=st.integers(1, 5),
    type_limit=st.integers(1, 3),
    choices=st.randoms(use_true_random=False),
)
def test_no_limit_is_passed_and_no_task_starts_early(
    board: list[Task], limit: int, type_limit: int, choices: object
) -> None:
    import random

    assert isinstance(choices, random.Random)
    running: set[str] = set()
    done: set[str] = set()
    by_id = {task.id: task for task in board}

    async def work(task: Task, slot: Slot) -> None:
        assert set(task.after) <= done
        running.add(task.id)
        assert len(running) <= limit
        assert sum(by_id[name].type == "a" for name in running) <= type_limit
        for _ in range(choices.randint(0, 3)):
            await asyncio.sleep(0)
        if choices.random() < 0.3:
            running.discard(task.id)
            slot.release()
            await asyncio.sleep(0)
            await slot.acquire()
            running.add(task.id)
            assert len(running) <= limit
        running.discard(task.id)
        if choices.random() < 0.15:
            raise RuntimeError("no luck")
        done.add(task.id)

    async def main() -> None:
        dispatcher = Dispatcher(work, max_concurrency=limit, type_limits={"a": type_limit})
        dispatcher.add(board)
        await dispatcher.wait()
        stats = dispatcher.stats()
        assert stats.total == stats.completed + stats.failed + stats.waiting
        assert stats.completed == len(done)
        assert dispatcher.holding == 0
        for task in board:
            if dispatcher.progress(task.id) is Progress.WAITING:
                assert any(name not in done for name in task.after)

    asyncio.run(main())


async def test_what_has_begun_gets_its_slot_back_while_paused_and_what_waits_is_not_forgotten() -> None:
    back: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    order: list[str] = []

    async def work(task: Task, slot: Slot) -> None:
        order.append(task.id)
        if task.id == "A":
            slot.release()
            await back
            await slot.acquire()
            order.append("A again")

    dispatcher = Dispatcher(work, max_concurrency=1)
    dispatcher.add(tasks("A"))
    await settle()
    dispatcher.pause()
    dispatcher.add(tasks("B"))
    back.set_result(None)
    await settle()
    assert order == ["A", "A again"]
    dispatcher.drain()
    await settle()
    dispatcher.resume()
    await dispatcher.wait()
    assert order == ["A", "A again", "B"]


async def test_a_retry_that_comes_before_a_cancelled_task_has_cleaned_up_is_not_lost() -> None:
    cleaning: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    starts = 0

    async def work(task: Task, slot: Slot) -> str:
        nonlocal starts
        starts += 1
        if starts > 1:
            return "done"
        try:
            await asyncio.Event().wait()
        finally:
            await cleaning
        return "never"

    dispatcher = Dispatcher(work)
    dispatcher.add(tasks("A"))
    await settle()
    dispatcher.cancel("A")
    await settle()
    assert dispatcher.retry("A")
    assert dispatcher.progress("A") is Progress.RUNNING
    cleaning.set_result(None)
    [outcome] = await dispatcher.wait()
    assert (outcome.progress, outcome.result) == (Progress.COMPLETED, "done")
    assert not dispatcher.retry("A")


# Rows that change while tasks are dispatched


async def test_a_task_that_has_not_begun_goes_by_its_new_row() -> None:
    gate = Gate()
    dispatcher = Dispatcher(gate, max_concurrency=1)
    dispatcher.add(tasks("A", "B", "C"))
    await settle()
    assert dispatcher.revise(Task("C", "do it first", priority=5))
    assert dispatcher.revise(Task("B", "wait", after=("C",)))
    assert not dispatcher.revise(Task("A", "too late"))
    assert dispatcher.progress("B") is Progress.WAITING
    await gate.open("A")
    assert gate.started == ["A", "C"]
    await gate.open("C")
    assert gate.started == ["A", "C", "B"]
    await gate.open("B")
    assert not dispatcher.revise(Task("B", "too late"))


async def test_a_task_that_waited_starts_once_its_row_names_nothing_open() -> None:
    gate = Gate()
    queued: list[str] = []
    dispatcher = Dispatcher(gate, on_queued=lambda task: queued.append(task.id))
    dispatcher.add([*tasks("A"), Task("B", "", after=("A", "nobody"))])
    await settle()
    assert dispatcher.revise(Task("B", "", after=("X",)), done={"X"})
    await settle()
    assert (gate.started, queued) == (["A", "B"], ["A", "B"])


async def test_a_failed_task_is_tried_again_by_its_new_row() -> None:
    gate = Gate()
    seen: list[str] = []

    async def work(task: Task, slot: Slot) -> str:
        seen.append(task.scope)
        return await gate(task, slot)

    dispatcher = Dispatcher(work)
    dispatcher.add(tasks("A", "B"))
    await settle()
    await gate.open("A", RuntimeError("no"))
    assert dispatcher.revise(Task("A", "do it better", after=("B",)))
    assert dispatcher.progress("A") is Progress.FAILED
    assert dispatcher.retry("A")
    assert dispatcher.progress("A") is Progress.WAITING
    await gate.open("B")
    assert seen == ["do A", "do B", "do it better"]


@pytest.mark.parametrize("begun", [False, True])
async def test_a_skipped_task_counts_as_done_and_can_be_taken_back(begun: bool) -> None:
    gate = Gate()
    dispatcher = Dispatcher(gate)
    dispatcher.add([*tasks("A"), Task("B", "", after=("A",)), Task("C", "", after=("B",))])
    await settle()
    name, behind = ("A", "B") if begun else ("B", "C")
    dispatcher.skip(name)
    await settle()
    assert dispatcher.is_complete(name)
    assert gate.started == (["A", "B"] if begun else ["A", "C"])
    dispatcher.skip(name)
    assert dispatcher.revise(Task(name, "after all"))
    assert dispatcher.retry(name)
    await settle()
    assert gate.started[-1] == name
    assert dispatcher.progress(behind) is Progress.RUNNING


async def test_a_task_that_is_cancelled_in_the_moment_of_its_start_can_tell_of_its_end() -> None:
    heard: list[str] = []

    async def work(task: Task, slot: Slot) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            heard.append(task.id)
            raise

    dispatcher = Dispatcher(work)
    dispatcher.add(tasks("A"))
    assert dispatcher.progress("A") is Progress.RUNNING
    assert dispatcher.cancel("A")
    await settle()
    assert (heard, dispatcher.progress("A")) == (["A"], Progress.CANCELLED)


@pytest.mark.parametrize("failing", [False, True])
async def test_who_is_cancelled_while_the_slot_is_lent_waits_for_none_to_end(failing: bool) -> None:
    answers: dict[str, asyncio.Future[None]] = {}
    went_on: list[str] = []

    async def work(task: Task, slot: Slot) -> None:
        answers[task.id] = asyncio.get_running_loop().create_future()
        if task.id == "C":
            await answers["C"]
        try:
            async with slot.lent():
                await answers[task.id]
        finally:
            went_on.append(task.id)

    dispatcher = Dispatcher(work, max_concurrency=1)
    dispatcher.add(tasks("A", "B", "C"))
    await settle()
    assert dispatcher.holding == 1  # C, while A and B wait for their answers
    dispatcher.cancel("A")
    await settle()
    assert (went_on, dispatcher.progress("A")) == (["A"], Progress.CANCELLED)
    if failing:
        answers["B"].set_exception(ValueError("no answer"))
    else:
        answers["B"].set_result(None)
    await settle()
    assert went_on == ["A"]  # B goes on once there is a slot for it
    dispatcher.cancel("C")
    await settle()
    assert went_on == ["A", "B"]
    assert dispatcher.holding == 0
