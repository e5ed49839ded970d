"""The one way to a model for every role: the cache first, then the budget, a batch or a single call, and the bill.

An answer is in the cache, on disk, before anything else hears of it: a crash after that costs no second call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

import msgspec

from engine import events as ev
from engine.activities import Attempt
from engine.bus import Bus
from engine.errors import BudgetReachedError, RequestRejectedError, TaskyardError
from engine.llm.batches import LLMBatcher
from engine.llm.client import ModelClient
from engine.llm.messages import ModelAnswer, ModelRequest, Progress
from engine.model import AnswerSource, Lane, Usage
from engine.store.cache import CacheKey, Computed, ResultCache, digest

_NOTHING = Usage()
KEY_FORMAT = 2  # raise it when what is stored for a call changes its form


class Bought(msgspec.Struct, frozen=True):
    """An answer as the cache keeps it, with the id of the call that paid for it."""

    call: str
    answer: ModelAnswer


class CallRecord(msgspec.Struct, frozen=True):
    """What `record` of a call names: the exact request and answer, as JSON."""

    request: ModelRequest
    answer: ModelAnswer


class ModelCalls:
    """Ask models on behalf of attempts.

    `client` is None where no role is a model. `endpoint` names the service in cache keys; `new_id` gives unique ids.
    """

    def __init__(
        self,
        client: ModelClient | None,
        cache: ResultCache,
        bus: Bus,
        *,
        batches: LLMBatcher | None = None,
        endpoint: str = "",
        new_id: Callable[[], str],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._cache = cache
        self._bus = bus
        self._batches = batches
        self._endpoint = endpoint
        self._new_id = new_id
        self._monotonic = monotonic
        self._booking: set[str] = set()

    async def ask(
        self,
        attempt: Attempt,
        request: ModelRequest,
        *,
        base_tree: str,
        records: Path,
        on_progress: Callable[[Progress], None] | None = None,
        aside: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> ModelAnswer:
        """Give the answer to the request, from the cache if these very inputs were answered before.

        `base_tree` is the tree the attempt works over, `records` the folder for the exact prompt and answer; `aside`
        surrounds the wait for a batch, which needs no slot.
        Raises LLMError or BudgetReachedError.
        """
        call = self._new_id()
        start = self._monotonic()
        key = CacheKey(
            activity_type=str(request.role),
            task_id=attempt.task.id,
            input_hash=digest(
                {
                    "format": KEY_FORMAT,
                    "request": request.digest_input(self._endpoint),
                    "base": base_tree,
                }
            ),
            model_id=request.model,
        )

        async def compute() -> Computed:
            answer = await self._call(attempt, request, call, on_progress, aside)
            cost = self._model_client().money.cost_of(answer)
            return Computed(
                msgspec.json.encode(Bought(call, answer)),
                tokens=answer.usage.total,
                usd=cost.usd if cost is not None else 0.0,
            )

        value, hit = await self._cache.get_or_compute(key, compute)
        bought = msgspec.json.decode(value, type=Bought)
        answer = bought.answer
        if hit and self._is_unbooked(attempt, bought.call):
            call, hit = bought.call, False
            money = self._model_client().money
            money.budget.book(attempt.task.id, money.usd_of(answer))
        self._booking.add(call)
        try:
            record = await asyncio.to_thread(self._write_record, records, call, request, answer)
            await self._bus.commit(
                self._answered(attempt, request, call, answer, hit, self._monotonic() - start, record)
            )
        finally:
            self._booking.discard(call)
        if self._batches is not None and request.lane is Lane.ECONOMY:
            self._batches.stored(request)
        return answer

    def _is_unbooked(self, attempt: Attempt, call: str) -> bool:
        """Whether this run paid for the call, and was killed between keeping the answer and journaling what it cost."""
        view = self._bus.state.find(attempt.task.id)
        if view is None or call in self._booking:
            return False
        return any(made.id == call and made.source is None for made in view.calls)

    async def _call(
        self,
        attempt: Attempt,
        request: ModelRequest,
        call: str,
        on_progress: Callable[[Progress], None] | None,
        aside: Callable[[], AbstractAsyncContextManager[None]],
    ) -> ModelAnswer:
        task, bus = attempt.task.id, self._bus
        batches = self._batches if request.lane is Lane.ECONOMY else None

        def failed(error: TaskyardError, retry_in: float | None = None, wasted: Usage = _NOTHING) -> None:
            prices = self._model_client().money.prices
            bus.emit(
                ev.CallFailed(
                    at=bus.clock(),
                    call=call,
                    task=task,
                    role=request.role,
                    model=request.model,
                    error=error.message,
                    retry_in=retry_in,
                    usage=wasted,
                    usd=prices.price(request.model, wasted) if wasted.total else None,
                )
            )

        bus.emit(
            ev.CallStarted(
                at=bus.clock(),
                call=call,
                task=task,
                attempt=attempt.number,
                role=request.role,
                model=request.model,
                batched=batches is not None,
            )
        )
        try:
            if batches is not None:
                async with aside():
                    return await batches.submit(request, on_failure=failed)
            return await self._model_client().call(request, on_progress=on_progress, on_failure=failed)
        except BudgetReachedError as error:
            failed(error)
            bus.emit(
                ev.BudgetReached(
                    at=bus.clock(),
                    scope=error.scope,
                    limit_usd=error.limit_usd,
                    spent_usd=error.spent_usd,
                    next_usd=error.next_usd,
                    task=task,
                )
            )
            raise

    def _answered(
        self,
        attempt: Attempt,
        request: ModelRequest,
        call: str,
        answer: ModelAnswer,
        hit: bool,
        duration: float,
        record: str,
    ) -> ev.CallAnswered:
        cost = self._model_client().money.cost_of(answer)
        source = AnswerSource.CACHE if hit else AnswerSource.BATCH if answer.batched else AnswerSource.CALL
        saved = by_batch = 0.0
        if cost is not None:
            saved, by_batch = (cost.usd, 0.0) if hit else (cost.saved, cost.saved_by_batch)
        return ev.CallAnswered(
            at=self._bus.clock(),
            call=call,
            task=attempt.task.id,
            attempt=attempt.number,
            role=request.role,
            model=answer.model,
            source=source,
            usage=answer.usage + answer.wasted,
            usd=cost.usd if cost is not None else None,
            usd_saved=saved,
            usd_saved_batches=by_batch,
            duration=duration,
            record=record,
        )

    def _model_client(self) -> ModelClient:
        if self._client is None:
            raise RequestRejectedError("no role is a model here", "set kind to anthropic for this role")
        return self._client

    @staticmethod
    def _write_record(folder: Path, call: str, request: ModelRequest, answer: ModelAnswer) -> str:
        """Keep the exact prompt and answer; losing one to a full disk is no reason to stop."""
        path = folder / f"{call}.json"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_bytes(msgspec.json.encode(CallRecord(request, answer)))
        except OSError:
            return ""
        return str(path)
