"""Say why a prompt prefix that many calls shared is not read from the service's cache any more.

A prefix is read only while every byte of it stays the same and the entry lives. When calls of one kind stop sharing,
the bill grows and nothing else shows it; so each kind's shared parts are compared with those of its last call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import msgspec

from engine.llm.messages import ModelRequest, Prefix
from engine.model import Lane, Role, Usage

Kind = tuple[Role, str, Lane]
_MINIMUM_BYTES = 16_384  # about 4,096 tokens: the least that every model keeps


class PrefixWatch:
    """Compares each call with the last one of its role, model and lane, and tells `notice` what changed."""

    def __init__(self, notice: Callable[[str], None]) -> None:
        self._notice = notice
        self._parts: dict[Kind, dict[str, tuple[str, int]]] = {}
        self._unread: set[str] = set()

    def sent(self, request: ModelRequest) -> None:
        """Note the shared parts of a request, and report when they are not those of the last one."""
        kind = (request.role, request.model, request.lane)
        parts = _shared_parts(request)
        before = self._parts.get(kind)
        self._parts[kind] = parts
        if before is None or before == parts or sum(size for _, size in before.values()) < _MINIMUM_BYTES:
            return
        changed = [
            name for name in (*before, *(parts.keys() - before.keys())) if before.get(name) != parts.get(name)
        ]
        self._notice(
            f"the prompt cache of the {request.role} on {request.model} begins anew: {_listed(changed)} changed"
        )

    def answered(self, request: ModelRequest, expected: Prefix | None, usage: Usage) -> None:
        """Report, once for each model, that what was in the cache a moment ago was not read from it."""
        if (
            expected is None
            or usage.cache_read
            or expected.size < _MINIMUM_BYTES
            or request.model in self._unread
        ):
            return
        self._unread.add(request.model)
        self._notice(
            f"the service read nothing of a prompt prefix of {expected.size // 1000} kB that it was given before"
            f" ({request.role} on {request.model}): it may not cache, or have dropped the entry early"
        )


def _shared_parts(request: ModelRequest) -> dict[str, tuple[str, int]]:
    """Give digest and size of the parts that come before the conversation: the tools and each system block."""
    parts = {}
    if request.tools:
        tools = msgspec.json.encode(request.tools)
        parts["the tools"] = (hashlib.sha256(tools).hexdigest(), len(tools))
    for number, block in enumerate(request.system, start=1):
        text = block.text.encode()
        parts[f"system block {number}"] = (hashlib.sha256(text).hexdigest(), len(text))
    return parts


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
