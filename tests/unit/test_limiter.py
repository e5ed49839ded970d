"""One limiter for a model class: places in order, pauses for all, halved and grown."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from engine.errors import OverloadedError, RateLimitedError, ServiceError
from engine.figures import LimiterFigures
from engine.llm.limiter import Limiter, Limiters, Slot, model_class
from engine.llm.retries import Retries, RetryPolicy


class Clock:
    """A clock that stands still until it is told to go on, with its own timers."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.timers: list[ClockTimer] = []

    def __call__(self) -> float:
        return self.now

    def call_later(self, seconds: float, callback: Callable[[], None]) -> ClockTimer:
        timer = ClockTimer(self.now + seconds, callback)
        self.timers.append(timer)
        return timer

    def advance(self, seconds: float) -> None:
        self.now += seconds
        due = [timer for timer in self.timers if timer.at <= self.now]
        self.timers = [timer for timer in self.timers if timer.at > self.now]
        for timer in due:
            if not timer.cancelled:
                timer.callback()


class ClockTimer:
    def __init__(self, at: float, callback: Callable[[], None]) -> None:
        self.at = at
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


def make(clock: Clock, initial: int = 4, **options: object) -> Limiter:
    return Limiter(
        "opus-5",
        initial=initial,
        clock=clock,
        monotonic=clock,
        call_later=clock.call_later,
        **options,  # type: ignore[arg-type]
    )


class Calls:
    """Calls that hold their slots until the test ends them."""

    def __init__(self, limiter: Limiter) -> None:
        self.limiter = limiter
        self.slots: dict[int, Slot] = {}
        self.order: list[int] = []
        self._ends: dict[int, asyncio.Event] = {}
        self.tasks: dict[int, asyncio.Task[None]] = {}

    async def start(self, *numbers: int) -> None:
        for number in numbers:
            self._ends[number] = asyncio.Event()
            self.tasks[number] = asyncio.create_task(self._run(number))
        await settle()

    async def end(self, *numbers: int) -> None:
        for number in numbers:
            self._ends[number].set()
        await settle()

    async def _run(self, number: int) -> None:
        async with self.limiter.slot() as slot:
            self.order.append(number)
            self.slots[number] = slot
            await self._ends[number].wait()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_no_more_than_the_limit_are_in_flight_and_the_others_come_in_order() -> None:
    calls = Calls(make(Clock(), initial=2))
    await calls.start(1, 2, 3, 4)
    assert calls.order == [1, 2]
    assert calls.limiter.figures == LimiterFigures("opus-5", limit=2, in_flight=2, waiting=2)
    await calls.end(2)
    await calls.end(1)
    assert calls.order == [1, 2, 3, 4]
    await calls.end(3, 4)
    assert calls.limiter.figures.in_flight == 0


async def test_a_429_silences_the_whole_class_until_its_time_is_over() -> None:
    clock = Clock()
    calls = Calls(make(clock, initial=8))
    await calls.start(1, 2)
    calls.slots[1].failed(RateLimitedError("slow down", retry_after=30))
    await calls.end(1, 2)
    await calls.start(3, 4)
    figures = calls.limiter.figures
    assert figures.paused_until == pytest.approx(clock.now + 30)
    assert (figures.in_flight, figures.waiting, figures.reason) == (0, 2, "429")
    clock.advance(29.9)
    await settle()
    assert calls.order == [1, 2]
    clock.advance(0.2)
    await settle()
    assert calls.order == [1, 2, 3, 4]
    assert calls.limiter.figures.paused_until is None
    assert calls.limiter.figures.reason == ""


async def test_a_shorter_pause_never_cuts_a_longer_one_and_a_longer_one_extends_it() -> None:
    clock = Clock()
    calls = Calls(make(clock))
    calls.limiter.pause(20, "429")
    calls.limiter.pause(5, "429")
    await calls.start(1)
    clock.advance(6)
    await settle()
    assert calls.order == []
    calls.limiter.pause(30, "429")
    clock.advance(15)
    await settle()
    assert calls.order == []
    clock.advance(15)
    await settle()
    assert calls.order == [1]


async def test_a_pause_is_capped_and_a_429_without_a_time_still_pauses() -> None:
    clock = Clock()
    calls = Calls(make(clock, pause_cap=60.0, default_pause=3.0))
    calls.limiter.pause(86_400, "429")
    assert calls.limiter.pause_left == 60
    clock.advance(60)
    await calls.start(1)
    calls.slots[1].failed(RateLimitedError("slow down"))
    assert calls.limiter.pause_left == 3


async def test_a_limit_used_up_pauses_before_the_first_refusal() -> None:
    clock = Clock()
    calls = Calls(make(clock))
    await calls.start(1)
    calls.slots[1].accepted((12.0, "output tokens"))
    await calls.start(2)
    assert calls.order == [1]
    assert calls.limiter.figures.reason == "limit of output tokens used up"
    clock.advance(12)
    await settle()
    assert calls.order == [1, 2]


async def test_calls_that_fail_together_halve_the_limit_once() -> None:
    calls = Calls(make(Clock(), initial=16))
    await calls.start(*range(16))
    for slot in calls.slots.values():
        slot.failed(OverloadedError("no capacity"))
    assert calls.limiter.figures.limit == 8
    await calls.end(*range(16))
    await calls.start(100)
    calls.slots[100].failed(OverloadedError("still none"))
    assert calls.limiter.figures.limit == 4


