"""The JSON that a Planner's or a Judge's command answers with: found in its words, or what is wrong with them."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

from engine.errors import StageFailedError
from engine.model import Plan, Verdict

T = TypeVar("T", bound=msgspec.Struct)

WANTED: dict[type[msgspec.Struct], str] = {
    Plan: '"steps" and "files": a list of texts each, and "type": one word',
    Verdict: '"approved": true or false, and "reason": a text',
}
"""What an answer has to hold, in words."""

BAD_ANSWER = "bad_answer"
"""The failure type of an answer that cannot be read: it tells of the command, and nothing of the work."""

MAX_SHOWN = 80  # characters of a wrong answer in an error

MAX_READ = 64_000
"""Characters of an answer that are read, its last: looking for objects in words that only seem to hold some takes the
square of their length."""

_KINDS = {bool: "true or false", str: "a text"}


def read_json(text: str, kind: type[T], who: str) -> T:
    """Read the last JSON object in an agent's words as `kind`. Raises StageFailedError when there is none that fits.

    The error says what is wanted and what was wrong; its feedback says so to the agent.
    """
    found = _objects(text[-MAX_READ:])
    for candidate, fields in reversed(found):
        try:
            answer = msgspec.json.decode(candidate, type=kind)
        except (msgspec.DecodeError, ValueError, RecursionError):
            continue
        # A type whose fields all have defaults fits any object; one without a field of it is not the answer.
        if fields.keys() & set(kind.__struct_fields__):
            return answer
    problem = _problem(text, found, kind)
    raise StageFailedError(
        f"the {who} command did not answer with the JSON asked for: needs {WANTED[kind]}; {problem}",
        failure_type=BAD_ANSWER,
        feedback=f"Your last answer could not be used: {problem}.\nEnd your answer with one JSON object that has "
        f"{WANTED[kind]}.\n\nThe end of your last answer was:\n{text[-2000:]}",
    )


def _problem(text: str, found: list[tuple[str, dict[str, Any]]], kind: type[msgspec.Struct]) -> str:
    """What is wrong with the answer: with its last object that has any of the fields, or with its last one."""
    if not text.strip():
        return "it printed nothing"
    if not found:
        return f"it printed no JSON object, but {_short(text.strip().splitlines()[-1])}"
    names = set(kind.__struct_fields__)
    near = [each for each in found if each[1].keys() & names]
    words, given = (near or found)[-1]
    for each in msgspec.structs.fields(kind):
        if each.name not in given:
            if each.required:
                return f'{_short(words)} has no "{each.name}"'
            continue
        try:
            msgspec.convert(given[each.name], each.type)
        except (msgspec.ValidationError, ValueError, RecursionError):
            value = _shown(given[each.name])
            return f'"{each.name}" is {value}, not {_KINDS.get(each.type, "a list of texts")}'
    return f"{_short(words)} {'cannot be read as JSON' if near else 'has none of them'}"


def _shown(value: Any) -> str:
    """The value as JSON, in words that can be written: JSON can spell halves of characters, which nothing else can."""
    try:
        words = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "too deep"
    return _short(words.encode("utf-8", "replace").decode())


def _short(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= MAX_SHOWN else f"{line[: MAX_SHOWN - 1]}…"


def _objects(text: str) -> list[tuple[str, dict[str, Any]]]:
    """All JSON objects in the text that are in no other, in order: as they stand there, and read."""
    decoder = json.JSONDecoder()
    found: list[tuple[str, dict[str, Any]]] = []
    at = text.find("{")
    while at >= 0:
        try:
            read, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            found.append((text[at:end], read))
        at = text.find("{", end)
    return found
