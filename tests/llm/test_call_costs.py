"""What calls cost, over real HTTP: held in the budget before they are sent, and booked once, broken tries too."""

from __future__ import annotations

import asyncio

import pytest

from engine.errors import BudgetReachedError
from engine.llm.budget import Budget
from engine.llm.messages import ModelAnswer
from engine.llm.simulator import Answer, Fault, Scenario
from engine.model import Usage
from tests.llm.conftest import Connect, Simulate, request
from tests.llm.raw_server import RawServer, sse


async def test_a_call_past_the_budget_is_not_sent(simulate: Simulate, connect: Connect) -> None:
    simulator = simulate()
    # 1,000 tokens of output alone may cost 0.02.
    client = connect(simulator.url, budget=Budget(run_usd=0.015))
    with pytest.raises(BudgetReachedError):
        await client.call(request())
    assert simulator.stats().calls == {}


async def test_a_budget_is_spent_by_what_calls_cost_and_never_passed(
    simulate: Simulate, connect: Connect
) -> None:
    simulator = simulate(Scenario(answers=(Answer(say="word " * 300),)))
    budget = Budget(run_usd=0.12)
    client = connect(simulator.url, budget=budget)
    results = await asyncio.gather(
        *(client.call(request(f"T{n}")) for n in range(40)), return_exceptions=True
    )
    answers = [r for r in results if isinstance(r, ModelAnswer)]
    refused = [r for r in results if isinstance(r, BudgetReachedError)]
    assert len(answers) + len(refused) == 40
    assert refused
    costs = [client.money.cost_of(answer) for answer in answers]
    assert budget.spent == pytest.approx(sum(cost.usd for cost in costs if cost is not None))
    assert 0.08 < budget.spent <= 0.12
    assert budget.reserved == 0.0
    assert sum(simulator.stats().calls.values()) == len(answers)


async def test_a_long_prompt_is_counted_by_the_service_before_it_is_refused(
    simulate: Simulate, connect: Connect
) -> None:
    simulator = simulate()
    # 100,000 bytes could be as many tokens (0.40 dollars) but are about 25,000 (0.10).
    prompt = request(text="four" * 25_000)
    client = connect(simulator.url, budget=Budget(run_usd=0.2))
    await client.call(prompt)
    assert simulator.stats().requests["POST /v1/messages/count_tokens"] == 1


async def test_tokens_of_a_broken_answer_are_paid_for_too(simulate: Simulate, connect: Connect) -> None:
    simulator = simulate(Scenario(faults=(Fault(kind="truncated"),), answers=(Answer(say="word " * 100),)))
    budget = Budget(run_usd=5.0)
    client = connect(simulator.url, budget=budget)
    answer = await client.call(request())
    assert answer.wasted.input == answer.usage.input
    cost = client.money.cost_of(answer)
    plain = client.money.prices.price(answer.model, answer.usage)
    assert cost is not None
    assert plain is not None
    assert cost.usd > plain
    assert budget.spent == pytest.approx(cost.usd)


async def test_what_had_come_of_an_answer_that_is_cancelled_is_paid_for(
    simulate: Simulate, connect: Connect
) -> None:
    simulator = simulate(Scenario(faults=(Fault(kind="stalled"),), answers=(Answer(say="word " * 100),)))
    budget = Budget(run_usd=5.0)
    client = connect(simulator.url, budget=budget)
    begun = asyncio.Event()
    heard: list[tuple[str, float | None, Usage]] = []
    calling = asyncio.ensure_future(
        client.call(
            request(),
            on_progress=lambda progress: begun.set(),
            on_failure=lambda error, wait, wasted: heard.append((error.message, wait, wasted)),
        )
    )
    await begun.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    ((words, wait, wasted),) = heard
    assert (words, wait, wasted.input > 0) == ("interrupted", None, True)
    assert budget.spent == pytest.approx(client.money.prices.price(request().model, wasted))
    assert budget.reserved == 0.0


async def test_broken_answers_are_paid_for_by_who_is_cancelled_before_the_next_try(
    simulate: Simulate, connect: Connect
) -> None:
    simulator = simulate(Scenario(faults=(Fault(kind="truncated"),), answers=(Answer(say="word " * 100),)))
    budget = Budget(run_usd=5.0)
    resting = asyncio.Event()

    async def rest(seconds: float) -> None:
        resting.set()
        await asyncio.Event().wait()

    client = connect(simulator.url, budget=budget, sleep=rest)
    heard: list[Usage] = []
    calling = asyncio.ensure_future(
        client.call(request(), on_failure=lambda error, wait, wasted: heard.append(wasted))
    )
    await resting.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert heard[0] == Usage()
    assert heard[1].output > 0
    assert budget.spent == pytest.approx(client.money.prices.price(request().model, heard[1]))


async def test_an_answer_under_another_name_is_paid_for_as_what_was_asked_for(connect: Connect) -> None:
    async with RawServer() as server:
        server.answers(sse("hello", model="gateway/opus@eu"))
        client = connect(server.url, budget=Budget(run_usd=1.0))
        answer = await client.call(request())
        assert (answer.model, answer.served_by) == ("claude-opus-5-5", "gateway/opus@eu")
        assert client.money.budget.spent == pytest.approx((10 * 4 + 5 * 20) / 1e6)


async def test_an_unknown_model_runs_without_a_budget_and_not_with_one(connect: Connect) -> None:
    async with RawServer() as server:
        server.answers(sse("hello", model="qwen3:8b"))
        client = connect(server.url)
        answer = await client.call(request(model="qwen3:8b"))
        assert client.money.cost_of(answer) is None
        limited = connect(server.url, budget=Budget(run_usd=100.0))
        with pytest.raises(BudgetReachedError, match=r"qwen3:8b"):
            await limited.call(request(model="qwen3:8b"))
