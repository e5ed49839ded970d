"""Put the events of one streamed answer together, and know when it is whole.

The SDK's own accumulator parses a tool's whole input again with every piece of it, and returns an answer that broke
off as if it were complete. This one keeps the pieces, joins them once, and refuses what is not an answer.
"""

from __future__ import annotations

import json
from typing import Any

from engine.errors import ServiceError, TruncatedError
from engine.llm.blocks import ContentBlock, Opaque, Text, ToolUse
from engine.llm.messages import ModelAnswer, Progress
from engine.model import Usage


class AnswerBuilder:
    """Feed it each event in turn; `usage` is what is known so far, `answer()` the whole."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._served_by = ""
        self._blocks: dict[int, _OpenBlock] = {}
        self._counts: dict[str, int] = {}
        self._stop_reason: str | None = None
        self._started = False
        self._ended = False

    @property
    def started(self) -> bool:
        """Whether the answer has begun, so that its prompt is in the service's cache."""
        return self._started

    @property
    def usage(self) -> Usage:
        """Tokens counted so far; of a broken answer, a lower bound of what it used."""
        return usage_of_counts(self._counts)

    def feed(self, event: Any) -> Progress | None:
        """Take one event of the stream; gives what a watcher may want to see of it.

        Raises ServiceError for an event that lacks what its type promises.
        """
        try:
            return self._feed(event)
        except (AttributeError, TypeError) as error:
            raise ServiceError(f"the stream held an event that is none ({error})") from None

    def _feed(self, event: Any) -> Progress | None:
        match event.type:
            case "message_start":
                self._started = True
                self._served_by = str(getattr(event.message, "model", None) or "")
                self._count(getattr(event.message, "usage", None))
                return Progress("started")
            case "content_block_start":
                block = self._blocks[event.index] = _OpenBlock(event.content_block)
                return Progress("tool", block.name) if block.kind == "tool_use" else None
            case "content_block_delta" if event.index in self._blocks:
                return self._blocks[event.index].add(event.delta)
            case "message_delta":
                self._stop_reason = getattr(event.delta, "stop_reason", None) or self._stop_reason
                self._count(getattr(event, "usage", None))
            case "message_stop":
                self._ended = True
        return None

    def answer(self, request_id: str) -> ModelAnswer:
        """Give the whole answer. Raises TruncatedError when the stream ended early, ServiceError when it held none."""
        if not self._started:
            raise ServiceError("the answer held no message")
        if not self._ended or self._stop_reason is None:
            raise TruncatedError("the answer broke off before it was complete")
        content = tuple(self._blocks[index].close() for index in sorted(self._blocks))
        return ModelAnswer(
            self._model, content, self._stop_reason, self.usage, request_id, served_by=self._served_by
        )

    def _count(self, usage: Any) -> None:
        """Counts are running totals: a later one replaces an earlier one, a missing one leaves it."""
        self._counts.update(counts_of(usage))


def answer_of_message(message: Any, *, request_id: str = "", batched: bool = False) -> ModelAnswer:
    """Give the answer in a whole message of the SDK, as batches return them. Raises ServiceError when it is none."""
    content = getattr(message, "content", None)
    stop_reason = getattr(message, "stop_reason", None)
    if not isinstance(content, list) or not isinstance(stop_reason, str):
        raise ServiceError("the answer held no message")
    return ModelAnswer(
        model=str(message.model),
        content=tuple(_OpenBlock(block).close() for block in content),
        stop_reason=stop_reason,
        usage=usage_of_counts(counts_of(getattr(message, "usage", None))),
        request_id=request_id,
        batched=batched,
        served_by=str(message.model),
    )


_COUNTED = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_WRITES = ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")


def counts_of(usage: Any) -> dict[str, int]:
    """Give the token counts that a `usage` object carries, by their names on the wire."""
    creation = getattr(usage, "cache_creation", None)
    pairs = [(name, getattr(usage, name, None)) for name in _COUNTED]
    pairs += [(name, getattr(creation, name, None)) for name in _WRITES]
    return {name: value for name, value in pairs if isinstance(value, int)}


def usage_of_counts(counts: dict[str, int]) -> Usage:
    """Sort counts into price classes. Writes of no stated kind are kept for five minutes, the service's default."""
    kept_1h = counts.get("ephemeral_1h_input_tokens", 0)
    kept = max(
        counts.get("cache_creation_input_tokens", 0), kept_1h + counts.get("ephemeral_5m_input_tokens", 0)
    )
    return Usage(
        input=counts.get("input_tokens", 0),
        output=counts.get("output_tokens", 0),
        cache_read=counts.get("cache_read_input_tokens", 0),
        cache_write_5m=kept - kept_1h,
        cache_write_1h=kept_1h,
    )


class _OpenBlock:
    """A content block that may still grow. Its pieces are joined once, at the end."""

    def __init__(self, block: Any) -> None:
        self.kind = str(block.type)
        self.name = str(getattr(block, "name", ""))
        self._block = block
        self._pieces: dict[str, list[str]] = {}

    def add(self, delta: Any) -> Progress | None:
        match delta.type:
            case "text_delta":
                self._pieces.setdefault("text", []).append(delta.text)
                return Progress("text", delta.text)
            case "input_json_delta":
                self._pieces.setdefault("input", []).append(delta.partial_json)
            case "thinking_delta":
                self._pieces.setdefault("thinking", []).append(delta.thinking)
                return Progress("thinking", delta.thinking)
            case "signature_delta":
                self._pieces["signature"] = [delta.signature]
        return None

    def close(self) -> ContentBlock:
        pieces = {field: "".join(parts) for field, parts in self._pieces.items()}
        match self.kind:
            case "text":
                return Text((getattr(self._block, "text", "") or "") + pieces.get("text", ""))
            case "tool_use":
                given = getattr(self._block, "input", None) or {}
                return ToolUse(str(self._block.id), self.name, pieces.get("input") or json.dumps(given))
            case _:
                return Opaque(json.dumps(self._block.to_dict() | pieces, separators=(",", ":")))
