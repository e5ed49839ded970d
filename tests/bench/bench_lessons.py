"""Lessons: a million of them, from the seeded generator, found by fields, by typed words, and inside words."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from engine.store.lessons import Lesson, LessonQuery, LessonStore, parse_query
from engine.store.lessons.file import LessonsFile
from engine.store.lessons.record import encode_line
from tests.bench import Row
from tests.bench.lesson_corpus import (
    ACTIVITY_TYPES,
    FAILURE_TYPES,
    NOUNS,
    PATTERNS,
    START,
    TASK_TYPES,
    VERBS,
    queries,
    write_corpus,
)

COUNT = 1_000_000
NOW = START + 30.0 * COUNT

# Not the highest that the system tells of a process: a child inherits that of the one that started it.
RESIDENT = """
import sys
from pathlib import Path
import psutil
from engine.store.lessons import LessonQuery, LessonStore
highest = 0
with LessonStore(Path(sys.argv[1]), Path(sys.argv[2])) as store:
    for word in "request response token parse_order connection".split():
        store.search(LessonQuery(word))
        highest = max(highest, psutil.Process().memory_info().rss)
    print(highest / 2**20)
"""


def milliseconds(calls: Iterable[Callable[[], object]]) -> list[float]:
    """How long each call took, sorted."""
    found = []
    for call in calls:
        began = time.perf_counter()
        call()
        found.append((time.perf_counter() - began) * 1000)
    return sorted(found)


def row(what: str, limit: float, times: list[float], share: float, plain: float | None = None) -> Row:
    """A line about one percentile of times, beside the plain way of the same run."""
    measured = times[min(int(len(times) * share), len(times) - 1)]
    name = f"{what}, p{share * 100:.0f}"
    return Row(name, f"≤ {limit:g}", measured, "ms", plain / measured if plain else None, measured <= limit)


def looked_up(store: LessonStore) -> dict[str, list[float]]:
    """The times of look-ups by fields."""
    rnd = random.Random(3)
    ands = [
        LessonQuery("", rnd.choice(TASK_TYPES), rnd.choice(ACTIVITY_TYPES), rnd.choice(FAILURE_TYPES))
        for _ in range(300)
    ]
    days = [START + rnd.random() * 29 * COUNT for _ in range(300)]
    by_field = [
        *(LessonQuery(task_type=name) for name in TASK_TYPES),
        *(LessonQuery(activity_type=name) for name in ACTIVITY_TYPES),
        *(LessonQuery(failure_type=name) for name in FAILURE_TYPES),
        *(LessonQuery(pattern=name) for name in PATTERNS),
    ]
    return {
        "by one field": milliseconds(partial(store.search, q) for q in by_field * 3),
        "by three fields": milliseconds(partial(store.search, q) for q in ands),
        "by time": milliseconds(partial(store.in_time_range, day, day + 86_400) for day in days),
        "top ten": milliseconds(store.most_frequent for _ in range(200)),
    }


def typed(store: LessonStore, count: int) -> list[float]:
    """The times of a search at every letter of the queries."""

    def search(line: str) -> None:
        store.search(parse_query(line, clock=lambda: NOW))

    prefixes = [query[:end] for query in queries(count) for end in range(1, len(query) + 1)]
    return milliseconds(partial(search, line) for line in prefixes)


def inside(store: LessonStore) -> list[float]:
    """The times of searches for what stands only inside words, each to its end."""
    parts = [f"{verb[1:]}_{noun[:-1]}" for verb in VERBS[:10] for noun in NOUNS[:20]]
    return milliseconds(partial(store.search, LessonQuery(part), budget=10) for part in parts)


def added(store: LessonStore) -> list[float]:
    """The times from a new lesson to its being found."""

    def add(number: int) -> None:
        word = "".join(chr(97 + number // 26**place % 26) for place in range(5))
        lesson = store.add("fix_bug", "verify", "crash", f"the {word}ness of the ledger was lost")
        assert store.search(LessonQuery(f"{word}ness"), limit=1).lessons == (lesson,)

    return milliseconds(partial(add, n) for n in range(200))


def followed(store: LessonStore) -> list[float]:
    """The times from a line that somebody else appends to its being found by the store that follows the file."""

    async def follow() -> list[float]:
        stop = asyncio.Event()
        following = asyncio.create_task(store.follow(stop))
        found = []
        for number in range(40):
            id_ = f"elsewhere{number}"
            line = encode_line(Lesson(id_, failure_msg=f"somebody else's {number}"))
            await asyncio.to_thread(LessonsFile(store.file).append, line)
            began = time.perf_counter()
            while store.get(id_) is None:
                await asyncio.sleep(0.001)
            found.append((time.perf_counter() - began) * 1000)
        stop.set()
        await following
        return sorted(found[1:])  # the first one may come before the watching has begun

    return asyncio.run(follow())


def scanned(file: Path) -> float:
    """The plain way: milliseconds to look for a word in every line."""
    began = time.perf_counter()
    with file.open("rb") as lines:
        sum(b"zeppelin" in line for line in lines)
    return (time.perf_counter() - began) * 1000


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="lessons-") as folder:
        return [*_million(Path(folder)), *_ten_thousand(Path(folder))]


def _million(folder: Path) -> list[Row]:
    file, index = folder / "million.jsonl", folder / "million.idx.db"
    write_corpus(file, COUNT)
    plain = scanned(file)
    with LessonStore(file, index, clock=lambda: NOW) as store:
        told = []
        began = time.perf_counter()
        store.catch_up(progress=lambda done, total: told.append(done / total))
        built = time.perf_counter() - began
        assert store.stats().total == COUNT
    opened = []
    for _ in range(5):
        began = time.perf_counter()
        store = LessonStore(file, index, clock=lambda: NOW)
        opened.append((time.perf_counter() - began) * 1000)
        store.close()
    resident = float(
        subprocess.run(
            [sys.executable, "-c", RESIDENT, str(file), str(index)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    )
    with LessonStore(file, index, clock=lambda: NOW) as store:
        times = looked_up(store)
        typing, parts, adding = typed(store, 1000), inside(store), added(store)
    return [
        Row("1,000,000: build, told step by step", "shown", built, "s", None, len(told) > 50),
        row("1,000,000: open", 100, sorted(opened), 0.5),
        row("1,000,000: by one field", 3, times["by one field"], 0.99, plain),
        row("1,000,000: by three fields", 3, times["by three fields"], 0.99, plain),
        row("1,000,000: by time", 3, times["by time"], 0.99, plain),
        row("1,000,000: top ten", 1, times["top ten"], 0.5, plain),
        row("1,000,000: each letter typed", 10, typing, 0.99, plain),
        row("1,000,000: inside words", 10, parts, 0.5, plain),
        row("1,000,000: added, then found", 1, adding, 0.5),
        Row("1,000,000: memory of a process", "≤ 150", resident, "MB", None, resident <= 150),
    ]


def _ten_thousand(folder: Path) -> list[Row]:
    file = folder / "lessons.jsonl"
    write_corpus(file, 10_000)
    with LessonStore(file, folder / "lessons.idx.db", clock=lambda: NOW) as store:
        store.catch_up()
        times = looked_up(store) | {"each letter typed": typed(store, 60), "inside words": inside(store)}
        times["added, then found"] = added(store)
        rows = [row(f"10,000: {what}", 1, found, 0.5) for what, found in times.items()]
        return [*rows, row("10,000: appended by others, then found", 200, followed(store), 0.95)]
