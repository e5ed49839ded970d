"""What goes to a model and what comes back, as frozen values that know nothing of any SDK.

    request = ModelRequest(
        role=Role.JUDGE,
        model="claude-opus-5-5",
        system=(Text("You judge changes.", cache="5m"),),
        messages=(user(Text(repository_context, cache="5m"), Text(task_prompt)),),
        output_schema=json_schema(Verdict),
    )
    answer = await client.call(request)
    verdict = answer.decode(Verdict)

Lay a prompt out from what many tasks share to what only this one has (tools, system, repository context; then the
task, its lessons, its feedback) and mark the end of each shared part with `cache`: the service reads everything up to
a mark from its cache when it has seen exactly the same bytes a little while ago. At most four marks.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any, Literal, TypeVar

import msgspec

from engine.errors import ServiceError
from engine.llm.blocks import CacheTtl, ContentBlock, Message, Text, Tool, ToolUse, bytes_of, wire
from engine.model import Lane, Role, Usage

_T = TypeVar("_T")


class Thinking(msgspec.Struct, frozen=True):
    """Let the model think first: `budget_tokens` at most (at least 1024), or as it sees fit when None."""

    budget_tokens: int | None = None


# These say whose call it is and how it travels, and where the service may cut its own cache; nothing the model sees.
_NOT_IN_DIGEST = frozenset({"task_id", "attempt", "lane", "role"})


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One call to a model: what it sees, and (task_id, attempt, lane, role) whose call it is."""

    role: Role
    model: str
    messages: tuple[Message, ...]
    system: tuple[Text, ...] = ()
    tools: tuple[Tool, ...] = ()
    max_tokens: int = 16_000
    thinking: Thinking | None = None
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    output_schema: str | None = None
    stop_sequences: tuple[str, ...] = ()
    lane: Lane = Lane.FAST
    task_id: str = ""
    attempt: int = 1

    def digest_input(self, endpoint: str = "") -> dict[str, Any]:
        """Give the canonical JSON value over everything that can change the answer, for a cache key.

        Everything not known to be harmless is in it, so that a new field is safe until somebody says otherwise.
        """
        value = {
            name: _without_marks(msgspec.to_builtins(getattr(self, name)))
            for name in self.__struct_fields__
            if name not in _NOT_IN_DIGEST
        }
        value["endpoint"] = endpoint
        return value

    def params(self) -> dict[str, Any]:
        """Give the body of the Messages call (without `stream`), ready for JSON."""
        params: dict[str, Any] = {
            "model": self.model,
            "max_tokens": self.max_tokens,
            "messages": [
                {"role": message.role, "content": [wire(block) for block in message.content]}
                for message in self.messages
            ],
        }
        if self.system:
            params["system"] = [wire(block) for block in self.system]
        if self.tools:
            params["tools"] = [
                {"name": t.name, "description": t.description, "input_schema": msgspec.json.decode(t.schema)}
                for t in self.tools
            ]
        if self.thinking is not None:
            params["thinking"] = (
                {"type": "adaptive"}
                if self.thinking.budget_tokens is None
                else {"type": "enabled", "budget_tokens": self.thinking.budget_tokens}
            )
        output: dict[str, Any] = {}
        if self.effort is not None:
            output["effort"] = self.effort
        if self.output_schema is not None:
            output["format"] = {"type": "json_schema", "schema": msgspec.json.decode(self.output_schema)}
        if output:
            params["output_config"] = output
        if self.stop_sequences:
            params["stop_sequences"] = list(self.stop_sequences)
        return params

    def prefixes(self) -> tuple[Prefix, ...]:
        """Give the prefix that each cache mark ends, shortest first. Equal digests share a cache entry."""
        hasher = hashlib.sha256(self.model.encode())
        seen = 0
        prefixes = []
        for part, cache in self._parts():
            hasher.update(b"%d:" % len(part))  # so that moving a word between blocks changes the digest
            hasher.update(part)
            seen += len(part)
            if cache is not None:
                prefixes.append(Prefix(hasher.hexdigest(), seen, cache))
        return tuple(prefixes)

    @property
    def prompt_bytes(self) -> int:
        """The size of the whole prompt: no tokenizer makes more tokens of it than it has bytes."""
        schema = len(self.output_schema.encode()) if self.output_schema is not None else 0
        return sum(len(part) for part, _ in self._parts()) + schema

    @property
    def longest_cache(self) -> CacheTtl | None:
        """The dearest kind of cache write this request can cause."""
        marks = {cache for _, cache in self._parts()}
        return "1h" if "1h" in marks else "5m" if "5m" in marks else None

    def with_cache_ttl(self, ttl: CacheTtl) -> ModelRequest:
        """Give the same request with every mark kept for `ttl`: a batch outlives five minutes."""

        def remark(block: Any) -> Any:
            marked = getattr(block, "cache", None) is not None
            return msgspec.structs.replace(block, cache=ttl) if marked else block

        return msgspec.structs.replace(
            self,
            system=tuple(remark(block) for block in self.system),
            messages=tuple(
                Message(m.role, tuple(remark(block) for block in m.content)) for m in self.messages
            ),
        )

    def _parts(self) -> Iterator[tuple[bytes, CacheTtl | None]]:
        """Give the prompt piece by piece in the order the service caches it: tools, system, messages."""
        for tool in self.tools:
            yield msgspec.json.encode(tool), None
        for text in self.system:
            yield text.text.encode(), text.cache
        for message in self.messages:
            yield message.role.encode(), None
            for block in message.content:
                yield bytes_of(block), getattr(block, "cache", None)


