"""How well a lesson answers: what is typed, or what a task is about. Higher is better; the parts are added."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

import msgspec

from engine.store.lessons.record import Lesson
from engine.store.lessons.words import Term, at_word_start, word_set

_MONTH = 30 * 86_400.0  # seconds
_MOST = 1024  # sightings beyond which no more of them count
_OFTEN = tuple(0.12 * math.log2(1 + times) for times in range(_MOST + 1))

UNTYPED = ("", "task")
"""The types of tasks that nobody gave one."""

SOME, STRONG = 0.2, 0.5
"""Shares of a task's telling words that a lesson of its type, and one of any type, must have."""


class Span(msgspec.Struct, frozen=True, gc=False):
    """A part of a field that matched: `field` is its name (`metadata.files` for one of the metadata)."""

    field: str
    start: int
    end: int


class Hit(msgspec.Struct, frozen=True, gc=False):
    """A lesson that was found. `match`: what it was found by, None where nobody typed a word."""

    lesson: Lesson
    score: float
    match: TextMatch | None = None

    @property
    def spans(self) -> tuple[Span, ...]:
        """The parts to mark, sorted by field and place. Worked out anew each time: most hits are never looked at."""
        return self.match.spans(self.lesson) if self.match is not None else ()


def worth(times_seen: int, last_seen: float, now: float) -> float:
    """How much a lesson matters whatever was asked: often seen, lately seen. Between 0 and about 2."""
    return worths([(0, times_seen, last_seen)], now)[0]


def worths(rows: Iterable[tuple[int, int, float]], now: float) -> dict[int, float]:
    """The worth of many lessons by their keys. `rows`: key, times seen, last seen."""
    return {
        key: _OFTEN[times if times < _MOST else _MOST]
        + (0.5 * 2.0 ** ((last - now) / _MONTH) if last < now else 0.5)
        for key, times, last in rows
    }


class SearchText(msgspec.Struct, frozen=True, gc=False):
    """A lesson as a search reads it."""

    lesson: Lesson
    lowered: str
    """All its texts in small letters, one below the other. No typed word has a newline, so none crosses two texts."""
    ends: list[int]
    """Where the text after each text begins."""
    letter_by_letter: bool
    """Whether each letter stands where it stands in its field; a few capitals have longer small letters: İ."""


def search_text(lesson: Lesson) -> SearchText:
    """Lay a lesson out for searching."""
    texts = _texts(lesson)
    lowered = "\n".join(texts).lower()
    ends = list(accumulate([len(text) + 1 for text in texts]))
    if ends[-1] == len(lowered) + 1:
        return SearchText(lesson, lowered, ends, letter_by_letter=True)
    ends = list(accumulate([len(text.lower()) + 1 for text in texts]))
    return SearchText(lesson, lowered, ends, letter_by_letter=False)


