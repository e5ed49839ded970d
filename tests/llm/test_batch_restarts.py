"""Batches that an earlier process made, or gave up: found again, read once, never sent twice."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from engine.errors import LLMError, StoreError
from engine.llm.batch_calls import BatchCalls
from engine.llm.batch_flights import Manifest, PollPolicy
from engine.llm.batch_items import custom_id_of
from engine.llm.batches import LLMBatcher
from engine.llm.budget import Budget
from engine.llm.messages import ModelRequest
from engine.llm.prices import load_prices
from engine.llm.simulator import Fault
from tests.llm.batching import CREATE, SINGLE, ask, scenario, until
from tests.llm.conftest import Connect, Journal, Simulate, request


class Killed(BaseException):
    """Stands for kill -9: nothing after it runs."""


@pytest.mark.parametrize("moment", ["created", "submitted", "polling", "ended"])
async def test_a_restart_at_any_moment_finds_the_batch_it_paid_for(
    simulate: Simulate, batch: Any, journal: Journal, moment: str
) -> None:
    simulator = simulate(scenario(seconds=0.3), pace=1.0)
    first = batch(simulator)
    reached = asyncio.Event()
    if moment == "created":

        async def stop() -> None:
            reached.set()
            await asyncio.Event().wait()  # the id never reaches the disk

        journal.before_submitted = stop
    waiting = [asyncio.create_task(first.submit(request(f"T{n}"))) for n in (1, 2, 3)]
    match moment:
        case "created":
            await reached.wait()
        case "submitted":
            await until(lambda: any(m.batch for m in journal.manifests.values()))
        case "polling":
            await until(lambda: journal.polls)
        case "ended":
            await asyncio.gather(*waiting)
    for task in waiting:
        task.cancel()
    kill(first)

    journal.before_submitted = None
    second = batch(simulator)
    second.resume(tuple(journal.manifests.values()))
    assert await ask(second, 1, 2, 3) == ["answer 1", "answer 2", "answer 3"]
    stats = simulator.stats()
    assert len(stats.batches) == 1
    assert SINGLE not in stats.requests
    assert set(stats.answered.values()) == {1}


async def test_a_creation_that_never_reached_the_service_is_sent_anew(
    simulate: Simulate, batch: Any, journal: Journal
) -> None:
    simulator = simulate(scenario())
    batcher = batch(simulator)
    batcher.resume((manifest_of(request("T1"), request("T2")),))
    assert await ask(batcher, 1, 2) == ["answer 1", "answer 2"]
    assert len(simulator.stats().batches) == 1


async def test_unanswered_creations_of_long_ago_hold_nobody_up(simulate: Simulate, batch: Any) -> None:
    simulator = simulate(scenario())
    slow = PollPolicy(first=0.02, longest=0.1, grace=60.0, listing=(0.0, 30.0))
    batcher = batch(simulator, poll=slow)
    old = time.time() - 3_600.0
    batcher.resume(manifest_of(request(f"T{n}"), created_at=old) for n in range(8))
    async with asyncio.timeout(30):
        assert await ask(batcher, 1, 9) == ["answer 1", "answer 9"]


async def test_somebody_elses_batch_of_the_same_size_is_not_taken_for_ours(
    simulate: Simulate, batch: Any, connect: Connect
) -> None:
    simulator = simulate(scenario())
    others = [request("T8"), request("T9")]
    await BatchCalls(connect(simulator.url).sdk).create({custom_id_of(r): r for r in others})
    batcher = batch(simulator)
    batcher.resume((manifest_of(request("T1"), request("T2")),))
    assert await ask(batcher, 1, 2) == ["answer 1", "answer 2"]
    assert len(simulator.stats().batches) == 2


async def test_an_answer_of_an_earlier_process_is_used_once_and_booked_once(
    simulate: Simulate, batch: Any, journal: Journal
) -> None:
    simulator = simulate(scenario())
    await ask(batch(simulator), 1, 2)
    budget = Budget(run_usd=1.0)
    second = batch(simulator, budget=budget)
    second.resume(tuple(journal.manifests.values()))
    answer = await second.submit(request("T1"))
    price = load_prices().price(answer.model, answer.usage, batch=True)
    assert budget.spent == pytest.approx(price)
    assert budget.reserved == pytest.approx(0.0)


async def test_a_restart_that_has_all_answers_already_ends_the_batch(
    simulate: Simulate, batch: Any, journal: Journal
) -> None:
    simulator = simulate(scenario())
    await ask(batch(simulator), 1, 2)  # and killed before it could say that they are stored
    second = batch(simulator)
    second.resume(tuple(journal.manifests.values()))
    second.stored(request("T1"))
    second.stored(request("T2"))
    await until(lambda: journal.ends)
    assert journal.ends == [(simulator.stats().batches[0], 2, 0)]
    assert second.stats.answered == 0


async def test_a_batch_the_service_has_forgotten_is_asked_for_singly(simulate: Simulate, batch: Any) -> None:
    simulator = simulate(scenario())
    batcher = batch(simulator)
    lost = manifest_of(request("T1"), created_at=1_000.0, batch="msgbatch_lost")
    batcher.resume((lost,))
    assert await ask(batcher, 1) == ["answer 1"]
    assert simulator.stats().requests[SINGLE] == 1


async def test_a_creation_nobody_can_tell_of_is_not_sent_again_but_looked_for_later(
    simulate: Simulate, batch: Any
) -> None:
    unanswered = Fault(kind="unanswered", endpoint="batches.create", times=1)
    simulator = simulate(scenario(unanswered, Fault(kind="unauthorized", endpoint="batches.list", times=1)))
    batcher = batch(simulator)
    with pytest.raises(LLMError):
        await batcher.submit(request("T1"))
    assert await ask(batcher, 1) == ["answer 1"]
    stats = simulator.stats()
    assert (len(stats.batches), stats.requests[CREATE]) == (1, 1)


@pytest.mark.parametrize(
    ("endpoint", "known"), [("batches.list", False), ("batches.retrieve", True), ("batches.results", True)]
)
async def test_a_batch_that_could_not_be_followed_is_taken_up_when_it_is_asked_for_again(
    simulate: Simulate, batch: Any, connect: Connect, endpoint: Any, known: bool
) -> None:
    simulator = simulate(scenario(Fault(kind="unauthorized", endpoint=endpoint, times=1)))
    made = await BatchCalls(connect(simulator.url).sdk).create(
        {custom_id_of(r): r for r in (request("T1"), request("T2"))}
    )
    batcher = batch(simulator)
    batcher.resume((manifest_of(request("T1"), request("T2"), batch=made.id if known else ""),))
    with pytest.raises(LLMError, match="refused"):
        await batcher.submit(request("T1"))
    assert await ask(batcher, 1, 2) == ["answer 1", "answer 2"]
    assert len(simulator.stats().batches) == 1


async def test_a_batch_whose_id_could_not_be_journaled_is_found_again(
    simulate: Simulate, batch: Any, journal: Journal
) -> None:
    simulator = simulate(scenario())
    batcher = batch(simulator)

    async def full() -> None:
        raise StoreError("the disk is full", "free some space")

    journal.before_submitted = full
    with pytest.raises(StoreError, match="full"):
        await batcher.submit(request("T1"))
    journal.before_submitted = None
    assert await ask(batcher, 1) == ["answer 1"]
    assert len(simulator.stats().batches) == 1


@pytest.mark.parametrize("earlier", ["", "msgbatch_lost"])
async def test_a_request_that_was_sent_again_waits_for_its_newest_batch_alone(
    simulate: Simulate, batch: Any, journal: Journal, earlier: str
) -> None:
    simulator = simulate(scenario(seconds=1.0), pace=1.0)
    first = batch(simulator)
    waiting = [asyncio.create_task(first.submit(request(f"T{n}"))) for n in (1, 2)]
    await until(lambda: any(m.batch for m in journal.manifests.values()))
    for task in waiting:
        task.cancel()
    kill(first)

    second = batch(simulator)
    in_vain = manifest_of(request("T1"), request("T2"), created_at=time.time() - 3_600.0, batch=earlier)
    second.resume((in_vain, *journal.manifests.values()))
    assert await ask(second, 1, 2) == ["answer 1", "answer 2"]
    stats = simulator.stats()
    assert (len(stats.batches), stats.requests.get(SINGLE, 0)) == (1, 0)
    assert set(stats.answered.values()) == {1}


async def test_a_creation_that_cannot_be_looked_for_disturbs_no_later_batch_of_its_requests(
    simulate: Simulate, batch: Any, journal: Journal
) -> None:
    refused = Fault(kind="unauthorized", endpoint="batches.list", times=1)
    simulator = simulate(scenario(refused, seconds=1.0), pace=1.0)
    first = batch(simulator)
    waiting = asyncio.create_task(first.submit(request("T1")))
    await until(lambda: any(m.batch for m in journal.manifests.values()))
    waiting.cancel()
    kill(first)

    second = batch(simulator)
    second.resume((manifest_of(request("T1"), created_at=time.time() - 3_600.0), *journal.manifests.values()))
    assert await ask(second, 1) == ["answer 1"]
    assert any("cannot be looked for" in notice for notice in journal.notices)
    assert len(simulator.stats().batches) == 1


def manifest_of(*requests: ModelRequest, created_at: float | None = None, batch: str = "") -> Manifest:
    return Manifest(
        token="earlier",
        role=requests[0].role,
        model=requests[0].model,
        custom_ids=tuple(custom_id_of(r) for r in requests),
        tasks=tuple(r.task_id for r in requests),
        created_at=time.time() - 1.0 if created_at is None else created_at,
        batch=batch,
    )


def kill(batcher: LLMBatcher) -> None:
    """Stop everything of a batcher at once, as the end of its process would."""
    for task in (*batcher._sending, *batcher._background, *batcher._queue._running):
        task.cancel()
