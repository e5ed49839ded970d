"""Lessons that have to do with something that nobody typed: a failure's text, or a task."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

from engine.store.lessons.filters import chosen_names, conditions
from engine.store.lessons.index import read_source
from engine.store.lessons.matching import frequencies
from engine.store.lessons.query import LessonQuery
from engine.store.lessons.ranking import Hit, task_score, worth
from engine.store.lessons.reading import IndexReading
from engine.store.lessons.record import Lesson
from engine.store.lessons.schema import SAMPLED
from engine.store.lessons.words import clean, facet, word_set

# A large store knows that they are everywhere; a small one must be told. So are the words of nearly every task, and
# those of the reports that most lessons are made of.
_PLAIN = frozenset(
    "all and any are but can did does for from had has have into its may must not one only our should so than that the "
    "their them then there these they this too use was were what when which will with you "
    "add change create ended exit fail failed fails file files fix line make out pass passed passes ran run status "
    "test tests time update verification write".split()
)

_JUDGED = ("plan", "judge")
_NOT_THE_WORK = frozenset({"bad_answer", "model_failed", "no_check", "stale_cache"})


def teaches(lesson: Lesson) -> bool:
    """Whether an Implementer can learn from it: a refused verdict is about its work, what else stops a Planner or a
    Judge is not, and neither is a fault of the set-up or of the service."""
    if lesson.activity_type in _JUDGED:
        return lesson.failure_type == "verdict_refused"
    return lesson.failure_type not in _NOT_THE_WORK


LOOKED_AT = 100
"""Lessons that are read and scored for their words."""


def similar(reading: IndexReading, text: str, now: float) -> list[Hit]:
    """The lessons whose words are most like those of the text, most like first; `score` is the likeness, 0 to 1."""
    words = _telling_words(reading, text)
    found = []
    for lesson in reading.lessons(_keys_with(reading, words)[:LOOKED_AT]):
        own = word_set(" ".join((lesson.failure_msg, lesson.pattern, lesson.resolution)))
        shared = sum(weight for word, weight in words.items() if word in own)
        found.append(Hit(lesson, round(shared / sum(words.values()), 4)))
    found = [hit for hit in found if hit.score > 0]
    found.sort(key=lambda hit: (-hit.score, -worth(hit.lesson.times_seen, hit.lesson.last_seen, now)))
    return found


def for_task(
    reading: IndexReading, *, task_type: str, files: Iterable[str], text: str, now: float
) -> list[Hit]:
    """The lessons that may help an Implementer with a task, best first; see `ranking.task_score`."""
    own_files = frozenset(clean(path) for path in files)
    # What two files' names have in common, `txt`, says nothing; whether they are the same is asked below.
    words = _telling_words(reading, _without_file_names(text))
    keys = dict.fromkeys(_keys_with(reading, words)[:LOOKED_AT])
    for path in sorted(own_files)[:20]:
        for kind, count in ((facet("f", path), 40), (facet("d", path.rpartition("/")[0]), 15)):
            keys.update(dict.fromkeys(_newest(reading, f'"{kind}"', count)))
    if task_type:
        keys.update(dict.fromkeys(_of_type(reading, task_type)))
    hits = [
        Hit(lesson, score)
        for lesson in reading.lessons(list(keys))
        if teaches(lesson)
        and (score := task_score(lesson, task_type=task_type, files=own_files, words=words, now=now)) > 0
    ]
    hits.sort(key=lambda hit: -hit.score)
    return hits


def _without_file_names(text: str) -> str:
    return " ".join(word for word in text.split() if "." not in word.strip("`'\"()[].,;:!?"))


def _of_type(reading: IndexReading, task_type: str) -> list[int]:
    """The keys of the most frequent and the newest lessons of a type of task."""
    query = LessonQuery(task_type=task_type)
    chosen = chosen_names(reading, query, prefixes=False)
    if not chosen:
        return []
    condition, values = conditions(chosen, query)
    keys = []
    for index, order in (("lesson_times", "times DESC, last DESC"), ("lesson_t", "last DESC")):
        keys += reading.rows(
            f"SELECT key FROM lesson INDEXED BY {index} WHERE {condition} ORDER BY {order} LIMIT 40", values
        )
    return [key for (key,) in keys]


def _telling_words(reading: IndexReading, text: str) -> dict[str, float]:
    """The dozen rarest words of a text, each with its weight, which is greater the rarer it is."""
    sampled = read_source(reading.connection).lessons / SAMPLED
    told = sorted(word_set(clean(text)) - _PLAIN)[:400]
    counts = frequencies(reading, [f" {word}" for word in told])
    weights = {word: math.log((sampled + 2) / (counts.get(f" {word}", 0) + 1)) for word in told}
    rarest = sorted(weights, key=lambda word: -weights[word])[:12]
    return {word: max(weights[word], 0.1) for word in rarest}


def _keys_with(reading: IndexReading, words: dict[str, float]) -> list[int]:
    """The keys of new lessons with any of the words, those with the most weight first."""
    weight: defaultdict[int, float] = defaultdict(float)
    for word, value in words.items():
        for key in _newest(reading, f'"{word}"', 100):
            weight[key] += value
    return sorted(weight, key=lambda key: (-weight[key], -key))


def _newest(reading: IndexReading, expression: str, limit: int) -> list[int]:
    rows = reading.rows(
        "SELECT rowid FROM word WHERE word MATCH ? ORDER BY rowid DESC LIMIT ?", (expression, limit)
    )
    return [key for (key,) in rows]
