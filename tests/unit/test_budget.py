"""A budget in dollars: never passed, never refusing what still fits."""

from __future__ import annotations

import asyncio
import random

import pytest

from engine import events as ev
from engine.errors import BudgetReachedError, budget_in_words
from engine.llm.budget import Budget
from engine.state import RunState
from tests import samples
from tui.headless import ProgressLines


async def test_a_call_that_could_pass_the_budget_of_the_run_is_refused_with_the_figures() -> None:
    budget = Budget(run_usd=1.0, spent={"a": 0.7})
    with pytest.raises(BudgetReachedError) as caught:
        await budget.reserve("b", 0.31)
    error = caught.value
    assert (error.scope, error.limit_usd, error.next_usd) == ("run", 1.0, 0.31)
    assert error.spent_usd == pytest.approx(0.7)
    assert error.exit_status == 3
    (await budget.reserve("b", 0.3)).settle(0.3)
    assert budget.spent == pytest.approx(1.0)


def test_the_same_is_said_of_a_budget_everywhere_and_nothing_of_a_call_that_nobody_can_price() -> None:
    """An agent's run said "the next call may cost $0.0000" in one place, and "could cost $0.00" in another."""
    agent = Budget(run_usd=0.1, spent={"a": 0.1107})
    with pytest.raises(BudgetReachedError) as caught:
        agent.require_some_left("b")
    assert caught.value.message == "budget of the run reached: $0.1107 of $0.1000"
    error = caught.value
    figures = {name: getattr(error, name) for name in ("limit_usd", "spent_usd", "next_usd")}
    event = ev.BudgetReached(at=1.0, scope="run", task="b", **figures)
    lines = ProgressLines(RunState().apply_all([samples.started(at=0.0)]).snapshot())
    assert list(lines.of(event)) == [f"00:01  b      {error.message}"]
    whole = budget_in_words("task T1", limit_usd=3.0, spent_usd=2.95, next_usd=0.2)
    assert whole == "budget of task T1 reached: $2.95 of $3.00, next call up to $0.20"


async def test_the_budget_of_a_task_stands_by_itself() -> None:
    budget = Budget(run_usd=100.0, task_usd=1.0, spent={"a": 0.9})
    with pytest.raises(BudgetReachedError) as caught:
        await budget.reserve("a", 0.2)
    assert caught.value.scope == "task"
    (await budget.reserve("b", 0.2)).release()


async def test_a_call_waits_for_money_set_aside_instead_of_being_refused() -> None:
    budget = Budget(run_usd=1.0)
    first = await budget.reserve("a", 0.9)
    second = asyncio.create_task(budget.reserve("b", 0.9))
    await asyncio.sleep(0)
    assert budget.waiting == 1
    first.settle(0.05)
    (await second).settle(0.05)
    assert budget.spent == pytest.approx(0.1)
    assert budget.reserved == 0.0


async def test_one_who_waits_is_refused_when_what_was_set_aside_was_really_spent() -> None:
    budget = Budget(run_usd=1.0)
    first = await budget.reserve("a", 0.9)
    second = asyncio.create_task(budget.reserve("b", 0.9))
    await asyncio.sleep(0)
    first.settle(0.9)
    with pytest.raises(BudgetReachedError):
        await second


async def test_a_cancelled_waiter_leaves_nothing_behind() -> None:
    budget = Budget(run_usd=1.0)
    first = await budget.reserve("a", 0.9)
    second = asyncio.create_task(budget.reserve("b", 0.9))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert budget.waiting == 0
    first.release()
    (await budget.reserve("c", 1.0)).release()


async def test_a_hold_counts_once_and_a_failed_call_gives_everything_back() -> None:
    budget = Budget(run_usd=1.0)
    with pytest.raises(ZeroDivisionError), await budget.reserve("a", 1.0):
        raise ZeroDivisionError
    hold = await budget.reserve("a", 1.0)
    hold.settle(0.25)
    hold.settle(0.25)
    hold.release()
    assert budget.spent == 0.25
    assert budget.reserved == 0.0


async def test_an_unknown_price_is_refused_under_any_limit_and_free_without_one() -> None:
    with pytest.raises(BudgetReachedError, match="llama"):
        await Budget(task_usd=5.0).reserve("a", None, model="llama")
    (await Budget().reserve("a", None)).settle(0.0)


async def test_no_interleaving_of_calls_passes_a_limit() -> None:
    dice = random.Random(7)
    budget = Budget(run_usd=2.0, task_usd=0.7)
    refused = 0

    async def call(task: str) -> None:
        nonlocal refused
        for _ in range(20):
            worst = dice.uniform(0.01, 0.3)
            try:
                hold = await budget.reserve(task, worst)
            except BudgetReachedError:
                refused += 1
                continue
            for _ in range(dice.randrange(4)):
                await asyncio.sleep(0)
            hold.settle(worst * dice.random())
            assert budget.spent + budget.reserved <= 2.0 + 1e-6
            assert budget.task_spent(task) <= 0.7 + 1e-6

    async with asyncio.timeout(20):
        await asyncio.gather(*(call(f"T{n}") for n in range(12)))
    assert refused > 0
    assert budget.spent > 1.7  # it was used, not merely kept shut
    assert budget.reserved == 0.0


def test_work_without_a_price_begins_only_while_something_is_left() -> None:
    """An agent command tells its cost afterwards; once the limit is reached no further turn begins."""
    budget = Budget(2.5, 2.0)
    for _ in range(2):
        budget.require_some_left("T1")
        budget.book("T1", 1.0)
    with pytest.raises(BudgetReachedError) as of_the_task:
        budget.require_some_left("T1")
    assert of_the_task.value.scope == "task"
    budget.require_some_left("T2")
    budget.spent_elsewhere(0.5)
    with pytest.raises(BudgetReachedError) as of_the_run:
        budget.require_some_left("T2")
    assert (of_the_run.value.scope, of_the_run.value.spent_usd) == ("run", 2.5)
    Budget().require_some_left("T1")