class Prefix(msgspec.Struct, frozen=True):
    """The beginning of a prompt up to a cache mark: its digest, its size in bytes, how long it is kept."""

    digest: str
    size: int
    ttl: CacheTtl


class ModelAnswer(msgspec.Struct, frozen=True):
    """A whole answer. `model` is the one that was asked for and is paid for, `served_by` the name the service gave.

    `wasted` counts what broken tries of the same call are known to have used.
    """

    model: str
    content: tuple[ContentBlock, ...]
    stop_reason: str
    usage: Usage
    request_id: str = ""
    batched: bool = False
    wasted: Usage = Usage()
    served_by: str = ""

    @property
    def text(self) -> str:
        """All text of the answer, joined."""
        return "".join(block.text for block in self.content if isinstance(block, Text))

    @property
    def tool_uses(self) -> tuple[ToolUse, ...]:
        """The tools the model asks for, in order."""
        return tuple(block for block in self.content if isinstance(block, ToolUse))

    @property
    def message(self) -> Message:
        """The answer as the assistant turn of the conversation that goes on. Empty text blocks are left out."""
        kept = tuple(
            block for block in self.content if not (isinstance(block, Text) and not block.text.strip())
        )
        return Message("assistant", kept)

    def decode(self, type: type[_T]) -> _T:
        """Give an answer by JSON schema as `type`.

        Endpoints without structured output wrap JSON in a code fence or a sentence: the outermost object counts.
        Raises ServiceError when the answer is cut off or does not fit.
        """
        text = self.text.strip()
        if self.stop_reason == "max_tokens":
            raise ServiceError("the answer was cut off at max_tokens", "raise max_tokens of this role")
        if not text.startswith("{"):
            found = re.search(r"\{.*\}", text, re.DOTALL)
            text = found[0] if found else text
        try:
            return msgspec.json.decode(text, type=type)
        except msgspec.DecodeError as error:
            raise ServiceError(
                f"the answer of {self.model} is not the JSON that was asked for ({error})"
            ) from None


class Progress(msgspec.Struct, frozen=True):
    """A sign of life while an answer streams. `text` is the piece of text that arrived or the tool's name."""

    kind: Literal["started", "thinking", "text", "tool"]
    text: str = ""


def _without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_marks(item) for key, item in value.items() if key != "cache"}
    if isinstance(value, list | tuple):
        return [_without_marks(item) for item in value]
    return value
