"""What a conversation with a model is made of: turns of blocks, and the tools it may ask for."""

from __future__ import annotations

from typing import Any, Literal, TypeVar, cast

import msgspec

_T = TypeVar("_T")

CacheTtl = Literal["5m", "1h"]


class Text(msgspec.Struct, frozen=True, tag="text"):
    """A block of text. `cache` marks the end of a prefix to keep for so long; such a block must not be empty."""

    text: str
    cache: CacheTtl | None = None


class ToolUse(msgspec.Struct, frozen=True, tag="tool_use"):
    """The model asks for a tool. `input` is the JSON text it wrote: decode it into the tool's own type.

    An answer cut off by `max_tokens` can end in half a JSON text.
    """

    id: str
    name: str
    input: str

    def decode(self, type: type[_T]) -> _T:
        """Give the input as `type`; raises msgspec.DecodeError (its text is fit for the model) when it does not fit."""
        return msgspec.json.decode(self.input or "{}", type=type)


class ToolResult(msgspec.Struct, frozen=True, tag="tool_result"):
    """Our answer to one `ToolUse`, in the user message that follows it."""

    tool_use_id: str
    content: str
    is_error: bool = False
    cache: CacheTtl | None = None


class Opaque(msgspec.Struct, frozen=True, tag="opaque"):
    """A block that only the service understands (thinking, say), as JSON text, to be sent back as it came."""

    json: str


Block = Text | ToolUse | ToolResult | Opaque
ContentBlock = Text | ToolUse | Opaque


class Message(msgspec.Struct, frozen=True):
    """One turn. A conversation begins with the user and alternates."""

    role: Literal["user", "assistant"]
    content: tuple[Block, ...]


def user(*blocks: Block) -> Message:
    """Make a user turn of these blocks."""
    return Message("user", blocks)


class Tool(msgspec.Struct, frozen=True):
    """A tool the model may ask for. `schema` is the JSON schema of its input, as text (see `json_schema`)."""

    name: str
    description: str
    schema: str


def wire(block: Block) -> dict[str, Any]:
    """Give the block as the service reads it, ready for JSON."""
    body: dict[str, Any]
    match block:
        case Text(text, cache):
            body = {"type": "text", "text": text}
        case ToolUse(id, name, input):
            return {"type": "tool_use", "id": id, "name": name, "input": _object(input)}
        case ToolResult(id, content, is_error, cache):
            body = {"type": "tool_result", "tool_use_id": id, "content": content}
            if is_error:
                body["is_error"] = True
        case Opaque(json):
            return cast("dict[str, Any]", msgspec.json.decode(json))
    if cache is not None:
        body["cache_control"] = {"type": "ephemeral", "ttl": cache}
    return body


def _object(text: str) -> Any:
    """Give the JSON object in `text`; an input that was cut off goes back as an empty one, since it must be JSON."""
    try:
        value = msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def bytes_of(block: Block) -> bytes:
    """Give what the block says, without its cache mark: equal bytes are one entry of the service's cache."""
    match block:
        case Text(text):
            return text.encode()
        case ToolUse(id, name, input):
            return f"{id}\0{name}\0{input}".encode()
        case ToolResult(id, content, is_error):
            return f"{id}\0{is_error}\0{content}".encode()
        case Opaque(json):
            return json.encode()
