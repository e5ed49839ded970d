"""The exact prompt and answer of one model call, or the prompt of an agent, from the file the engine kept of it."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from engine.llm.blocks import Block, Message, Text, ToolResult, ToolUse
from engine.llm.messages import ModelAnswer, ModelRequest
from engine.regular import read_regular
from tui.format import safe_lines, safe_text
from tui.line import BLANK, Line, hard_wrapped, text

MAX_LINES = 6000  # lines of one call that are shown
_BEFORE_WORDS = re.compile(r" *(?:[-*] |\d+\. )?")


class _Record(msgspec.Struct, frozen=True):
    request: ModelRequest
    answer: ModelAnswer


def record_lines(path: Path, width: int) -> list[Line]:
    """The call as lines: system, each turn, and the answer last. Blocks; a file that is gone is told in words."""
    try:
        record = msgspec.json.decode(read_regular(path), type=_Record)
    except OSError as error:
        return [text(f"the record of this call cannot be read: {error.strerror}", "warn")]
    except msgspec.DecodeError as error:
        return [text(f"the record of this call is of another version: {safe_text(str(error))}", "warn")]
    request = record.request
    lines: list[Line] = []
    if request.tools:
        names = ", ".join(safe_text(tool.name) for tool in request.tools)
        rows = hard_wrapped(text(names, "muted"), width - 7)
        lines += [((" " * 7 if n else "tools  ", "accent strong"), *row) for n, row in enumerate(rows)]
        lines.append(BLANK)
    for block in request.system:
        lines += _block_lines("system", block, width)
    for message in request.messages:
        lines += _message_lines(message, width)
    for each in record.answer.content:
        lines += _block_lines("answer", each, width, tone="text")
    lines.append(text(f"stopped: {safe_text(record.answer.stop_reason)}", "faint"))
    if len(lines) > MAX_LINES:
        return [*lines[:MAX_LINES], text("… the call goes on: o opens all of it", "warn")]
    return lines


def prompt_lines(path: Path, width: int) -> list[Line]:
    """What went to an agent's stdin, as lines. Blocks; a file that is gone is told in words."""
    try:
        prompt = read_regular(path).decode("utf-8", "replace")
    except OSError as error:
        return [text(f"the record of this prompt cannot be read: {error.strerror}", "warn")]
    lines = [text("prompt, on the stdin of the command", "accent strong")]
    for row in safe_lines(prompt):
        lines += _hung(row, "muted", width)
        if len(lines) > MAX_LINES:
            return [*lines[:MAX_LINES], text("… the prompt goes on: o opens all of it", "warn")]
    return [*lines, BLANK, text("what the command answered is in its log", "faint")]


def _message_lines(message: Message, width: int) -> list[Line]:
    return [line for block in message.content for line in _block_lines(message.role, block, width)]


def _block_lines(title: str, block: Block, width: int, tone: str = "muted") -> list[Line]:
    if isinstance(block, Text):
        head, body = title, block.text
        if block.cache:
            head += f"  (cached {block.cache})"
    elif isinstance(block, ToolUse):
        head, body = f"{title} asks for {safe_text(block.name, 60)}", _input_in_words(block.input)
    elif isinstance(block, ToolResult):
        head, body = f"{title} gives the tool's result", block.content
    else:
        return [text(f"{title}: a block that only the service can read", "faint"), BLANK]
    lines = [text(head, "accent strong")]
    for row in safe_lines(body):
        lines += _hung(row, tone, width)
    return [*lines, BLANK]


def _input_in_words(input_: str) -> str:
    """What a tool is given, field by field: a file in a string of JSON is one long line of escapes."""
    try:
        fields = msgspec.json.decode(input_, type=dict[str, object])
    except msgspec.DecodeError:
        return input_
    rows: list[str] = []
    for name, value in fields.items():
        words = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        if "\n" in words:
            rows += [f"{name}:", *(f"  {row}" for row in words.removesuffix("\n").split("\n"))]
        else:
            rows.append(f"{name}: {words}")
    return "\n".join(rows)


def _hung(row: str, tone: str, width: int) -> list[Line]:
    """The row indented, in as many lines as it takes; later ones begin where its words do, behind a bullet."""
    found = _BEFORE_WORDS.match(row)
    hang = len(found[0]) if found is not None and len(found[0]) < width // 2 else 0
    parts = hard_wrapped(text(row[hang:], tone), width - 2 - hang)
    return [(("  " + (" " * hang if n else row[:hang]), tone), *part) for n, part in enumerate(parts)]
