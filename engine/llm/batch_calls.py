"""The calls of the Message Batches interface, one try each; who calls decides what to try again."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from engine.errors import LLMError, ServiceError
from engine.llm.failures import safe_text
from engine.llm.messages import ModelAnswer, ModelRequest
from engine.llm.sdk import Sdk
from engine.llm.stream import answer_of_message

if TYPE_CHECKING:
    import anthropic

MAX_ITEMS = 100_000  # requests of one batch: the service's own limit
MAX_BYTES = 200_000_000
"""Ours; the service refuses a body of more than 256 MB."""

_CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class BatchState(msgspec.Struct, frozen=True):
    """What the service tells about a batch. Until it has ended, all of its requests count as `processing`."""

    id: str
    status: str
    created_at: float
    processing: int = 0
    succeeded: int = 0
    errored: int = 0
    canceled: int = 0
    expired: int = 0

    @property
    def requests(self) -> int:
        """How many requests it holds."""
        return self.processing + self.succeeded + self.errored + self.canceled + self.expired

    @property
    def ended(self) -> bool:
        """Whether its results can be read."""
        return self.status == "ended"


class ItemFailure(msgspec.Struct, frozen=True):
    """One request got no answer. `lasting`: sent again it would fail again."""

    kind: Literal["errored", "expired", "canceled", "missing"]
    text: str = ""
    lasting: bool = False


ItemResult = ModelAnswer | ItemFailure


class BatchCalls:
    """What can be done with batches at one endpoint."""

    def __init__(self, sdk: Sdk) -> None:
        self._sdk = sdk

    async def create(self, requests: Mapping[str, ModelRequest]) -> BatchState:
        """Send the requests under their custom ids as one batch.

        The service takes no idempotency key: after an error without an answer nobody knows whether the batch exists.
        """
        for custom_id in requests:
            if not _CUSTOM_ID.fullmatch(custom_id):
                raise ValueError(f"{custom_id!r} is no valid custom id")
        body: Any = [{"custom_id": key, "params": request.params()} for key, request in requests.items()]
        # A body of many megabytes takes its time on the way.
        batch = await self._sdk.ask(lambda sdk: sdk.messages.batches.create(requests=body), seconds=600.0)
        return _state(batch)

    async def retrieve(self, batch_id: str) -> BatchState:
        """Ask how far a batch is."""
        return _state(await self._sdk.ask(lambda sdk: sdk.messages.batches.retrieve(batch_id)))

    async def since(self, created_at: float) -> tuple[BatchState, ...]:
        """List the batches of the account that were created at that time (seconds since the epoch) or later."""

        async def recent(sdk: anthropic.AsyncAnthropic) -> tuple[BatchState, ...]:
            found = []
            async for batch in sdk.messages.batches.list(limit=100):  # newest first
                state = _state(batch)
                if state.created_at < created_at:
                    break
                found.append(state)
            return tuple(found)

        return await self._sdk.ask(recent)

    async def cancel(self, batch_id: str) -> BatchState:
        """Ask the service to begin no further request of the batch."""
        return _state(await self._sdk.ask(lambda sdk: sdk.messages.batches.cancel(batch_id)))

    async def results(self, batch_id: str, take: Callable[[str, ItemResult], None]) -> None:
        """Read the results of an ended batch, in whatever order they come, and hand each over at once.

        After an error part-way, reading again gives all of them again.
        """

        async def read(sdk: anthropic.AsyncAnthropic) -> None:
            decoder = await sdk.messages.batches.results(batch_id)
            try:
                async for item in decoder:
                    take(str(item.custom_id), self._result(item.result))
            finally:
                await decoder.close()

        await self._sdk.ask(read, seconds=900.0)

    def _result(self, result: Any) -> ItemResult:
        match getattr(result, "type", None):
            case "succeeded":
                try:
                    return answer_of_message(result.message, batched=True)
                except LLMError as error:
                    return ItemFailure("errored", error.message)
            case "errored":
                told = getattr(getattr(result, "error", None), "error", None)
                kind = str(getattr(told, "type", "error"))
                text = self._sdk.safe_text(f"{kind}: {getattr(told, 'message', '')}")
                lasting = kind in (
                    "invalid_request_error",
                    "not_found_error",
                    "permission_error",
                    "billing_error",
                )
                return ItemFailure("errored", text, lasting)
            case "expired":
                return ItemFailure("expired", "the batch expired before its turn came")
            case "canceled":
                return ItemFailure("canceled", "the batch was cancelled before its turn came")
            case other:
                return ItemFailure("errored", f"a result of an unknown kind ({safe_text(other)})")


def _state(batch: Any) -> BatchState:
    """Read a batch object; raises ServiceError when the answer is none (a page of HTML, an empty object)."""
    counts = getattr(batch, "request_counts", None)
    try:
        return BatchState(
            id=str(batch.id),
            status=str(batch.processing_status),
            created_at=batch.created_at.timestamp(),
            processing=int(counts.processing) if counts is not None else 0,
            succeeded=int(counts.succeeded) if counts is not None else 0,
            errored=int(counts.errored) if counts is not None else 0,
            canceled=int(counts.canceled) if counts is not None else 0,
            expired=int(counts.expired) if counts is not None else 0,
        )
    except (AttributeError, TypeError, ValueError):
        raise ServiceError("the endpoint answered with something that is no batch") from None