class TextMatch(msgspec.Struct, frozen=True):
    """The words of a search, held against lessons; made by `of`.

    `words`: each in small letters, and whether it may stand anywhere. `inside`: what a word is worth inside another.
    """

    words: tuple[tuple[str, bool], ...]
    phrase: str
    inside: float

    @classmethod
    def of(cls, terms: Sequence[Term], *, inside: bool) -> TextMatch:
        """Look for the terms. `inside`: a word may also stand inside another."""
        words = tuple((term.lowered, not term.bounded) for term in terms)
        phrase = " ".join(word for word, _ in words) if len(words) > 1 else ""
        return cls(words, phrase, 0.4 if inside else 0.0)

    def score(self, text: SearchText) -> float | None:
        """How well the words stand in the lesson, or None when one is missing.

        A word is worth most in the message, less in the pattern, and so on (see `_WEIGHTS`): all of that where it is
        a whole word, 0.8 of it where it starts one, 0.4 inside one.
        """
        lowered, ends = text.lowered, text.ends
        length, message = len(lowered), ends[0]
        find, inside = lowered.find, self.inside
        total = 0.0
        for needle, free in self.words:
            best = 0.0
            at = find(needle)
            while at >= 0:
                # As in `_fit`, which would take as long to call as the rest of the loop.
                if free or not at or not lowered[at - 1].isalnum() or at_word_start(lowered, at):
                    end = at + len(needle)
                    fit = 1.0 if end == length or not lowered[end].isalnum() else 0.8
                else:
                    fit = inside
                if fit > best:
                    if at > message:
                        fit *= _WEIGHTS[min(bisect_right(ends, at), len(_NAMES))]
                    if fit > best:
                        best = fit
                        if fit == 1.0:
                            break
                at = find(needle, at + 1)
            if not best:
                return None
            total += best
        if self.phrase and find(self.phrase, 0, message) >= 0:
            total += 1.0
        resolved = 0.15 if text.lesson.resolution else 0.0
        return 2 * total / max(len(self.words), 1) + resolved

    def spans(self, lesson: Lesson) -> tuple[Span, ...]:
        """The parts of the lesson to mark, none of them overlapping, by field and place."""
        text = search_text(lesson)
        spans = []
        stop = 0
        for start, end in sorted(self._places(text.lowered), key=lambda place: (place[0], -place[1])):
            if end <= stop:
                continue
            begin, stop = max(start, stop), end
            field = bisect_right(text.ends, begin)
            offset = text.ends[field - 1] if field else 0
            spans.append(_span(text, field, begin - offset, stop - offset))
        return tuple(spans)

    def _places(self, lowered: str) -> Iterator[tuple[int, int]]:
        for needle, free in self.words:
            at = lowered.find(needle)
            while at >= 0:
                if self._fit(lowered, at, at + len(needle), free):
                    yield at, at + len(needle)
                at = lowered.find(needle, at + 1)

    def _fit(self, lowered: str, at: int, end: int, free: bool) -> float:
        """How well a word stands at a place: 0 where it does not count. `free`: it may stand anywhere."""
        if free or not at or not lowered[at - 1].isalnum() or at_word_start(lowered, at):
            return 1.0 if end == len(lowered) or not lowered[end].isalnum() else 0.8
        return self.inside


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
    """How much the lesson may help with a task; 0 where too little ties the two together.

    A shared file does. A shared type, which says something unless it is the one of all tasks that nobody gave another,
    needs a folder or some words as well; words alone must be half of those that tell the task.
    """
    same_type = lesson.task_type == task_type and task_type not in UNTYPED
    theirs = lesson.files
    same_file = bool(files.intersection(theirs))
    same_folder = bool({_folder(path) for path in files} & {_folder(path) for path in theirs} - {""})
    text = f"{lesson.failure_msg} {lesson.pattern} {lesson.metadata.get('scope', '')}"
    alike = likeness(words, text)
    # One word in common is chance where nothing else is.
    strong = alike >= STRONG and len(word_set(text).intersection(words)) >= min(2, len(words))
    if not (same_file or strong or (same_type and (same_folder or alike >= SOME))):
        return 0.0
    about = 2.0 * same_type + (3.0 if same_file else 1.0 if same_folder else 0.0) + 3.0 * alike
    return about + (0.5 if lesson.resolution else 0.0) + worth(lesson.times_seen, lesson.last_seen, now)


_NAMES = ("failure_msg", "pattern", "failure_type", "resolution", "task_type", "activity_type")
_WEIGHTS = (1.0, 0.9, 0.8, 0.7, 0.5, 0.5, 0.4)  # the last is for all metadata


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


def _span(text: SearchText, field: int, start: int, end: int) -> Span:
    """The part of a field, by its place among `_texts`, that has these small letters."""
    name = (
        _NAMES[field] if field < len(_NAMES) else f"metadata.{[*text.lesson.metadata][field - len(_NAMES)]}"
    )
    if not text.letter_by_letter:
        origin = [at for at, letter in enumerate(_texts(text.lesson)[field]) for _ in letter.lower()]
        start, end = origin[start], origin[end - 1] + 1
    return Span(name, start, end)


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
