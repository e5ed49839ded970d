"""Holding money for calls: by the prompt's bytes where that is enough, by the service's count where it matters."""

from __future__ import annotations

import asyncio

import pytest

from engine.errors import BudgetReachedError
from engine.llm.blocks import Text, user
from engine.llm.budget import Budget
from engine.llm.messages import ModelAnswer, ModelRequest
from engine.llm.money import Money
from engine.llm.prices import load_prices
from engine.model import Role, Usage

# 100,000 bytes: at most as many tokens (0.40 dollars), really 25,000 (0.10).
LARGE = ModelRequest(
    role=Role.JUDGE,
    model="claude-opus-5-5",
    messages=(user(Text("four" * 25_000)),),
    max_tokens=100,
    task_id="T1",
)


class Counter:
    """Stands for the service's count."""

    def __init__(self, tokens: int | None) -> None:
        self.tokens = tokens
        self.asked = 0

    async def __call__(self, request: ModelRequest) -> int | None:
        self.asked += 1
        return self.tokens


def money(run_usd: float | None, count: Counter) -> Money:
    return Money(load_prices(), Budget(run_usd), count)


async def test_nothing_is_counted_where_the_bytes_fit_or_nothing_is_limited() -> None:
    count = Counter(25_000)
    assert (await money(None, count).hold(LARGE)).usd == 0.0
    assert (await money(1.0, count).hold(LARGE)).usd > 0.4
    assert count.asked == 0


async def test_the_count_decides_where_the_bytes_do_not_fit() -> None:
    count = Counter(25_000)
    hold = await money(0.2, count).hold(LARGE)
    assert 0.1 < hold.usd < 0.13
    with pytest.raises(BudgetReachedError):
        await money(0.05, count).hold(LARGE)
    assert count.asked == 2


async def test_without_a_count_the_bytes_decide() -> None:
    with pytest.raises(BudgetReachedError):
        await money(0.2, Counter(None)).hold(LARGE)


async def test_one_who_waited_in_vain_is_counted_before_it_is_refused() -> None:
    count = Counter(25_000)
    till = money(0.5, count)
    first = till.budget.impose("T0", 0.49)
    waiting = asyncio.create_task(till.hold(LARGE))
    await asyncio.sleep(0)
    assert (till.budget.waiting, count.asked) == (1, 0)
    first.settle(0.3)  # 0.2 are left: too little for the bytes, enough for the tokens
    assert (await waiting).usd < 0.2
    assert count.asked == 1


async def test_a_batch_holds_half_and_a_mark_holds_the_write() -> None:
    till = money(10.0, Counter(None))
    plain = await till.hold(LARGE)
    half = await till.hold(LARGE, batch=True)
    assert half.usd == pytest.approx(plain.usd / 2)
    marked = ModelRequest(
        role=Role.JUDGE,
        model="claude-opus-5-5",
        messages=(user(Text("four" * 25_000, cache="1h")),),
        max_tokens=100,
        task_id="T1",
    )
    # 8 dollars a million kept for an hour instead of 4; the answer costs the same.
    answer = 100 * 20 / 1e6
    assert (await till.hold(marked)).usd - answer == pytest.approx(2 * (plain.usd - answer))


def test_broken_tries_are_part_of_the_cost() -> None:
    till = money(1.0, Counter(None))
    answer = ModelAnswer(
        "claude-opus-5-5", (), "end_turn", Usage(output=1_000), batched=True, wasted=Usage(output=1_000)
    )
    assert till.usd_of(answer) == pytest.approx(0.01 + 0.02)
    assert till.usd_of(ModelAnswer("llama", (), "end_turn", Usage(output=1_000))) == 0.0
