"""Lessons that were just added: in the file, and not yet in the index, which takes several in at once.

    fresh = FreshLessons()
    fresh.put(lesson)             # as it is now; found from here on
    fresh.drop(lesson)            # when the index has it, unless more has been put about it since

`texts` must be read before the index is: what has left it is in the index then.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import msgspec

from engine.store.lessons.matching import Matches, best_of
from engine.store.lessons.ranking import Hit, SearchText, TextMatch, search_text, worth
from engine.store.lessons.record import Lesson
from engine.store.lessons.words import Term


class FreshLessons:
    """The lessons by id; for any number of threads. They are few: the index lags some milliseconds behind."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.texts: Mapping[str, SearchText] = {}
        """As they are at this moment, the newest first; never changed, but replaced."""

    def get(self, id_: str) -> Lesson | None:
        """The lesson with this id, if it is one of them."""
        text = self.texts.get(id_)
        return text.lesson if text is not None else None

    def put(self, lesson: Lesson) -> None:
        """Hold this one, instead of an older state of it."""
        text = search_text(lesson)
        with self._lock:
            self.texts = {lesson.id: text, **self._without(lesson.id)}

    def drop(self, lesson: Lesson) -> None:
        """Let it go, if it is still this very state of it."""
        with self._lock:
            if self.get(lesson.id) is lesson:
                self.texts = self._without(lesson.id)

    def _without(self, id_: str) -> dict[str, SearchText]:
        return {other: text for other, text in self.texts.items() if other != id_}


def with_fresh(
    found: Matches,
    fresh: Mapping[str, SearchText],
    asked: Sequence[Term],
    limit: int,
    now: float,
    *,
    inside: bool,
) -> Matches:
    """What the index has found by words, or inside words, and the fresh lessons instead of its older states of them."""
    if not fresh:
        return found
    kept = [hit for hit in found.hits if hit.lesson.id not in fresh]
    match = TextMatch.of(asked, inside=inside)
    at_start = TextMatch.of(asked, inside=False)
    new = []
    for text in fresh.values():
        score = match.score(text)
        if score is not None and not (inside and at_start.score(text) is not None):
            new.append(
                Hit(text.lesson, score + worth(text.lesson.times_seen, text.lesson.last_seen, now), match)
            )
    total = found.total - len(found.hits) + len(kept) + len(new)
    return msgspec.structs.replace(found, hits=best_of(new + kept, limit), total=total)
