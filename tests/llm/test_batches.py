"""Batches over real HTTP: one call for many, each its own answer, nothing paid twice whatever happens on the way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from engine.errors import BatchItemError, BudgetReachedError, LLMError, StoreError
from engine.llm import batch_items
from engine.llm.batch_calls import BatchCalls, BatchState
from engine.llm.batch_flights import Manifest, PollPolicy
from engine.llm.batch_items import custom_id_of
from engine.llm.batches import LLMBatcher
from engine.llm.budget import Budget
from engine.llm.client import ModelClient
from engine.llm.messages import ModelAnswer, ModelRequest
from engine.llm.prices import load_prices
from engine.llm.retries import RetryPolicy
from engine.llm.simulator import Answer, Batches, Fault, Scenario, Simulator
from engine.model import Role
from tests.llm.conftest import request

CREATE = "POST /v1/messages/batches"
SINGLE = "POST /v1/messages"

Connect = Callable[..., ModelClient]
Simulate = Callable[..., Simulator]


class Journal:
    """Hooks that remember what they are told, as a journal would."""

    def __init__(self) -> None:
        self.manifests: dict[str, Manifest] = {}
        self.polls: list[tuple[str, BatchState, float | None]] = []
        self.ends: list[tuple[str, int, int]] = []
        self.notices: list[str] = []
        self.before_submitted: Callable[[], Awaitable[None]] | None = None

    async def creating(self, manifest: Manifest) -> None:
        assert not manifest.batch
        self.manifests[manifest.token] = manifest

    async def submitted(self, manifest: Manifest) -> None:
        if self.before_submitted is not None:
            await self.before_submitted()
        assert manifest.batch
        self.manifests[manifest.token] = manifest

    def polled(self, batch: str, state: BatchState, next_poll_at: float | None) -> None:
        self.polls.append((batch, state, next_poll_at))

    def ended(self, batch: str, succeeded: int, errored: int) -> None:
        self.ends.append((batch, succeeded, errored))

    def notice(self, text: str) -> None:
        self.notices.append(text)


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
async def batch(connect: Connect, journal: Journal) -> Any:
    """Make a batcher over a simulator: `batch(simulator, max_size=...)`."""
    made: list[LLMBatcher] = []

    def make(simulator: Simulator, *, budget: Budget | None = None, **options: Any) -> LLMBatcher:
        options.setdefault("max_age", 0.05)
        options.setdefault("poll", PollPolicy(first=0.02, longest=0.1, grace=2.0, listing=(0.0, 0.05, 0.1)))
        options.setdefault(
            "retry", RetryPolicy(attempts=8, first_wait=0.01, longest_wait=0.05, patience=20.0)
        )
        hooks = options.pop("hooks", journal)
        batcher = LLMBatcher(connect(simulator.url, budget=budget), hooks, **options)
        made.append(batcher)
        return batcher

    yield make
    for batcher in made:
        await batcher.close()


def scenario(*faults: Fault, seconds: float = 0.1, **fields: Any) -> Scenario:
    answers = tuple(Answer(task=f"T{n}", say=f"answer {n}") for n in range(20))
    how = Batches(seconds=seconds, results="reversed")
    return Scenario(answers=answers, faults=faults, batches=fields.pop("batches", how), **fields)


async def ask(batcher: LLMBatcher, *numbers: int) -> list[str]:
    answers = await asyncio.gather(*(batcher.submit(request(f"T{n}")) for n in numbers))
    return [answer.text for answer in answers]


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


# Restarts


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
    async with asyncio.timeout(10):
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


# By hand


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
    async with asyncio.timeout(5):
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
    async with asyncio.timeout(5):
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
    async with asyncio.timeout(10):
        with pytest.raises(BatchItemError, match="cancelled"):
            await waiting


# Where there are none, and where they do not fit


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


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.005)
