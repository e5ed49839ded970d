"""What agent commands print, line by line: JSON lines of the tools we know, or plain words.

What a tool reports of its use (claude's `result` line, codex' `turn.completed`, opencode's `step_finish`, aider's
`Tokens:`) is read where it is there. Nothing a tool prints is an error here: another tool prints something else.
"""

from __future__ import annotations

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

MOST_TOKENS = 10**12
MOST_USD = 1e6
"""What a turn can have used. A report beyond it, or below nothing, is a mistake of the tool and counts as none: it must
not give a budget money back, and the journal keeps no number that it could not read again."""


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
            except (msgspec.DecodeError, RecursionError):
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
                self.usd = _dollars((self.usd or 0.0) + (_dollars(part.get("cost"), None) or 0.0), self.usd)
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
            self.usd = _dollars(float(cost[1]), self.usd)

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
        return next((_count(reported[name]) for name in names if name in reported), 0)

    cached = count("cached_input_tokens")
    return Usage(
        # codex counts cached tokens among the input, claude beside it.
        input=max(0, count("input_tokens") - cached),
        output=count("output_tokens"),
        cache_read=count("cache_read_input_tokens") + cached,
        cache_write_5m=count("cache_creation_input_tokens"),
    )


def _opencode_usage(tokens: dict[Any, Any]) -> Usage:
    cache = tokens.get("cache")
    held = cache if isinstance(cache, dict) else {}
    return Usage(
        input=_count(tokens.get("input")),
        output=_count(tokens.get("output")) + _count(tokens.get("reasoning")),
        cache_read=_count(held.get("read")),
        cache_write_5m=_count(held.get("write")),
    )


def _count(tokens: Any) -> int:
    """The count as reported, and none where it cannot be one."""
    return tokens if type(tokens) is int and 0 <= tokens <= MOST_TOKENS else 0


def _rounded(count: str) -> int:
    """Read a count as people write it: 813, 4.2k, 17k."""
    try:
        return _count(round(float(count.removesuffix("k")) * (1_000 if count.endswith("k") else 1)))
    except (ValueError, OverflowError):  # "1.2.3", or more digits than a number can have
        return 0


def _dollars(cost: Any, otherwise: float | None) -> float | None:
    return float(cost) if type(cost) in (int, float) and 0 <= cost <= MOST_USD else otherwise


def _words(error: Any) -> str:
    """The words of an error, wherever they stand in it."""
    match error:
        case {"data": {"message": str(words)}} | {"message": str(words)} | {"name": str(words)}:
            return words
        case _:
            return str(error)
