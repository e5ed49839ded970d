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

_KINDS = {bool: "true or false", str: "a text"}


def read_json(text: str, kind: type[T], who: str) -> T:
    """Read the last JSON object in an agent's words as `kind`. Raises StageFailedError when there is none that fits.

    The error says what is wanted and what was wrong; its feedback says so to the agent.
    """
    for candidate in reversed(_objects(text)):
        try:
            answer = msgspec.json.decode(candidate, type=kind)
        except (msgspec.DecodeError, ValueError):
            continue
        # A type whose fields all have defaults fits any object; one without a field of it is not the answer.
        if set(json.loads(candidate)) & set(kind.__struct_fields__):
            return answer
    problem = _problem(text, kind)
    raise StageFailedError(
        f"the {who} command did not answer with the JSON asked for: needs {WANTED[kind]}; {problem}",
        failure_type=BAD_ANSWER,
        feedback=f"Your last answer could not be used: {problem}.\nEnd your answer with one JSON object that has "
        f"{WANTED[kind]}.\n\nThe end of your last answer was:\n{text[-2000:]}",
    )


def _problem(text: str, kind: type[msgspec.Struct]) -> str:
    """What is wrong with the answer: with its last object that has any of the fields, or with its last one."""
    if not text.strip():
        return "it printed nothing"
    found = _objects(text)
    if not found:
        return f"it printed no JSON object, but {_short(text.strip().splitlines()[-1])}"
    names = set(kind.__struct_fields__)
    near = [each for each in found if set(json.loads(each)) & names]
    words = (near or found)[-1]
    given: dict[str, Any] = json.loads(words)
    for each in msgspec.structs.fields(kind):
        if each.name not in given:
            if each.required:
                return f'{_short(words)} has no "{each.name}"'
            continue
        try:
            msgspec.convert(given[each.name], each.type)
        except msgspec.ValidationError:
            value = _short(json.dumps(given[each.name], ensure_ascii=False))
            return f'"{each.name}" is {value}, not {_KINDS.get(each.type, "a list of texts")}'
    return f"{_short(words)} {'cannot be read as JSON' if near else 'has none of them'}"


def _short(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= MAX_SHOWN else f"{line[: MAX_SHOWN - 1]}…"


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
