"""The one place that imports the SDK of the model service: opened once, asked once, its failures made ours.

    sdk = Sdk(Endpoint.of(None, None, os.environ), Deadlines())
    models = await sdk.ask(lambda anthropic: anthropic.models.list())
    await sdk.close()

Nothing is tried twice here. Whatever goes wrong arrives as one error of `engine.errors` whose text never holds the key.
The SDK takes seconds to import, so a thread does it; `warm_up` starts that early. One `Sdk` serves one event loop.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from engine.errors import (
    AuthenticationError,
    ConnectionFailedError,
    DeadlineError,
    LLMError,
    RequestRejectedError,
    ServiceError,
)
from engine.llm.endpoint import Endpoint
from engine.llm.failures import failure_of_status, safe_text

if TYPE_CHECKING:
    import anthropic

_T = TypeVar("_T")

UNREACHABLE = "check the network and [llm] base_url"


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Time limits of one try, in seconds. `idle` is the longest silence, pings counted as signs of life."""

    total: float = 900.0
    idle: float = 120.0
    connect: float = 10.0
    quick: float = 60.0
    """The whole of a call that only asks: models, token counts, the state of a batch."""


class Sdk:
    """The SDK's client for one endpoint, held to our time limits."""

    def __init__(self, endpoint: Endpoint, deadlines: Deadlines) -> None:
        self._endpoint = endpoint
        self._deadlines = deadlines
        self._opening: asyncio.Task[anthropic.AsyncAnthropic] | None = None

    def warm_up(self) -> None:
        """Begin to load the SDK in a thread, so that the first call need not wait for it."""
        self._open()

    async def ask(
        self, operation: Callable[[anthropic.AsyncAnthropic], Awaitable[_T]], *, seconds: float | None = None
    ) -> _T:
        """Do one operation, once, within `seconds` (default: the quick deadline). Raises LLMError."""
        sdk = await self._opened()
        async with self._typed_errors(self._deadlines.quick if seconds is None else seconds):
            try:
                return await operation(sdk)
            except AttributeError as error:  # the SDK takes a page of HTML with status 200 for an object
                raise self._no_answer(self.safe_text(error)) from None

    @asynccontextmanager
    async def stream(
        self, params: Mapping[str, Any]
    ) -> AsyncIterator[anthropic.AsyncStream[anthropic.types.RawMessageStreamEvent]]:
        """Stream the answer to one message within the total deadline.

        What fails while it is read arrives as an LLMError, too.
        """
        sdk = await self._opened()
        async with self._typed_errors(self._deadlines.total, paid=True):
            stream = await sdk.messages.create(**params, stream=True)
            async with stream:
                yield stream

    def safe_text(self, text: object) -> str:
        """Make a text of the service fit to show: one line, bounded, without the key."""
        return safe_text(text, *self._endpoint.secrets)

    async def close(self) -> None:
        """Close all connections. Calls still in flight fail; cancel their tasks first."""
        opening, self._opening = self._opening, None
        if opening is None:
            return
        await asyncio.wait([opening])
        if not opening.cancelled() and opening.exception() is None:
            await opening.result().close()

    async def _opened(self) -> anthropic.AsyncAnthropic:
        # Shielded: a cancelled call must not cancel the opening that others wait for.
        return await asyncio.shield(self._open())

    def _open(self) -> asyncio.Task[anthropic.AsyncAnthropic]:
        if self._opening is None or (self._opening.done() and self._opening.exception() is not None):
            self._opening = asyncio.get_running_loop().create_task(self._make())
        return self._opening

    async def _make(self) -> anthropic.AsyncAnthropic:
        def make() -> anthropic.AsyncAnthropic:
            import anthropic

            endpoint, limits = self._endpoint, self._deadlines
            # A proxy for the outside world must not get to see (and cannot answer) what is for this machine.
            http_client = anthropic.DefaultAsyncHttpxClient(trust_env=False) if endpoint.local else None
            return anthropic.AsyncAnthropic(
                api_key=endpoint.api_key or None,
                auth_token=endpoint.token or None,
                base_url=endpoint.base_url,
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

        url = self._endpoint.url
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
                    endpoint=url,
                )
            case anthropic.APITimeoutError() if isinstance(error.__cause__, httpx2.ConnectTimeout):
                return ConnectionFailedError(
                    f"{url} does not answer within {self._deadlines.connect:g} s", UNREACHABLE
                )
            case anthropic.APITimeoutError() | httpx2.TimeoutException():
                return DeadlineError(f"{url} was silent for {self._deadlines.idle:g} s")
            case anthropic.APIConnectionError():
                return ConnectionFailedError(f"{url} cannot be reached ({cause})", UNREACHABLE)
            case httpx2.TransportError():
                return ConnectionFailedError(f"the connection broke in the middle of the answer ({text})")
            case json.JSONDecodeError() | UnicodeDecodeError() | AssertionError():
                return self._no_answer(text)
            case anthropic.APIResponseValidationError():
                return self._no_answer(text)
            case TypeError() if "authentication" in text:
                return AuthenticationError(
                    "there is no API key",
                    'set ANTHROPIC_API_KEY, or [llm] base_url, or kind = "command" for the roles',
                )
            case anthropic.CredentialsError():
                return AuthenticationError(
                    f"the credentials cannot be loaded: {text}", "set ANTHROPIC_API_KEY"
                )
            case _:
                return RequestRejectedError(f"the call could not be made ({type(error).__name__}: {text})")

    def _no_answer(self, text: str) -> ServiceError:
        return ServiceError(f"{self._endpoint.url} answered with something that is no answer ({text})")
