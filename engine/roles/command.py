"""A role as an agent command: any CLI that reads a prompt from stdin and works in the current folder.

Its exit status alone never decides: the change it made and our own verification do. What a tool reports of its use
(claude's `result` line, codex' `turn.completed`, opencode's `step_finish`, aider's `Tokens:`) is read where it is
there.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from engine.errors import HaltedError, ProcessError, StageFailedError
from engine.model import Usage
from engine.process import run_process
from engine.roles.verifier import readable

T = TypeVar("T")

MAX_SUMMARY = 1_000

_AIDER_TOKENS = re.compile(
    r"Tokens: ([\d.]+k?) sent(?:, ([\d.]+k?) cache write)?(?:, ([\d.]+k?) cache hit)?, ([\d.]+k?) received\."
)
_AIDER_COST = re.compile(r"Cost: \$[\d.]+ message, \$(\d+\.\d+) session\.")


class AgentReport(msgspec.Struct, frozen=True):
    """What an agent command said. `usd` is None where it reports no cost; `complaint` is its own error, if any."""

    text: str
    usage: Usage = Usage()
    usd: float | None = None
    complaint: str = ""

    @property
    def summary(self) -> str:
        """Its last paragraph, which is where an agent says what it did."""
        paragraphs = [part.strip() for part in re.split(r"\n\s*\n", self.text) if part.strip()]
        return paragraphs[-1][-MAX_SUMMARY:].strip() if paragraphs else ""


async def run_agent(
    argv: Sequence[str],
    prompt: str,
    *,
    cwd: Path,
    env: Mapping[str, str],
    log: Path,
    timeout: float,
    idle_timeout: float | None,
    progress: Callable[[str], None],
) -> AgentReport:
    """Run the command in `cwd`, the prompt on its stdin, its output in `log`.

    Raises HaltedError when it cannot start, StageFailedError when it overruns a limit (seconds).
    """
    reader = _Reader(progress)
    try:
        result = await run_process(
            argv,
            cwd=cwd,
            env=env,
            log=log,
            stdin=prompt.encode("utf-8", "replace"),
            timeout=timeout,
            idle_timeout=idle_timeout,
            on_line=reader.line,
        )
    except ProcessError as error:
        raise HaltedError(error.message, error.hint) from error
    if result.overran:
        limit, what = (timeout, "ran") if result.overran == "timeout" else (idle_timeout or 0.0, "was silent")
        raise StageFailedError(
            f"{argv[0]} {what} for more than {limit:.0f} s and was ended",
            failure_type="timeout",
            feedback=f"The last attempt {what} for more than {limit:.0f} s and was ended. Work in smaller steps.",
        )
    complaint = reader.complaint
    if result.status != 0 and not complaint:
        last = readable(result.tail).strip().splitlines()[-1:] or ["no output"]
        complaint = f"{argv[0]} ended with status {result.status}: {last[0][:200]}"
    text = reader.text or readable(result.tail).strip()
    return AgentReport(text, reader.usage, reader.usd, complaint)


class _Reader:
    """Read an agent's output line by line: JSON lines of the known tools, or plain text."""

    def __init__(self, progress: Callable[[str], None]) -> None:
        self._progress = progress
        self.text = ""
        self.usage = Usage()
        self.usd: float | None = None
        self.complaint = ""

    def line(self, line: str) -> None:
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


def read_json(text: str, kind: type[T], who: str) -> T:
    """Read the last JSON object in an agent's words as `kind`. Raises StageFailedError when there is none that fits."""
    for candidate in reversed(_objects(text)):
        try:
            answer = msgspec.json.decode(candidate, type=kind)
        except (msgspec.DecodeError, ValueError):
            continue
        # A type whose fields all have defaults fits any object; one without a field of it is not the answer.
        if set(json.loads(candidate)) & set(getattr(kind, "__struct_fields__", ())):
            return answer
    raise StageFailedError(
        f"the {who} command did not answer with the JSON asked for",
        failure_type="bad_answer",
        feedback=text[-2000:],
    )


def _objects(text: str) -> list[str]:
    """All JSON objects in the text that are in no other, in order."""
    decoder = json.JSONDecoder()
    found = []
    at = text.find("{")
    while at >= 0:
        try:
            _, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            found.append(text[at:end])
        at = text.find("{", end)
    return found
