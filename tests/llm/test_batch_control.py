"""Batches by hand: withdrawn, abandoned, cancelled, closed in the middle."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from engine.errors import BatchItemError
from engine.llm import batch_items
from engine.llm.batch_calls import BatchCalls
from engine.llm.budget import Budget
from tests.llm.batching import SINGLE, ask, scenario, until
from tests.llm.conftest import Connect, Journal, Simulate, request


async def test_a_queued_request_can_change_to_the_fast_lane(simulate: Simulate, batch: Any) -> None:
    simulator = simulate(scenario())
    batcher = batch(simulator, max_age=3_600.0)
    waiting = [asyncio.create_task(batcher.submit(request(f"T{n}"))) for n in (1, 2)]
    await until(lambda: batcher.figures.queued == 2)
    assert batcher.withdraw("T1") == 1
    assert (await waiting[0]).text == "answer 1"
    assert simulator.stats().requests == {SINGLE: 1}
    batcher.depart()
    assert (await waiting[1]).text == "answer 2"
    assert simulator.stats().batch_items == 1


async def test_a_request_that_is_withdrawn_behind_an_earlier_load_is_not_sent_with_the_next(
    simulate: Simulate, batch: Any, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulator = simulate(scenario())
    monkeypatch.setattr(batch_items, "MAX_BYTES", 3_000)
    batcher = batch(simulator, max_age=3_600.0)
    under_way, go_on = asyncio.Event(), asyncio.Event()

    async def hold_up() -> None:
        under_way.set()
        await go_on.wait()

    journal.before_submitted = hold_up
    waiting = [asyncio.create_task(batcher.submit(request(f"T{n}", text="x" * 1_000))) for n in range(4)]
    await until(lambda: batcher.figures.queued == 4)
    batcher.depart()
    await under_way.wait()
    assert batcher.withdraw("T2") == 1
    assert (await waiting[2]).text == "answer 2"
    go_on.set()
    assert [answer.text for answer in await asyncio.gather(*waiting)] == [f"answer {n}" for n in range(4)]
    stats = simulator.stats()
    assert (stats.batch_items, set(stats.answered.values())) == (3, {1})


async def test_a_request_nobody_waits_for_any_more_is_not_sent(simulate: Simulate, batch: Any) -> None:
    simulator = simulate(scenario())
    budget = Budget(run_usd=5.0)
    batcher = batch(simulator, max_age=3_600.0, budget=budget)
    waiting = [asyncio.create_task(batcher.submit(request(f"T{n}"))) for n in (1, 2)]
    await until(lambda: batcher.figures.queued == 2)
    waiting[0].cancel()
    await until(lambda: batcher.figures.queued == 1)
    await batcher.flush()
    await waiting[1]
    assert simulator.stats().batch_items == 1
    assert budget.reserved == 0.0


async def test_closing_with_cancel_ends_the_batches_at_the_service(
    simulate: Simulate, batch: Any, connect: Connect
) -> None:
    simulator = simulate(scenario(seconds=60.0), pace=1.0)
    batcher = batch(simulator)
    waiting = [asyncio.create_task(batcher.submit(request(f"T{n}"))) for n in (1, 2)]
    await until(lambda: batcher.in_motion)
    async with asyncio.timeout(30):
        await batcher.close(cancel=True)
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(result, BatchItemError) for result in results)
    state = await BatchCalls(connect(simulator.url).sdk).retrieve(simulator.stats().batches[0])
    assert state.status in ("canceling", "ended")


async def test_a_batch_that_is_created_while_we_close_is_cancelled_too(
    simulate: Simulate, batch: Any, journal: Journal
) -> None:
    simulator = simulate(scenario(seconds=60.0), pace=1.0)
    batcher = batch(simulator)
    created, go_on = asyncio.Event(), asyncio.Event()

    async def slow_disk() -> None:
        created.set()
        await go_on.wait()

    journal.before_submitted = slow_disk
    waiting = asyncio.create_task(batcher.submit(request("T1")))
    await created.wait()
    closing = asyncio.create_task(batcher.close(cancel=True))
    await asyncio.sleep(0)
    go_on.set()
    async with asyncio.timeout(30):
        await closing
    with pytest.raises(BatchItemError):
        await waiting
    assert simulator.stats().requests["POST /v1/messages/batches/{id}/cancel"] == 1


async def test_closing_without_cancel_leaves_the_batch_for_the_next_process(
    simulate: Simulate, batch: Any, journal: Journal
) -> None:
    simulator = simulate(scenario(seconds=0.5), pace=1.0)
    first = batch(simulator)
    waiting = asyncio.create_task(first.submit(request("T1")))
    await until(lambda: first.in_motion)
    await first.close()
    with pytest.raises(BatchItemError):
        await waiting
    second = batch(simulator)
    second.resume(tuple(journal.manifests.values()))
    assert await ask(second, 1) == ["answer 1"]
    assert len(simulator.stats().batches) == 1


async def test_cancelling_one_batch_ends_its_unanswered_requests(simulate: Simulate, batch: Any) -> None:
    simulator = simulate(scenario(seconds=5.0), pace=1.0)
    batcher = batch(simulator)
    waiting = asyncio.create_task(batcher.submit(request("T1")))
    await until(lambda: batcher.in_motion)
    await batcher.cancel(batcher.in_motion[0])
    async with asyncio.timeout(30):
        with pytest.raises(BatchItemError, match="cancelled"):
            await waiting
