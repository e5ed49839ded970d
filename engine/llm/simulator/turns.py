"""The rules of a conversation: whose turn it is, what a turn may hold, and that every tool call gets its result."""

from __future__ import annotations

import re
from typing import Any

from engine.llm.simulator.wire import Json, identifier, invalid

MAX_MESSAGES = 100_000  # the service's own limit of one request
NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}\Z")


def check_turns(messages: Any, tools: frozenset[str]) -> None:
    """Check a conversation. `tools` are the names of those on offer. Raises `Refusal`."""
    if not isinstance(messages, list) or not 1 <= len(messages) <= MAX_MESSAGES:
        raise invalid(f"messages: at least one and at most {MAX_MESSAGES} messages are required")
    pending: set[str] = set()
    for at, message in enumerate(messages):
        where = f"messages.{at}"
        if not isinstance(message, dict) or message.keys() != {"role", "content"}:
            raise invalid(f"{where}: needs exactly role and content")
        if message["role"] != ("user", "assistant")[at % 2]:
            raise invalid(
                f'{where}.role: roles must alternate between "user" and "assistant", beginning with "user"'
            )
        blocks = blocks_of(message["content"])
        if not isinstance(blocks, list) or not blocks:
            raise invalid(f"{where}.content: at least one content block is required")
        asked = _check_blocks(blocks, message["role"], where, tools)
        _check_pairing(blocks, pending, where)
        pending = asked
    if messages[-1]["role"] == "assistant":
        raise invalid(
            "This model does not support assistant message prefill. The last message must be of the user."
        )


def _check_blocks(blocks: Any, role: str, where: str, tools: frozenset[str]) -> set[str]:
    """Check the blocks of one turn; gives the ids of the tools it asks for."""
    asked: set[str] = set()
    for at, block in enumerate(blocks):
        here = f"{where}.content.{at}"
        if not isinstance(block, dict):
            raise invalid(f"{here}: Input should be a valid dictionary")
        kind = block.get("type")
        if kind == "text":
            check_text(block, here)
        elif kind == "tool_use" and role == "assistant":
            _need_tools(tools)
            id = block.get("id")
            if not isinstance(id, str) or not NAME.match(id) or id in asked:
                raise invalid(f"{here}.id: `tool_use` ids must be unique and match '^[a-zA-Z0-9_-]+$'")
            if not isinstance(block.get("name"), str) or not isinstance(block.get("input"), dict):
                raise invalid(f"{here}: `tool_use` needs a name and an input that is a dictionary")
            asked.add(id)
        elif kind == "tool_result" and role == "user":
            _need_tools(tools)
            parts = blocks_of(block.get("content", []))
            if not isinstance(parts, list) or not all(_is_text(part) for part in parts):
                raise invalid(f"{here}.content: the simulator takes text only")
        elif kind == "thinking" and role == "assistant":
            if block.get("signature") != signature(str(block.get("thinking"))):
                raise invalid(f"{here}: Invalid `signature` in `thinking` block")
            if "cache_control" in block:
                raise invalid(f"{here}.cache_control: Extra inputs are not permitted")
        else:
            raise invalid(f"{here}.type: '{kind}' is not allowed in a turn of the {role}")
    return asked


def _check_pairing(blocks: list[Json], pending: set[str], where: str) -> None:
    """Check that a turn answers exactly the tools asked for just before it, first of all and each once."""
    results = [block.get("tool_use_id") for block in blocks if block["type"] == "tool_result"]
    if any(block["type"] != "tool_result" for block in blocks[: len(results)]):
        raise invalid(f"{where}: `tool_result` blocks must come before any other content")
    for id in results:
        if id not in pending:
            raise invalid(
                f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block "
                "must have a corresponding `tool_use` block in the previous message."
            )
        if results.count(id) > 1:
            raise invalid(f"{where}: each tool_use must have a single result. Found multiple for {id}")
    if missing := sorted(pending.difference(results)):
        raise invalid(
            f"{where}: `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(missing)}"
        )


def _need_tools(tools: frozenset[str]) -> None:
    if not tools:
        raise invalid(
            "Requests which have `tool_use` or `tool_result` blocks in the prompt must have tools defined"
        )


def _is_text(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)


def check_text(block: Json, where: str) -> None:
    """Check a block of text. Raises `Refusal`."""
    text = block.get("text")
    if not isinstance(text, str):
        raise invalid(f"{where}.text: Field required")
    if not text:
        raise invalid(f"{where}: text content blocks must be non-empty")
    if block.get("cache_control") and not text.strip():
        raise invalid(f"{where}: cache_control cannot be set for empty text blocks")


def signature(thinking: str) -> str:
    """Sign a thinking block; a block that comes back changed no longer fits its signature."""
    return identifier("sig", thinking)


def blocks_of(content: Any) -> Any:
    """Give content as a list of blocks; a string is one block of text. What is neither comes back as it is."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
