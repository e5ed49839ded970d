"""What calls may cost before they are made, and what they did cost afterwards: prices and budget together."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from engine.errors import BudgetReachedError
from engine.llm.budget import Budget, Hold
from engine.llm.messages import ModelAnswer, ModelRequest
from engine.llm.prices import Cost, PriceTable

_MOST_BYTES_A_TOKEN = 8  # prose in long words; a prompt never has fewer tokens than this makes of it
_HIDDEN_TOKENS = 2048  # what the service adds to a prompt by itself: its words about tools, schemas and roles


class Money:
    """Holds money for calls. `count` asks the service for the tokens of a prompt; None where it cannot say."""

    def __init__(
        self,
        prices: PriceTable,
        budget: Budget,
        count: Callable[[ModelRequest], Awaitable[int | None]],
    ) -> None:
        self.prices = prices
        self.budget = budget
        self._count = count
        self._counting = asyncio.Semaphore(4)

    async def hold(self, request: ModelRequest, *, batch: bool = False) -> Hold:
        """Set the worst case of a call aside in the budget. Settle or release what this gives.

        The prompt's bytes bound its tokens for nothing. Only where the true number can change the outcome is the
        service asked to count, which costs a round trip but no money. Raises BudgetReachedError.
        """
        task_id, budget = request.task_id, self.budget
        if not budget.limited:
            return await budget.reserve(task_id, 0.0)
        size = request.prompt_bytes
        usd = self._worst(request, size + _HIDDEN_TOKENS, batch)
        least = self._worst(request, size // _MOST_BYTES_A_TOKEN, batch)
        if usd is None or least is None or budget.fits_now(task_id, usd):
            return await budget.reserve(task_id, usd, model=request.model)
        if not budget.fits_now(task_id, least):  # it has to wait for others anyway
            with contextlib.suppress(BudgetReachedError):
                return await budget.reserve(task_id, usd, model=request.model)
        async with self._counting:
            counted = await self._count(request)
        if counted is not None:  # the count is an estimate, says the service
            usd = self._worst(request, counted + counted // 20 + _HIDDEN_TOKENS, batch)
        return await budget.reserve(task_id, usd, model=request.model)

    def hold_anyway(self, request: ModelRequest, *, batch: bool = False) -> Hold:
        """Set the worst case aside for a call that was sent already, limit or not."""
        return self.budget.impose(
            request.task_id, self._worst(request, request.prompt_bytes + _HIDDEN_TOKENS, batch)
        )

    def cost_of(self, answer: ModelAnswer) -> Cost | None:
        """Give the dollars of an answer and of the broken tries before it, or None when the price is not known."""
        cost = self.prices.cost(answer.model, answer.usage, batch=answer.batched)
        if cost is None or not answer.wasted.total:
            return cost
        wasted = self.prices.price(answer.model, answer.wasted) or 0.0
        return Cost(cost.usd + wasted, cost.saved_by_cache, cost.saved_by_batch)

    def usd_of(self, answer: ModelAnswer) -> float:
        """Give the dollars to book for an answer: 0 where the price is not known, which no budget lets happen."""
        cost = self.cost_of(answer)
        return 0.0 if cost is None else cost.usd

    def _worst(self, request: ModelRequest, tokens: int, batch: bool) -> float | None:
        return self.prices.worst_case(
            request.model, tokens, request.max_tokens, batch=batch, cache=request.longest_cache
        )
