"""The shapes of the wire: errors, messages and the events of a stream.

JSON goes out in the service's own form. Everything here is a pure function of its arguments; ids are derived from
what they name, so that the same request gets the same answer, to the byte, in every run.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

Json = dict[str, Any]

_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class Refusal(Exception):  # noqa: N818 - an answer of the service, not a fault of ours
    """The service says no. `kind` is its error type, `code` the stable detail code, `retry_after` seconds."""

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        status: int | None = None,
        code: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = _STATUS[kind] if status is None else status
        self.code = code
        self.retry_after = retry_after

    def body(self, request_id: str) -> Json:
        """Give the error as the service writes it."""
        error: Json = {"type": self.kind, "message": self.message}
        if self.code:
            error["details"] = {"error_code": self.code}
        return {"type": "error", "error": error, "request_id": request_id}


def invalid(message: str) -> Refusal:
    """Give the refusal of a request that is wrong in itself."""
    return Refusal("invalid_request_error", message)


def identifier(prefix: str, *parts: object) -> str:
    """Make an id like `msg_01…` out of what it names."""
    digest = hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()
    return f"{prefix}_01{digest[:22]}"


def count_tokens(text: str) -> int:
    """Count the tokens of a text: four characters each, any rest one more."""
    return -(-len(text) // 4)


def encode(value: Any) -> bytes:
    """Give a value as compact JSON."""
    return msgspec.json.encode(value)


class Reply(msgspec.Struct, frozen=True):
    """A whole answer before it is written: its blocks in wire form, why it stops, and its tokens.

    `cut` is set when `max_tokens` ended the answer inside a tool's input: so many characters of its JSON were written.
    """

    id: str
    model: str
    content: tuple[Json, ...]
    stop_reason: str
    usage: Json
    stop_sequence: str | None = None
    cut: int | None = None

    def message(self) -> Json:
        """Give the answer as one message."""
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": list(
                self.content if self.cut is None else (*self.content[:-1], self.content[-1] | {"input": {}})
            ),
            "stop_reason": self.stop_reason,
            "stop_sequence": self.stop_sequence,
            "usage": self.usage,
        }

    def start(self) -> Json:
        """Give the message as a stream begins it: empty, with the prompt counted and one token to come."""
        usage = self.usage | {"output_tokens": 1}
        return self.message() | {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}


def stream(reply: Reply, piece: int) -> Iterator[tuple[str, Json]]:
    """Give the events of a streamed answer, in pieces of about `piece` tokens, as (name, data)."""
    yield _event("message_start", message=reply.start())
    yield _event("ping")
    for index, block in enumerate(reply.content):
        last = index == len(reply.content) - 1
        empty, deltas = _opening(block, max(1, piece) * 4, reply.cut if last else None)
        yield _event("content_block_start", index=index, content_block=empty)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    yield _event(
        "message_delta",
        delta={"stop_reason": reply.stop_reason, "stop_sequence": reply.stop_sequence},
        usage={"output_tokens": reply.usage["output_tokens"]},
    )
    yield _event("message_stop")


def sse(name: str, data: Json | str) -> bytes:
    """Write one server-sent event; text goes out as it is, for answers that are broken on purpose."""
    payload = data if isinstance(data, str) else encode(data).decode()
    return f"event: {name}\ndata: {payload}\n\n".encode()


def tokens_of_delta(data: Json) -> int:
    """Count the tokens that a `content_block_delta` carries."""
    delta = data["delta"]
    return count_tokens(delta.get("text") or delta.get("partial_json") or delta.get("thinking") or "")


def pieces_of(text: str, size: int) -> list[str]:
    """Cut a text into pieces of `size` characters, at least two when it can be cut at all."""
    size = max(1, min(size, math.ceil(len(text) / 2)))
    return [text[at : at + size] for at in range(0, len(text), size)]


def _event(name: str, **fields: Any) -> tuple[str, Json]:
    return name, {"type": name, **fields}


def _opening(block: Json, size: int, cut: int | None) -> tuple[Json, Sequence[Json]]:
    """Give a block as a stream opens it, and the deltas that fill it."""
    match block["type"]:
        case "text":
            return block | {"text": ""}, [
                {"type": "text_delta", "text": p} for p in pieces_of(block["text"], size)
            ]
        case "thinking":
            deltas: list[Json] = [
                {"type": "thinking_delta", "thinking": p} for p in pieces_of(block["thinking"], size)
            ]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return block | {"thinking": "", "signature": ""}, deltas
        case _:
            text = encode(block["input"]).decode()[:cut]
            # The service opens every tool input with an empty piece.
            return block | {"input": {}}, [
                {"type": "input_json_delta", "partial_json": p} for p in ["", *pieces_of(text, size)]
            ]