async def test_the_limit_never_falls_below_one_and_other_failures_leave_it_alone() -> None:
    calls = Calls(make(Clock(), initial=2))
    for number in range(5):
        await calls.start(number)
        calls.slots[number].failed(OverloadedError("no capacity"))
        await calls.end(number)
    assert calls.limiter.figures.limit == 1
    await calls.start(10)
    calls.slots[10].failed(ServiceError("500"))
    assert calls.limiter.figures.limit == 1


async def test_a_full_round_of_answers_raises_the_limit_by_one_up_to_the_maximum() -> None:
    calls = Calls(make(Clock(), initial=4, maximum=6))
    number = 0
    limits = []
    for _ in range(3):
        full = list(range(number, number + calls.limiter.figures.limit))
        number += len(full) + 1
        await calls.start(*full)
        for each in full:
            calls.slots[each].answered()
        await calls.end(*full)
        limits.append(calls.limiter.figures.limit)
    assert limits == [5, 6, 6]


async def test_answers_of_an_idle_class_do_not_raise_its_limit() -> None:
    calls = Calls(make(Clock(), initial=4))
    for number in range(20):
        await calls.start(number)
        calls.slots[number].answered()
        await calls.end(number)
    assert calls.limiter.figures.limit == 4


async def test_cancelled_calls_give_their_places_back() -> None:
    calls = Calls(make(Clock(), initial=1))
    await calls.start(1, 2, 3)
    calls.tasks[2].cancel()
    await settle()
    await calls.end(1)
    assert calls.order == [1, 3]
    # Given the place and cancelled in the same moment:
    await calls.start(4)
    calls._ends[3].set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    calls.tasks[4].cancel()
    await settle()
    await calls.start(5)
    assert calls.order[-1] == 5
    await calls.end(5)
    assert calls.limiter.figures.in_flight == 0


@pytest.mark.parametrize("seed", range(20))
async def test_whatever_happens_the_limit_holds_and_everybody_is_served(seed: int) -> None:
    dice = random.Random(seed)
    clock = Clock()
    limiter = make(clock, initial=dice.randint(1, 6), maximum=8)
    served, cancelled, silent_starts = 0, 0, 0  # the last: calls that went out while all had to be silent

    async def call() -> None:
        nonlocal served, silent_starts
        async with limiter.slot() as slot:
            silent_starts += limiter.pause_left > 0
            for _ in range(dice.randrange(4)):
                await asyncio.sleep(0)
            match dice.randrange(5):
                case 0:
                    slot.failed(RateLimitedError("slow down", retry_after=dice.uniform(0.1, 9.0)))
                case 1:
                    slot.failed(OverloadedError("no capacity"))
                case _:
                    slot.answered()
            served += 1

    tasks = [asyncio.create_task(call()) for _ in range(60)]
    most = 0
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        figures = limiter.figures
        most = max(most, figures.in_flight)
        assert 1 <= figures.limit <= 8
        waiting = [task for task in tasks if not task.done()]
        if waiting and dice.random() < 0.1:
            cancelled += dice.choice(waiting).cancel()
        clock.advance(dice.uniform(0.0, 0.5))
    assert served + sum(task.cancelled() for task in tasks) == 60
    assert cancelled > 0
    assert served > 10
    assert most <= 8
    assert silent_starts == 0
    figures = limiter.figures
    assert (figures.in_flight, figures.waiting) == (0, 0)


async def test_changes_are_told() -> None:
    clock = Clock()
    seen: list[LimiterFigures] = []
    calls = Calls(make(clock, on_change=seen.append))
    calls.limiter.pause(5, "429")
    clock.advance(5)
    assert [figures.paused_until for figures in seen] == [pytest.approx(1_005.0), None]


def test_models_share_the_limits_of_their_class() -> None:
    limiters = Limiters()
    assert limiters.of("claude-opus-5-5") is limiters.of("claude-opus-5")
    assert limiters.of("claude-opus-4-8") is not limiters.of("claude-opus-5")
    assert model_class("claude-3-5-haiku-20241022") == "haiku-3"
    assert model_class("qwen3:8b") == "qwen3:8b"
    assert [f.model_class for f in limiters.figures] == ["opus-4", "opus-5"]


def test_waits_grow_with_jitter_and_end_with_the_tries() -> None:
    clock = Clock()
    retries = Retries(RetryPolicy(attempts=5, longest_wait=3.0), monotonic=clock, jitter=lambda: 0.0)
    assert [retries.wait_after(ServiceError("500")) for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, None]
    half = Retries(RetryPolicy(), monotonic=clock, jitter=lambda: 1.0)
    assert half.wait_after(ServiceError("500")) == 0.25


def test_a_429_costs_patience_but_no_try() -> None:
    clock = Clock()
    retries = Retries(RetryPolicy(attempts=2, patience=100.0), monotonic=clock, jitter=lambda: 0.0)
    for _ in range(10):
        assert retries.wait_after(RateLimitedError("slow", retry_after=9.0), 9.0) == 9.0
        clock.advance(9.0)
    assert retries.failures == 0
    assert retries.wait_after(RateLimitedError("slow", retry_after=30.0), 30.0) is None


def test_what_cannot_succeed_is_not_tried_again() -> None:
    error = ServiceError("500")
    error.retryable = False
    assert Retries(RetryPolicy()).wait_after(error) is None
