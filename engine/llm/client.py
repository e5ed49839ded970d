"""Calls to models, one whole answer at a time.

    client = ModelClient(None, os.environ.get("ANTHROPIC_API_KEY"))
    answer = await client.call(request, on_progress=show)
    await client.close()

A call streams, is held to time limits of our own, and is tried again by our own rules, so that every try can be seen,
counted and paid for. Whatever goes wrong arrives as one error of `engine.errors`. One client serves one event loop.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from engine.errors import (
    LLMError,
    OverloadedError,
    RateLimitedError,
    RequestRejectedError,
    ServiceError,
)
from engine.llm.budget import Budget
from engine.llm.endpoint import Endpoint
from engine.llm.failures import exhausted_for, require_event_stream
from engine.llm.limiter import Limiters, Slot
from engine.llm.messages import ModelAnswer, ModelRequest, Progress
from engine.llm.money import Money
from engine.llm.prefix_watch import PrefixWatch
from engine.llm.prefixes import PrefixLeader
from engine.llm.prices import PriceTable, load_prices
from engine.llm.retries import Retries, RetryPolicy
from engine.llm.sdk import UNREACHABLE, Deadlines, Sdk
from engine.llm.stream import AnswerBuilder
from engine.model import Usage

if TYPE_CHECKING:
    import anthropic

OnProgress = Callable[[Progress], None]
OnFailure = Callable[[LLMError, float | None, Usage], None]
"""Called with each failed try's error and the seconds until the next one, or None when it was the last; then with the
tokens of all broken answers too, which are paid for."""


class ModelClient:
    """Calls models at one endpoint, within the limits and the budget that all tasks share.

    `base_url` None means the SDK's own rules (ANTHROPIC_BASE_URL, a profile, the public service). Without an `api_key`,
    ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN or a profile of the SDK serves; an endpoint on this machine needs none.
    `notice` is told, in words for a person, when a shared prompt prefix stops being read from the service's cache.
    Raises SettingsError for a `base_url` that is no address.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        limiters: Limiters | None = None,
        prices: PriceTable | None = None,
        budget: Budget | None = None,
        leader: PrefixLeader | None = None,
        notice: Callable[[str], None] = lambda _: None,
        deadlines: Deadlines | None = None,
        retry: RetryPolicy | None = None,
        environ: Mapping[str, str] = os.environ,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        endpoint = Endpoint.of(base_url, api_key, environ)
        self.endpoint = endpoint.url
        self.limiters = limiters or Limiters()
        self.money = Money(prices or load_prices(), budget or Budget(), self.count_tokens)
        self.sdk = Sdk(endpoint, deadlines or Deadlines())
        self._watch = PrefixWatch(notice)
        self._leader = leader or PrefixLeader(monotonic=monotonic)
        self._retry = retry or RetryPolicy()
        self._monotonic = monotonic
        self._sleep = sleep
        self._jitter = jitter
        self._counts_tokens = True

    async def call(
        self,
        request: ModelRequest,
        *,
        on_progress: OnProgress | None = None,
        on_failure: OnFailure | None = None,
    ) -> ModelAnswer:
        """Get the whole answer to one request, streaming, with as many tries as the policy allows.

        Raises BudgetReachedError before anything is sent, or the LLMError of the last try.
        """
        retries = Retries(self._retry, monotonic=self._monotonic, jitter=self._jitter)
        limiter = self.limiters.of(request.model)
        wasted, wasted_usd = Usage(), 0.0
        builder = AnswerBuilder(request.model)

        def waste() -> None:
            nonlocal wasted, wasted_usd, builder
            wasted += builder.usage
            wasted_usd += self.money.prices.price(request.model, builder.usage) or 0.0
            builder = AnswerBuilder(request.model)

        with await self.money.hold(request) as hold:
            try:
                while True:
                    try:
                        answer = await self._try(request, builder, on_progress)
                    except LLMError as error:
                        waste()
                        wait = retries.wait_after(error, limiter.pause_left)
                        if on_failure is not None:
                            on_failure(error, wait, wasted if wait is None else Usage())
                        if wait is None:
                            hold.settle(wasted_usd)
                            raise
                        # The limiter waits out its own pause.
                        await self._sleep(max(0.0, wait - limiter.pause_left))
                    else:
                        answer = msgspec.structs.replace(answer, wasted=wasted)
                        hold.settle(self.money.usd_of(answer))
                        return answer
            except asyncio.CancelledError:
                waste()  # What had come by then is paid for.
                hold.settle(wasted_usd)
                if on_failure is not None and wasted.total:
                    on_failure(LLMError("interrupted"), None, wasted)
                raise

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """Ask the service how many tokens the prompt has; None where it cannot say."""
        if not self._counts_tokens:
            return None
        params = request.params()
        for name in ("max_tokens", "stop_sequences"):
            params.pop(name, None)
        try:
            counted = await self.sdk.ask(lambda sdk: sdk.messages.count_tokens(**params))
        except RequestRejectedError:
            self._counts_tokens = False  # many endpoints of the same protocol have no such call
            return None
        except LLMError:
            return None
        tokens = getattr(counted, "input_tokens", None)
        return tokens if isinstance(tokens, int) else None

    async def check(self) -> tuple[str, ...]:
        """Find out whether the endpoint answers and takes the key; gives the ids of its models, newest first.

        Raises AuthenticationError, ConnectionFailedError, DeadlineError or ServiceError, with what to do.
        """

        async def models(sdk: anthropic.AsyncAnthropic) -> tuple[str, ...]:
            found = getattr(await sdk.models.list(limit=1000), "data", None)
            if not isinstance(found, list):  # a page of HTML with status 200, say
                raise ServiceError(f"{self.endpoint} answered with something that is no answer", UNREACHABLE)
            return tuple(str(model.id) for model in found)

        try:
            return await self.sdk.ask(models)
        except (RateLimitedError, OverloadedError):
            return ()  # it answers and takes the key, only not now
        except RequestRejectedError as error:
            if error.status in (404, 405):  # it answers, but does not list models
                return ()
            raise

    def warm_up(self) -> None:
        """Begin to load the SDK in a thread, so that the first call need not wait for it."""
        self.sdk.warm_up()

    async def close(self) -> None:
        """Close all connections. Calls still in flight fail; cancel their tasks first."""
        self.limiters.close()
        await self.sdk.close()

    async def __aenter__(self) -> ModelClient:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def _try(
        self, request: ModelRequest, builder: AnswerBuilder, on_progress: OnProgress | None
    ) -> ModelAnswer:
        limiter = self.limiters.of(request.model)
        async with self._leader.turn(request.prefixes()) as turn, limiter.slot() as slot:
            turn.sent()
            self._watch.sent(request)

            def watch(progress: Progress) -> None:
                if progress.kind == "started":
                    turn.streaming()
                if on_progress is not None:
                    on_progress(progress)

            try:
                answer = await self._stream(request, builder, watch, slot)
            except LLMError as error:
                slot.failed(error)
                raise
            slot.answered()
            self._watch.answered(request, turn.expected, answer.usage)
            return answer

    async def _stream(
        self, request: ModelRequest, builder: AnswerBuilder, watch: OnProgress, slot: Slot
    ) -> ModelAnswer:
        async with self.sdk.stream(request.params()) as stream:
            headers = stream.response.headers
            slot.accepted(exhausted_for(headers))
            require_event_stream(headers)
            async for event in stream:
                progress = builder.feed(event)
                if progress is not None:
                    watch(progress)
            return builder.answer(headers.get("request-id", ""))
