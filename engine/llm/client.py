"""The one place that talks to a model service, and the only one that imports its SDK.

    client = ModelClient(None, os.environ.get("ANTHROPIC_API_KEY"))
    answer = await client.call(request, on_progress=show)
    await client.close()

A call streams, is held to time limits of our own, and is tried again by our own rules, so that every try can be seen,
counted and paid for. Whatever goes wrong arrives as one error of `engine.errors` whose text never holds the key.
One client serves one event loop. The SDK takes seconds to import, so a thread does it; `warm_up` starts that early.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import msgspec

from engine.errors import (
    AuthenticationError,
    ConnectionFailedError,
    DeadlineError,
    LLMError,
    OverloadedError,
    RateLimitedError,
    RequestRejectedError,
    ServiceError,
    SettingsError,
)
from engine.llm.budget import Budget
from engine.llm.failures import exhausted_for, failure_of_status, safe_text
from engine.llm.limiter import Limiters, Slot
from engine.llm.messages import ModelAnswer, ModelRequest, Progress
from engine.llm.money import Money
from engine.llm.prefix_watch import PrefixWatch
from engine.llm.prefixes import PrefixLeader
from engine.llm.prices import Cost, PriceTable, load_prices
from engine.llm.retries import Retries, RetryPolicy
from engine.llm.stream import AnswerBuilder
from engine.model import Usage

if TYPE_CHECKING:
    import anthropic

_T = TypeVar("_T")

OnProgress = Callable[[Progress], None]
OnFailure = Callable[[LLMError, float | None, Usage], None]
"""Called with each failed try's error and the seconds until the next one, or None when it was the last; then with the
tokens of all broken answers too, which are paid for."""

_PUBLIC = "https://api.anthropic.com"


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Time limits of one try, in seconds. `idle` is the longest silence, pings counted as signs of life."""

    total: float = 900.0
    idle: float = 120.0
    connect: float = 10.0
    quick: float = 60.0
    """The whole of a call that only asks: models, token counts, the state of a batch."""


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
        base_url = base_url or environ.get("ANTHROPIC_BASE_URL")
        if (
            base_url is not None
        ):  # the SDK appends /v1 by itself, and many addresses are handed around with it
            base_url = base_url.rstrip("/").removesuffix("/v1")
        self.endpoint = base_url or _PUBLIC
        # The port of a server on this machine is chance: what it answers does not hang on it.
        self.endpoint_key = "loopback" if is_loopback(self.endpoint) else self.endpoint
        self.limiters = limiters or Limiters()
        self.money = Money(prices or load_prices(), budget or Budget(), self.count_tokens)
        self._base_url = base_url
        self._local = self.endpoint_key == "loopback"
        given = (api_key or "").strip() or environ.get("ANTHROPIC_API_KEY", "").strip()
        self._token = "" if given else environ.get("ANTHROPIC_AUTH_TOKEN", "").strip()
        self._key = given or (_NO_KEY if self._local and not self._token else "")
        self._secrets = (given, environ.get("ANTHROPIC_API_KEY", ""), environ.get("ANTHROPIC_AUTH_TOKEN", ""))
        self._watch = PrefixWatch(notice)
        self._leader = leader or PrefixLeader(monotonic=monotonic)
        self._deadlines = deadlines or Deadlines()
        self._retry = retry or RetryPolicy()
        self._monotonic = monotonic
        self._sleep = sleep
        self._jitter = jitter
        self._counts_tokens = True
        self._opening: asyncio.Task[anthropic.AsyncAnthropic] | None = None

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
        with await self.money.hold(request) as hold:
            while True:
                builder = AnswerBuilder(request.model)
                try:
                    answer = await self._try(request, builder, on_progress)
                except LLMError as error:
                    wasted += builder.usage
                    wasted_usd += self.money.prices.price(request.model, builder.usage) or 0.0
                    wait = retries.wait_after(error, limiter.pause_left)
                    if on_failure is not None:
                        on_failure(error, wait, wasted if wait is None else Usage())
                    if wait is None:
                        hold.settle(wasted_usd)
                        raise
                    await self._sleep(
                        max(0.0, wait - limiter.pause_left)
                    )  # the limiter itself waits out its pause
                else:
                    answer = msgspec.structs.replace(answer, wasted=wasted)
                    hold.settle(self.money.usd_of(answer))
                    return answer

    def cost_of(self, answer: ModelAnswer) -> Cost | None:
        """Give the dollars of an answer and of the broken tries before it, or None when the price is not known."""
        return self.money.cost_of(answer)

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """Ask the service how many tokens the prompt has; None where it cannot say."""
        if not self._counts_tokens:
            return None
        params = request.params()
        for name in ("max_tokens", "stop_sequences"):
            params.pop(name, None)
        try:
            counted = await self.ask(lambda sdk: sdk.messages.count_tokens(**params))
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
                raise ServiceError(f"{self.endpoint} answered with something that is no answer", _UNREACHABLE)
            return tuple(str(model.id) for model in found)

        try:
            return await self.ask(models)
        except (RateLimitedError, OverloadedError):
            return ()  # it answers and takes the key, only not now
        except RequestRejectedError as error:
            if error.status in (404, 405):  # it answers, but does not list models
                return ()
            raise

    async def ask(
        self, operation: Callable[[anthropic.AsyncAnthropic], Awaitable[_T]], *, seconds: float | None = None
    ) -> _T:
        """Do one operation on the SDK, once, within `seconds` (default: the quick deadline).

        Its failures become typed errors.
        """
        sdk = await self._sdk()
        async with self._typed_errors(self._deadlines.quick if seconds is None else seconds):
            try:
                return await operation(sdk)
            except AttributeError as error:  # the SDK takes a page of HTML with status 200 for an object
                raise ServiceError(
                    f"{self.endpoint} answered with something that is no answer ({self.safe_text(error)})"
                ) from None

    def safe_text(self, text: object) -> str:
        """Make a text of the service fit to show: one line, bounded, without the key."""
        return safe_text(text, *self._secrets)

    def warm_up(self) -> None:
        """Begin to load the SDK in a thread, so that the first call need not wait for it."""
        self._open()

    async def close(self) -> None:
        """Close all connections. Calls still in flight fail; cancel their tasks first."""
        opening, self._opening = self._opening, None
        self.limiters.close()
        if opening is None:
            return
        await asyncio.wait([opening])
        if not opening.cancelled() and opening.exception() is None:
            await opening.result().close()

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
        sdk = await self._sdk()
        async with self._typed_errors(self._deadlines.total, paid=True):
            stream = await sdk.messages.create(**request.params(), stream=True)
            headers: Mapping[str, str] = stream.response.headers
            async with stream:
                slot.accepted(exhausted_for(headers))
                _require_event_stream(headers)
                async for event in stream:
                    progress = builder.feed(event)
                    if progress is not None:
                        watch(progress)
            return builder.answer(headers.get("request-id", ""))

    async def _sdk(self) -> anthropic.AsyncAnthropic:
        # Shielded: a cancelled call must not cancel the opening that others wait for.
        return await asyncio.shield(self._open())

    def _open(self) -> asyncio.Task[anthropic.AsyncAnthropic]:
        if self._opening is None or (self._opening.done() and self._opening.exception() is not None):
            self._opening = asyncio.get_running_loop().create_task(self._make_sdk())
        return self._opening

    async def _make_sdk(self) -> anthropic.AsyncAnthropic:
        def make() -> anthropic.AsyncAnthropic:
            import anthropic

            limits = self._deadlines
            # A proxy for the outside world must not get to see (and cannot answer) what is for this machine.
            http_client = anthropic.DefaultAsyncHttpxClient(trust_env=False) if self._local else None
            return anthropic.AsyncAnthropic(
                api_key=self._key or None,
                auth_token=self._token or None,
                base_url=self._base_url,
                max_retries=0,
                timeout=anthropic.Timeout(limits.idle, connect=limits.connect),
                http_client=http_client,
            )

        async with self._typed_errors(None):
            return await asyncio.to_thread(make)

    @asynccontextmanager
    async def _typed_errors(self, seconds: float | None, *, paid: bool = False) -> AsyncIterator[None]:
        """Hold what is inside to a time limit, and turn whatever it raises into one of our errors.

        What is `paid` for by its length is not tried again after the limit: it would cost the same, and end the same.
        """
        failure: LLMError
        try:
            async with asyncio.timeout(seconds):
                yield
            return
        except LLMError:
            raise
        except TimeoutError:
            failure = DeadlineError(
                f"no whole answer within {seconds:g} s", "raise [llm] timeout, or make the task smaller"
            )
            failure.retryable = not paid
        except Exception as error:
            failure = self._typed(error)
        raise failure from None  # the original stays out of tracebacks, for its text may hold the key

    def _typed(self, error: Exception) -> LLMError:
        import anthropic
        import httpx2

        text = self.safe_text(error)
        cause = self.safe_text(error.__cause__ or error)
        match error:
            case anthropic.APIStatusError():
                return failure_of_status(
                    error.status_code,
                    error.type or "",
                    error.error_code or "",
                    self.safe_text(error.api_message or error),
                    error.response.headers,
                    endpoint=self.endpoint,
                )
            case anthropic.APITimeoutError() if isinstance(error.__cause__, httpx2.ConnectTimeout):
                return ConnectionFailedError(
                    f"{self.endpoint} does not answer within {self._deadlines.connect:g} s", _UNREACHABLE
                )
            case anthropic.APITimeoutError() | httpx2.TimeoutException():
                return DeadlineError(f"{self.endpoint} was silent for {self._deadlines.idle:g} s")
            case anthropic.APIConnectionError():
                return ConnectionFailedError(f"{self.endpoint} cannot be reached ({cause})", _UNREACHABLE)
            case httpx2.TransportError():
                return ConnectionFailedError(f"the connection broke in the middle of the answer ({text})")
            case json.JSONDecodeError() | UnicodeDecodeError() | AssertionError():
                return ServiceError(f"{self.endpoint} answered with something that is no answer ({text})")
            case TypeError() if "authentication" in text:
                return AuthenticationError("there is no API key", "set ANTHROPIC_API_KEY, or [llm] base_url")
            case anthropic.CredentialsError():
                return AuthenticationError(
                    f"the credentials cannot be loaded: {text}", "set ANTHROPIC_API_KEY"
                )
            case anthropic.APIResponseValidationError():
                return ServiceError(f"{self.endpoint} answered with something that is no answer ({text})")
            case _:
                return RequestRejectedError(f"the call could not be made ({type(error).__name__}: {text})")


_NO_KEY = "no-key-needed"
_UNREACHABLE = "check the network and [llm] base_url"


def is_loopback(url: str) -> bool:
    """Whether the URL points at this machine. Raises SettingsError for one that is none."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(
            f"{url!r} is no address of a model service",
            "give [llm] base_url as https://host or http://host:port",
        )
    host = parts.hostname
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _require_event_stream(headers: Mapping[str, str]) -> None:
    """Refuse an answer that cannot be a stream: a login page, an empty object, a proxy's apology."""
    kind = headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "text/event-stream":
        raise ServiceError(
            f"the endpoint answered with {kind or 'no content type'} instead of a stream of events",
            "check [llm] base_url if this lasts",
        )
