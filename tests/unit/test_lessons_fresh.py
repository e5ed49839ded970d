"""Lessons that were just added are found before the index has taken them in, and never twice."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.errors import StoreError
from engine.store.lessons import Lesson, LessonQuery, LessonStore, LiveSearch

NOW = 1_800_000_000.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LessonStore]:
    with LessonStore(tmp_path / "lessons.jsonl", tmp_path / "lessons.idx.db", clock=lambda: NOW) as found:
        yield found


@contextmanager
def held_up(store: LessonStore) -> Iterator[threading.Event]:
    """Keep the index from taking anything in, until the event is set or the block is left."""
    go_on = threading.Event()
    store._database.submit(lambda _: go_on.wait(30))
    try:
        yield go_on
    finally:
        go_on.set()


def found(store: LessonStore, words: str, limit: int = 50) -> list[Lesson]:
    return list(store.search(LessonQuery(words), limit=limit).lessons)


def by_id(lessons: list[Lesson]) -> dict[str, Lesson]:
    return {lesson.id: lesson for lesson in lessons}


def test_a_new_lesson_is_found_before_it_is_in_the_index(store: LessonStore) -> None:
    old = store.add("fix_bug", "verify", "timeout", "the ledger is slow")
    store._settle()
    with held_up(store):
        new = store.add("fix_bug", "verify", "crash", "the ledger was lost")
        assert found(store, "ledger lost") == [new]
        assert by_id(found(store, "edge")) == by_id([old, new])
        assert by_id(found(store, "ledger")) == by_id([old, new])
        assert found(store, "ledger", limit=1) == [new]
        assert found(store, "ledger found") == []
        result = store.search(LessonQuery("ledger"))
        assert (result.total, result.more) == (2, False)
        for hit in result.hits:
            [marked] = [span for span in hit.spans if span.field == "failure_msg"]
            assert hit.lesson.failure_msg[marked.start : marked.end] == "ledger"
    store._settle()
    assert store._fresh.texts == {}
    assert by_id(found(store, "ledger")) == by_id([old, new])


def test_a_lesson_seen_again_is_found_once_as_it_is_now(store: LessonStore) -> None:
    store.add("fix_bug", "verify", "timeout", "no answer after 31 s")
    store._settle()
    with held_up(store):
        again = store.add("fix_bug", "verify", "timeout", "no answer after 4 s")
        more = store.add("fix_bug", "verify", "timeout", "no answer after 5 s", resolution="wait longer")
        assert (again.times_seen, more.times_seen) == (2, 3)
        assert found(store, "answer") == [more]
        assert found(store, "longer") == [more]
        assert store.search(LessonQuery("answer")).total == 1
    assert store.get(more.id) == more
    assert found(store, "answer") == [more]


def test_whatever_else_is_asked_waits_for_the_index(store: LessonStore) -> None:
    id_ = store.add("fix_bug", "verify", "timeout", "no answer").id
    for ask in (
        lambda: store.search(LessonQuery("answer", task_type="fix_bug")).lessons,
        lambda: store.in_time_range(NOW, NOW),
        store.most_frequent,
        lambda: store.similar("no answer").lessons,
        lambda: store.for_task(type="fix_bug", text="no answer"),
        lambda: (store.get(id_),),
    ):
        lesson = store.add("fix_bug", "verify", "timeout", "no answer")
        assert ask() == (lesson,)


async def test_who_types_finds_it_too(store: LessonStore) -> None:
    live = LiveSearch(store.open_reader)
    try:
        with held_up(store):
            lesson = store.add("fix_bug", "verify", "crash", "the ledger was lost")
            answers = [answer.lessons async for answer in live.search(LessonQuery("ledg"))]
        assert answers[-1] == (lesson,)
    finally:
        await asyncio.to_thread(live.close)


@pytest.mark.parametrize("words", ["ledger", "edge"])
def test_a_lesson_that_the_index_takes_in_as_a_search_begins_is_found(
    store: LessonStore, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = store._reader.reading
    snapshot = reading.snapshot

    with held_up(store) as go_on:
        new = store.add("fix_bug", "verify", "crash", "the ledger was lost")

        @contextmanager
        def taken_in_meanwhile() -> Iterator[None]:
            with snapshot():  # which does not have it
                go_on.set()
                store._settle()
                assert store._fresh.texts == {}
                yield

        monkeypatch.setattr(reading, "snapshot", taken_in_meanwhile)
        assert found(store, words) == [new]


def test_many_threads_add_and_none_misses_what_it_added(store: LessonStore) -> None:
    names = ("ann", "bob", "cyd", "dan")

    def work(name: str) -> None:
        for number in range(1, 26):
            own = store.add("fix_bug", "verify", "crash", f"{name} broke it")
            assert own.times_seen == number
            assert [lesson.times_seen for lesson in found(store, name)] == [number]
            store.add("fix_bug", "verify", "crash", "all broke it")

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(work, names))
    assert {lesson.failure_msg: lesson.times_seen for lesson in store.most_frequent()} == {
        "all broke it": 100,
        **{f"{name} broke it": 25 for name in names},
    }
    assert store.stats().sightings == 200
    assert len(store.file.read_bytes().splitlines()) == 200


def test_what_could_not_be_written_is_not_found(store: LessonStore) -> None:
    store.add("fix_bug", "verify", "crash", "the ledger was lost")
    store._settle()
    kept = store.file.read_bytes()
    store.file.unlink()
    store.file.mkdir()
    with pytest.raises(StoreError, match="cannot be appended to"):
        store.add("fix_bug", "verify", "crash", "nowhere to put it")
    assert found(store, "nowhere") == []
    store.file.rmdir()
    store.file.write_bytes(kept)
    assert found(store, "ledger") != []
