"""What agent commands print, line by line: JSON lines of the tools we know, or plain words.

What a tool reports of its use (claude's `result` line, codex' `turn.completed`, opencode's `step_finish`, aider's
`Tokens:`) is read where it is there. Nothing a tool prints is an error here: another tool prints something else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import msgspec

from engine.model import Usage
from engine.roles.verifier import readable

_AIDER_TOKENS = re.compile(
    r"Tokens: ([\d.]+k?) sent(?:, ([\d.]+k?) cache write)?(?:, ([\d.]+k?) cache hit)?, ([\d.]+k?) received\."
)
_AIDER_COST = re.compile(r"Cost: \$[\d.]+ message, \$(\d+\.\d+) session\.")


class AgentReader:
    """Feed it each `line`. `text` is the agent's last word, `complaint` its own error, `usd` None where it tells none.

    `progress` is called with what the agent says and does, a line at a time.
    """

    def __init__(self, progress: Callable[[str], None]) -> None:
        self._progress = progress
        self.text = ""
        self.usage = Usage()
        self.usd: float | None = None
        self.complaint = ""

    def line(self, line: str) -> None:
        """Take one line of the output; one of no known form says nothing."""
        text = readable(line).strip()
        if not text:
            return
        event: Any = None
        if text.startswith("{"):
            try:
                event = msgspec.json.decode(text)
            except msgspec.DecodeError:
                event = None
        if not isinstance(event, dict):
            self._plain(text)
            return
        match event:
            case {"type": "result"}:  # claude
                self.text = str(event.get("result") or self.text)
                self.usage = self.usage + _usage(event.get("usage"))
                self.usd = _dollars(event.get("total_cost_usd"), self.usd)
                if event.get("is_error"):
                    self.complaint = f"the agent reports an error: {self.text[:200]}"
            case {"type": "assistant", "message": {"content": [*blocks]}}:  # claude
                for block in blocks:
                    self._block(block)
            case {"type": "turn.completed"}:  # codex
                self.usage = self.usage + _usage(event.get("usage"))
            case {"type": "turn.failed", "error": {"message": str(words)}}:  # codex
                self.complaint = f"the agent reports an error: {words[:200]}"
            case {"type": "item.completed", "item": {"type": "agent_message", "text": str(said)}}:  # codex
                self.text = said
                self._progress(said[:200])
            case {"type": "item.started" | "item.completed", "item": {"command": str(command)}}:  # codex
                self._progress(f"$ {command}"[:200])
            case {"type": "text", "part": {"text": str(said)}}:  # opencode
                self.text = said
                self._progress(said[:200])
            case {
                "type": "tool_use",
                "part": {"tool": str(name), "state": {"input": dict(given)}},
            }:  # opencode
                self._tool(name, given)
            case {"type": "step_finish", "part": {"tokens": dict(tokens), **part}}:  # opencode
                self.usage = self.usage + _opencode_usage(tokens)
                self.usd = (self.usd or 0.0) + (_dollars(part.get("cost"), None) or 0.0)
            case {"type": "error", "error": error}:  # opencode
                self.complaint = f"the agent reports an error: {_words(error)[:200]}"
            case _:
                pass

    def _plain(self, text: str) -> None:
        self._progress(text[:200])
        if tokens := _AIDER_TOKENS.match(text):  # after every message, in round numbers
            sent, write, hit, received = map(_rounded, tokens.groups("0"))
            self.usage = self.usage + Usage(
                input=max(0, sent - write - hit), output=received, cache_read=hit, cache_write_5m=write
            )
        if cost := _AIDER_COST.search(text):  # of all messages so far
            self.usd = float(cost[1])

    def _block(self, block: Any) -> None:
        match block:
            case {"type": "text", "text": str(said)} if said.strip():
                self.text = said
                self._progress(said.strip()[:200])
            case {"type": "tool_use", "name": str(name), "input": dict(given)}:
                self._tool(name, given)
            case _:
                pass

    def _tool(self, name: str, given: dict[Any, Any]) -> None:
        detail = next((str(value) for value in given.values()), "")
        self._progress(f"{name} {detail}"[:200])


def _usage(reported: Any) -> Usage:
    if not isinstance(reported, dict):
        return Usage()

    def count(*names: str) -> int:
        return next((int(reported[name]) for name in names if isinstance(reported.get(name), int)), 0)

    cached = count("cached_input_tokens")
    return Usage(
        # codex counts cached tokens among the input, claude beside it.
        input=max(0, count("input_tokens") - cached),
        output=count("output_tokens"),
        cache_read=count("cache_read_input_tokens") + cached,
        cache_write_5m=count("cache_creation_input_tokens"),
    )


def _opencode_usage(tokens: dict[Any, Any]) -> Usage:
    def count(value: Any) -> int:
        return value if isinstance(value, int) else 0

    cache = tokens.get("cache")
    held = cache if isinstance(cache, dict) else {}
    return Usage(
        input=count(tokens.get("input")),
        output=count(tokens.get("output")) + count(tokens.get("reasoning")),
        cache_read=count(held.get("read")),
        cache_write_5m=count(held.get("write")),
    )


def _rounded(count: str) -> int:
    """Read a count as people write it: 813, 4.2k, 17k."""
    return round(float(count.removesuffix("k")) * (1_000 if count.endswith("k") else 1))


def _dollars(cost: Any, otherwise: float | None) -> float | None:
    return float(cost) if isinstance(cost, int | float) and math.isfinite(cost) else otherwise


def _words(error: Any) -> str:
    """The words of an error, wherever they stand in it."""
    match error:
        case {"data": {"message": str(words)}} | {"message": str(words)} | {"name": str(words)}:
            return words
        case _:
            return str(error)
