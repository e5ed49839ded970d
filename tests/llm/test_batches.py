"""Batches over real HTTP: one call for many, each its own answer, nothing paid twice whatever happens on the way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from engine.errors import BatchItemError, BudgetReachedError, LLMError, StoreError
from engine.llm import batch_items
from engine.llm.batch_flights import Manifest
from engine.llm.batch_items import custom_id_of
from engine.llm.budget import Budget
from engine.llm.messages import ModelAnswer
from engine.llm.simulator import Batches, Fault
from engine.model import Role
from tests.llm.batching import CREATE, SINGLE, ask, scenario, until
from tests.llm.conftest import Journal, Simulate, request


async def test_three_economy_requests_are_one_call_and_each_gets_its_own_answer(
    simulate: Simulate, batch: Any, journal: Journal
) -> None:
    simulator = simulate(scenario(), pace=1.0)
    batcher = batch(simulator)
    assert await ask(batcher, 1, 2, 3) == ["answer 1", "answer 2", "answer 3"]
    stats = simulator.stats()
    assert stats.requests[CREATE] == 1
    assert SINGLE not in stats.requests
    assert set(stats.answered.values()) == {1}
    (manifest,) = journal.manifests.values()
    assert manifest.tasks == ("T1", "T2", "T3")
    assert manifest.batch == stats.batches[0]
    assert (batcher.stats.requests, batcher.stats.batches, batcher.stats.calls_saved) == (3, 1, 2)
    assert batcher.stats.average == 3.0
    *before, last = journal.polls
    assert last[1].succeeded == 3
    assert last[2] is None
    assert all(next_poll is not None for _, _, next_poll in before)


async def test_a_batch_is_ended_when_all_its_answers_are_stored(
    simulate: Simulate, batch: Any, journal: Journal
) -> None:
    batcher = batch(simulate(scenario()))
    await ask(batcher, 1, 2)
    batcher.stored(request("T1"))
    assert journal.ends == []
    batcher.stored(request("T2"))
    (manifest,) = journal.manifests.values()
    await until(lambda: journal.ends)
    assert journal.ends == [(manifest.batch, 2, 0)]


async def test_three_thousand_requests_are_one_call(simulate: Simulate, batch: Any) -> None:
    simulator = simulate(scenario())
    batcher = batch(simulator, max_size=3_000, max_age=30.0)
    answers = await asyncio.gather(*(batcher.submit(request(f"X{n}")) for n in range(3_000)))
    assert all(isinstance(answer, ModelAnswer) for answer in answers)
    stats = simulator.stats()
    assert stats.requests[CREATE] == 1
    assert stats.batch_items == 3_000
    assert len(stats.answered) == 3_000


async def test_groups_do_not_mix(simulate: Simulate, batch: Any, journal: Journal) -> None:
    simulator = simulate(scenario())
    batcher = batch(simulator)
    judge = request("T1", text="Judge it.", role=Role.JUDGE)
    other = request("T2", model="claude-haiku-5-5")
    await asyncio.gather(*(batcher.submit(r) for r in (request("T1"), request("T2"), judge, other)))
    assert simulator.stats().requests[CREATE] == 3
    groups = {(m.role, m.model, m.tasks) for m in journal.manifests.values()}
    assert groups == {
        (Role.IMPLEMENTER, "claude-opus-5-5", ("T1", "T2")),
        (Role.JUDGE, "claude-opus-5-5", ("T1",)),
        (Role.IMPLEMENTER, "claude-haiku-5-5", ("T2",)),
    }


async def test_a_full_queue_leaves_at_once_and_the_rest_by_hand(simulate: Simulate, batch: Any) -> None:
    simulator = simulate(scenario())
    batcher = batch(simulator, max_size=2, max_age=3_600.0)
    waiting = asyncio.gather(*(batcher.submit(request(f"T{n}")) for n in range(3)))
    await until(lambda: len(simulator.stats().batches) == 1)
    assert batcher.figures.queued == 1
    await batcher.flush()
    await waiting
    assert len(simulator.stats().batches) == 2
    assert batcher.figures.queued == 0


async def test_equal_requests_travel_once(simulate: Simulate, batch: Any) -> None:
    simulator = simulate(scenario())
    batcher = batch(simulator)
    assert await ask(batcher, 1, 1, 1) == ["answer 1"] * 3
    assert simulator.stats().batch_items == 1


@pytest.mark.parametrize("kind", ["errored", "expired", "missing"])
async def test_an_item_without_an_answer_is_asked_for_singly(
    simulate: Simulate, batch: Any, journal: Journal, kind: Any
) -> None:
    simulator = simulate(scenario(Fault(kind=kind, endpoint="batch_item", task="T2")))
    batcher = batch(simulator)
    assert await ask(batcher, 1, 2, 3) == ["answer 1", "answer 2", "answer 3"]
    stats = simulator.stats()
    assert (stats.requests[CREATE], stats.requests[SINGLE]) == (1, 1)
    assert set(stats.answered.values()) == {1}
    assert batcher.stats.singles == 1
    assert batcher.stats.failed == 1


async def test_an_item_the_service_refuses_fails_alone_and_is_not_sent_again(
    simulate: Simulate, batch: Any
) -> None:
    simulator = simulate(scenario())
    batcher = batch(simulator)
    wrong = request("T2", model="claude-opus-9")
    right, failure = await asyncio.gather(
        *(batcher.submit(r) for r in (request("T1"), wrong)), return_exceptions=True
    )
    assert isinstance(right, ModelAnswer)
    assert isinstance(failure, BatchItemError)
    assert failure.kind == "errored"
    assert SINGLE not in simulator.stats().requests


async def test_a_cancelled_item_fails_clearly(simulate: Simulate, batch: Any) -> None:
    simulator = simulate(scenario(Fault(kind="canceled", endpoint="batch_item", task="T2")))
    batcher = batch(simulator)
    results = await asyncio.gather(
        *(batcher.submit(request(f"T{n}")) for n in (1, 2)), return_exceptions=True
    )
    assert isinstance(results[0], ModelAnswer)
    assert isinstance(results[1], BatchItemError)
    assert results[1].kind == "canceled"


FAULTS_ON_THE_WAY = [
    ("batches.create", "rate_limited"),
    ("batches.create", "overloaded"),
    ("batches.create", "server_error"),
    ("batches.create", "unanswered"),
    ("batches.create", "html"),
    ("batches.create", "bad_json"),
    ("batches.create", "empty_object"),
    ("batches.retrieve", "not_found"),
    ("batches.retrieve", "rate_limited"),
    ("batches.retrieve", "server_error"),
    ("batches.retrieve", "unanswered"),
    ("batches.retrieve", "html"),
    ("batches.retrieve", "empty_object"),
    ("batches.results", "not_found"),
    ("batches.results", "server_error"),
    ("batches.results", "unanswered"),
    ("batches.results", "dropped"),
    ("batches.results", "truncated"),
    ("batches.results", "bad_json"),
    ("batches.results", "html"),
]


@pytest.mark.parametrize(("endpoint", "kind"), FAULTS_ON_THE_WAY)
async def test_no_failure_on_the_way_pays_twice(
    simulate: Simulate, batch: Any, endpoint: Any, kind: Any
) -> None:
    simulator = simulate(scenario(Fault(kind=kind, endpoint=endpoint, times=2, retry_after=0.05)))
    batcher = batch(simulator)
    async with asyncio.timeout(20):
        assert await ask(batcher, 1, 2, 3) == ["answer 1", "answer 2", "answer 3"]
    stats = simulator.stats()
    assert len(stats.batches) == 1
    assert stats.batch_items == 3
    assert SINGLE not in stats.requests
    assert set(stats.answered.values()) == {1}
    assert stats.faults


async def test_an_endpoint_without_batches_is_asked_singly_and_said_so_once(
    simulate: Simulate, batch: Any, journal: Journal
) -> None:
    simulator = simulate(scenario(batches=Batches(offered=False)))
    batcher = batch(simulator)
    assert await ask(batcher, 1, 2, 3) == ["answer 1", "answer 2", "answer 3"]
    assert await ask(batcher, 4) == ["answer 4"]
    stats = simulator.stats()
    assert stats.requests[SINGLE] == 4
    assert stats.requests[CREATE] == 1
    (notice,) = journal.notices
    assert "no batches" in notice


async def test_a_load_too_large_for_one_batch_is_split(
    simulate: Simulate, batch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulator = simulate(scenario())
    monkeypatch.setattr(batch_items, "MAX_BYTES", 3_000)
    batcher = batch(simulator)
    big = [request(f"T{n}", text="x" * 1_000) for n in range(5)]
    answers = await asyncio.gather(*(batcher.submit(r) for r in big))
    assert [answer.text for answer in answers] == [f"answer {n}" for n in range(5)]
    assert len(simulator.stats().batches) == 3


async def test_a_batch_counts_half_in_the_budget_and_is_refused_before_it_is_sent(
    simulate: Simulate, batch: Any
) -> None:
    simulator = simulate(scenario())
    budget = Budget(run_usd=0.05)
    batcher = batch(simulator, budget=budget)
    # At most 1,000 tokens of output: 0.02 singly, 0.01 in a batch, and the prompt's bytes.
    results = await asyncio.gather(
        *(batcher.submit(request(f"T{n}", max_tokens=1_000)) for n in range(3)), return_exceptions=True
    )
    answers = [r for r in results if isinstance(r, ModelAnswer)]
    assert len(answers) == 3
    assert budget.reserved == 0.0
    assert 0 < budget.spent < 0.03
    with pytest.raises(BudgetReachedError):
        await batcher.submit(request("T4", max_tokens=10_000))


async def test_a_refused_creation_fails_every_request_with_its_reason(simulate: Simulate, batch: Any) -> None:
    simulator = simulate(scenario(Fault(kind="spend_limit", endpoint="batches.create", times=9)))
    batcher = batch(simulator)
    results = await asyncio.gather(
        *(batcher.submit(request(f"T{n}")) for n in (1, 2)), return_exceptions=True
    )
    assert all(isinstance(result, LLMError) for result in results)
    assert "may not spend more" in str(results[0])
    assert simulator.stats().requests[CREATE] == 1


async def test_a_journal_that_fails_fails_the_requests_and_sends_nothing(
    simulate: Simulate, batch: Any, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulator = simulate(scenario())
    batcher = batch(simulator)

    async def full(manifest: Manifest) -> None:
        raise StoreError("the disk is full", "free some space")

    monkeypatch.setattr(journal, "creating", full)
    with pytest.raises(StoreError, match="full"):
        await batcher.submit(request("T1"))
    assert simulator.stats().requests == {}
    monkeypatch.undo()
    assert await ask(batcher, 1) == ["answer 1"]


def test_custom_ids_are_valid_stable_and_tell_requests_apart() -> None:
    ids = {
        custom_id_of(r)
        for r in (
            request("T1"),
            request("T2"),
            request("T1", text="other"),
            request("T1", max_tokens=7),
            request("T1", model="claude-opus-5"),
            request("Täsk/1 mit Leerzeichen und einem sehr langen Namen " * 3),
        )
    }
    assert len(ids) == 6
    for custom_id in ids:
        assert len(custom_id) <= 64
        assert custom_id.replace("_", "").replace("-", "").isascii()
    assert custom_id_of(request("T1")) == custom_id_of(request("T1").with_cache_ttl("1h"))
