"""How well a lesson answers: what is typed, or what a task is about. Higher is better; the parts are added."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from engine.store.lessons.record import Lesson
from engine.store.lessons.words import Term, at_word_start, word_set

_MONTH = 30 * 86_400.0  # seconds
_OFTEN = tuple(0.12 * math.log2(1 + times) for times in range(1025))


class Span(msgspec.Struct, frozen=True, gc=False):
    """A part of a field that matched: `field` is its name (`metadata.files` for one of the metadata)."""

    field: str
    start: int
    end: int


class Hit(msgspec.Struct, frozen=True, gc=False):
    """A lesson that was found, with the parts to mark, sorted by field and place."""

    lesson: Lesson
    score: float
    spans: tuple[Span, ...] = ()


def worth(times_seen: int, last_seen: float, now: float) -> float:
    """How much a lesson matters whatever was asked: often seen, lately seen. Between 0 and about 2."""
    often = _OFTEN[times_seen] if times_seen < len(_OFTEN) else _OFTEN[-1]
    return often + (0.5 * 2.0 ** ((last_seen - now) / _MONTH) if last_seen < now else 0.5)


class TextMatch:
    """The words of a search, held against lessons. `inside`: a word may also stand inside another."""

    def __init__(self, terms: Sequence[Term], *, inside: bool) -> None:
        self._terms = terms
        self._inside = inside
        self._phrase = " ".join(term.lowered for term in terms) if len(terms) > 1 else ""

    def score(self, lesson: Lesson) -> float | None:
        """How well the words stand in the lesson, or None when one is missing.

        A word is worth most in the message, less in the pattern, and so on: see `_others`.
        """
        message = lesson.failure_msg.lower()
        rest = ""
        others = None
        total = 0.0
        inside = self._inside
        for term in self._terms:
            best = _fit(message, term, inside)
            if best < 1.0:
                # Most words stand in the message alone, or nowhere: one look at all the rest tells.
                rest = rest or "\n".join(_texts(lesson)[1:]).lower()
                needle = term.lowered
                if needle not in rest:
                    if not best:
                        return None
                    total += best
                    continue
                others = others or _others(lesson)
                for weight, text in others:
                    if weight <= best:
                        break
                    if needle in text:
                        best = max(best, weight * _fit(text, term, inside))
                if not best:
                    return None
            total += best
        if self._phrase and self._phrase in message:
            total += 1.0
        return 2 * total / max(len(self._terms), 1) + (0.15 if lesson.resolution else 0.0)

    def spans(self, lesson: Lesson) -> tuple[Span, ...]:
        """The parts of the lesson to mark, none of them overlapping, by field and place."""
        texts = _texts(lesson)
        # No word has a newline in it, so that none is found across two fields.
        joined = "\n".join(texts)
        lowered = joined.lower()
        if len(lowered) != len(joined):  # a few capitals have longer small letters: İ
            lowered = "".join([small if len(small := c.lower()) == 1 else c for c in joined])
        places = []
        for term in self._terms:
            needle = term.lowered
            anywhere = self._inside or not term.bounded
            at = lowered.find(needle)
            while at >= 0:
                if anywhere or not at or not lowered[at - 1].isalnum() or at_word_start(lowered, at):
                    places.append((at, -len(needle)))
                at = lowered.find(needle, at + 1)
        places.sort()
        found = []
        end = offset = field = 0
        for start, length in places:
            stop = start - length
            if stop <= end:
                continue
            while start > offset + len(texts[field]):
                offset += len(texts[field]) + 1
                field += 1
            found.append(Span(_name(lesson, field), max(start, end) - offset, stop - offset))
            end = stop
        return tuple(found)


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


_NAMES = ("failure_msg", "pattern", "failure_type", "resolution", "task_type", "activity_type")


def _texts(lesson: Lesson) -> list[str]:
    """The texts of all fields that are searched, in the order of their weights."""
    return [
        lesson.failure_msg,
        lesson.pattern,
        lesson.failure_type,
        lesson.resolution,
        lesson.task_type,
        lesson.activity_type,
        *lesson.metadata.values(),
    ]


def _name(lesson: Lesson, field: int) -> str:
    """The name of a field by its place among `_texts`."""
    return _NAMES[field] if field < len(_NAMES) else f"metadata.{[*lesson.metadata][field - len(_NAMES)]}"


def _others(lesson: Lesson) -> tuple[tuple[float, str], ...]:
    """All texts but the message in lower case, each with its weight, in the order of the weights."""
    return (
        (0.9, lesson.pattern.lower()),
        (0.8, lesson.failure_type.lower()),
        (0.7, lesson.resolution.lower()),
        (0.5, lesson.task_type.lower()),
        (0.5, lesson.activity_type.lower()),
        (0.4, "\n".join(lesson.metadata.values()).lower()),
    )


def _fit(text: str, term: Term, inside: bool) -> float:
    """1 for a whole word, 0.8 for the start of one, 0.4 inside one if `inside`, 0 when it is not there."""
    needle, free = term.lowered, not term.bounded
    best = 0.0
    at = text.find(needle)
    while at >= 0:
        if free or not at or not text[at - 1].isalnum() or at_word_start(text, at):
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
