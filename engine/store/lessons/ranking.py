"""How well a lesson answers: what is typed, or what a task is about. Higher is better; the parts are added."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from engine.store.lessons.record import Lesson
from engine.store.lessons.words import Term, at_word_start, word_set

FIELD_WEIGHTS = {
    "failure_msg": 1.0,
    "pattern": 0.9,
    "failure_type": 0.8,
    "resolution": 0.7,
    "task_type": 0.5,
    "activity_type": 0.5,
}
"""What a word is worth in each field; in a value of the metadata, 0.4."""

_METADATA_WEIGHT = 0.4
_MONTH = 30 * 86_400.0


class Span(msgspec.Struct, frozen=True):
    """A part of a field that matched: `field` is its name (`metadata.files` for one of the metadata)."""

    field: str
    start: int
    end: int


class Hit(msgspec.Struct, frozen=True):
    """A lesson that was found, with the parts to mark, sorted by field and place."""

    lesson: Lesson
    score: float
    spans: tuple[Span, ...] = ()


def worth(times_seen: int, last_seen: float, now: float) -> float:
    """How much a lesson matters whatever was asked: often seen, lately seen. Between 0 and about 2."""
    age = max(now - last_seen, 0.0)
    return 0.12 * math.log2(1 + min(times_seen, 1024)) + 0.5 * 2 ** (-age / _MONTH)


def text_score(lesson: Lesson, terms: Sequence[Term], *, inside: bool) -> float | None:
    """How well the words of a search stand in the lesson, or None when one is missing.

    `inside`: a word may also stand inside another.
    """
    message = lesson.failure_msg.lower()
    others: list[tuple[float, str]] | None = None
    total = 0.0
    for term in terms:
        best = _fit(message, term, inside=inside)
        if best < 1.0:
            if others is None:
                others = [(weight, text.lower()) for _, weight, text in _fields(lesson)[1:]]
            for weight, text in others:
                if weight <= best:
                    break  # they are in the order of their weights
                best = max(best, weight * _fit(text, term, inside=inside))
            if not best:
                return None
        total += best
    if len(terms) > 1 and " ".join([term.lowered for term in terms]) in message:
        total += 1.0
    return 2 * total / max(len(terms), 1) + (0.15 if lesson.resolution else 0.0)


def spans(lesson: Lesson, terms: Sequence[Term], *, inside: bool) -> tuple[Span, ...]:
    """The parts of the lesson to mark, none of them overlapping."""
    found = []
    for field, _, text in _fields(lesson):
        lowered = text.lower()
        if len(lowered) != len(text):  # a few capitals have longer small letters: İ
            lowered = text
        places = [place for term in terms for place in _places(lowered, term, inside=inside)]
        if not places:
            continue
        places.sort(key=lambda place: (place[0], -place[1]))
        end = 0
        for start, stop in places:
            if stop > end:
                found.append(Span(field, max(start, end), stop))
                end = stop
    return tuple(found)


def _places(text: str, term: Term, *, inside: bool) -> Iterator[tuple[int, int]]:
    at = text.find(term.lowered)
    while at >= 0:
        if inside or not term.bounded or at_word_start(text, at):
            yield at, at + len(term.lowered)
        at = text.find(term.lowered, at + 1)


def likeness(words: Mapping[str, float], text: str) -> float:
    """Which share of the weighted words stands in the text: 0 to 1."""
    total = sum(words.values())
    if not total:
        return 0.0
    theirs = word_set(text)
    return sum(weight for word, weight in words.items() if word in theirs) / total


def task_score(
    lesson: Lesson, *, task_type: str, files: frozenset[str], words: Mapping[str, float], now: float
) -> float:
    """How much the lesson may help with a task; 0 when nothing but its age and count speaks for it."""
    about = 2.0 * (lesson.task_type == task_type != "")
    theirs = lesson.files
    if files.intersection(theirs):
        about += 3.0
    elif {_folder(path) for path in files} & {_folder(path) for path in theirs} - {""}:
        about += 1.0
    about += 3.0 * likeness(
        words, f"{lesson.failure_msg} {lesson.pattern} {lesson.metadata.get('scope', '')}"
    )
    if not about:
        return 0.0
    return about + (0.5 if lesson.resolution else 0.0) + worth(lesson.times_seen, lesson.last_seen, now)


def _fields(lesson: Lesson) -> list[tuple[str, float, str]]:
    """Name, weight and text of all fields that are searched, the message first, in the order of their weights."""
    fields = [(name, weight, getattr(lesson, name)) for name, weight in FIELD_WEIGHTS.items()]
    return fields + [(f"metadata.{key}", _METADATA_WEIGHT, value) for key, value in lesson.metadata.items()]


def _fit(text: str, term: Term, *, inside: bool) -> float:
    """1 for a whole word, 0.8 for the start of one, 0.4 inside one, 0 when it is not there."""
    needle = term.lowered
    at = text.find(needle)
    best = 0.0
    while at >= 0:
        if not term.bounded or at_word_start(text, at):
            end = at + len(needle)
            if end == len(text) or not text[end].isalnum():
                return 1.0
            best = 0.8
        elif inside and not best:
            best = 0.4
        at = text.find(needle, at + 1)
    return best


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
