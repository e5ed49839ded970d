"""The result cache: keys, who computes, what stays, and a naive cache beside it."""

from __future__ import annotations

import asyncio
import math
import os
import tempfile
import threading
from collections import OrderedDict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import RateLimitedError
from engine.store import cache_key
from engine.store.cache import CacheKey, Computed, ResultCache, digest
from tests.unit.caches import Clock, answer, key


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.db"


async def test_a_second_ask_costs_nothing_and_a_restart_remembers(path: Path) -> None:
    cache = ResultCache(path)
    compute = answer(b"yes", tokens=120, usd=0.03)
    assert await cache.get_or_compute(key(), compute) == (b"yes", False)
    assert await cache.get_or_compute(key(), compute) == (b"yes", True)
    stats = cache.stats()
    assert (stats.hits, stats.misses, stats.tokens_saved, stats.usd_saved) == (1, 1, 120, 0.03)
    cache.close()
    cache = ResultCache(path)
    assert await cache.get_or_compute(key(), compute) == (b"yes", True)
    assert len(compute.calls) == 1
    assert cache.stats().hits == 1
    assert cache.lifetime_stats().hits == 2
    assert cache.lifetime_stats().usd_saved == pytest.approx(0.06)
    cache.close()


async def test_eight_at_once_make_one_computation(path: Path) -> None:
    cache = ResultCache(path)
    compute = answer(tokens=10)
    answers = await asyncio.gather(*(cache.get_or_compute(key(), compute) for _ in range(8)))
    assert len(compute.calls) == 1
    assert sorted(hit for _, hit in answers) == [False] + [True] * 7
    assert (cache.stats().hits, cache.stats().misses, cache.stats().tokens_saved) == (7, 1, 70)
    cache.close()


# Keys


def test_whatever_changes_the_answer_changes_the_key() -> None:
    request = {
        "max_tokens": 1000,
        "thinking": None,
        "tools": [{"name": "edit"}],
        "prompt": "a\n",
        "tree": "t1",
    }
    changed = [
        {"max_tokens": 1001},
        {"thinking": {"budget": 1}},
        {"tools": [{"name": "edit", "description": ""}]},
        {"prompt": "a\r\n"},
        {"prompt": "a\n "},
        {"tree": "t2"},
        {"a parameter nobody knew": 0},
        {"max_tokens": 1000.0},
    ]
    digests = {digest({**request, **change}) for change in changed}
    assert len(digests) == len(changed)
    assert digest(request) not in digests
    assert digest(dict(reversed(request.items()))) == digest(request)
    # Two forms of one word are two prompts: the model may answer them differently.
    assert digest("\u00e9") != digest("e\u0301")
    assert digest(True) != digest(1) != digest("1") != digest(None)


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        {1: "a"},
        {None: 1},
        {1, 2},
        b"x",
        object(),
        {"deep": [{"er": {1}}]},
        "\ud800",
        [1, -math.inf],
    ],
)
def test_what_has_no_exact_json_form_is_refused(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        digest(value)


def test_fields_of_a_key_cannot_run_into_each_other() -> None:
    keys = [
        CacheKey("ab", "c", "d", "e"),
        CacheKey("a", "bc", "d", "e"),
        CacheKey('a","b', "c", "d", "e"),
        CacheKey("a", 'b","c', "d", "e"),
        CacheKey("ab", "c", "de", ""),
    ]
    assert len({key.digest for key in keys}) == len(keys)


@pytest.mark.parametrize("task", ["../../etc/passwd", "a/b", "CON", "", "漢字" * 200, "a\0b"])
def test_any_task_id_is_just_an_id(path: Path, task: str) -> None:
    cache = ResultCache(path)
    cache.set(key(task=task), b"v").result()
    assert cache.get(key(task=task)) == b"v"
    assert cache.entries()[0].key.task_id == task
    cache.close()
    assert os.listdir(path.parent) == ["cache.db"]


def test_the_same_input_for_another_model_or_task_or_activity_is_a_miss(path: Path) -> None:
    cache = ResultCache(path)
    cache.set(key(), b"v").result()
    assert cache.get(key(model="other")) is None
    assert cache.stats().last_miss == "judge T1: another model"
    assert cache.get(key(2)) is None
    assert cache.stats().last_miss == "judge T1: the input changed"
    assert cache.get(key(task="T2")) is None
    assert cache.stats().last_miss == "judge T2: first time"
    assert cache.get(key(activity="plan")) is None
    assert cache.get(key()) == b"v"
    assert (cache.stats().hits, cache.stats().misses, cache.stats().hit_rate) == (1, 4, 0.2)
    cache.close()


def test_an_entry_of_an_older_format_is_a_miss(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ResultCache(path)
    cache.set(key(), b"old form").result()
    monkeypatch.setattr(cache_key, "FORMAT", cache_key.FORMAT + 1)
    assert cache.get(key()) is None
    cache.set(key(), b"new form").result()
    assert cache.get(key()) == b"new form"
    cache.close()


# Who computes


async def test_an_error_is_passed_on_and_never_stored(path: Path) -> None:
    cache = ResultCache(path)
    gate, calls = asyncio.Event(), []

    async def refused() -> Computed:
        calls.append(1)
        await gate.wait()
        raise RateLimitedError("429", retry_after=3.0)

    waiting = [asyncio.create_task(cache.get_or_compute(key(), refused)) for _ in range(3)]
    while not calls:
        await asyncio.sleep(0)
    gate.set()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(answer) for answer in answers] == [RateLimitedError] * 3
    assert len(calls) == 1
    assert await cache.get_or_compute(key(), answer(b"fresh")) == (b"fresh", False)
    cache.close()


async def test_a_result_that_is_not_bytes_is_an_error_and_not_stored(path: Path) -> None:
    cache = ResultCache(path)
    with pytest.raises(TypeError, match="only bytes"):
        await cache.get_or_compute(key(), answer("text"))
    assert cache.stats().entries == 0
    assert await cache.get_or_compute(key(), answer(b"bytes")) == (b"bytes", False)
    cache.close()


async def test_when_the_one_who_computes_is_cancelled_the_next_one_does(path: Path) -> None:
    cache = ResultCache(path)
    started = []

    async def never() -> Computed:
        started.append(1)
        await asyncio.Event().wait()
        raise AssertionError

    leader = asyncio.create_task(cache.get_or_compute(key(), never))
    while not started:
        await asyncio.sleep(0)
    compute = answer()
    followers = [asyncio.create_task(cache.get_or_compute(key(), compute)) for _ in range(3)]
    await asyncio.sleep(0)
    followers[0].cancel()
    leader.cancel()
    answers = await asyncio.gather(leader, *followers, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert isinstance(answers[1], asyncio.CancelledError)
    assert sorted(answers[2:]) == [(b"yes", False), (b"yes", True)]
    assert len(compute.calls) == 1
    cache.close()


async def test_who_is_cancelled_while_it_takes_the_lease_keeps_nobody_waiting(path: Path) -> None:
    cache = ResultCache(path)
    go_on = threading.Event()
    cache._file.usable().submit(lambda _: go_on.wait(30))
    taking = asyncio.create_task(cache.get_or_compute(key(), answer()))
    await asyncio.sleep(0)  # now it waits for its lease
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    go_on.set()
    assert await asyncio.wait_for(cache.get_or_compute(key(), answer()), 15) == (b"yes", False)
    cache.close()


async def test_an_answer_is_committed_before_it_is_given_back(path: Path) -> None:
    cache, other = ResultCache(path), ResultCache(path)
    await cache.get_or_compute(key(), answer(b"paid for"))
    assert other.get(key()) == b"paid for"
    cache.close()
    other.close()


# What stays, and what goes


def test_the_least_recently_used_leaves_and_does_not_come_back_after_a_restart(path: Path) -> None:
    cache = ResultCache(path, max_entries=3)
    for n in range(3):
        cache.set(key(n), b"%d" % n).result()
    assert cache.get(key(0)) == b"0"
    cache.set(key(3), b"3").result()
    assert cache.stats().evictions == 1
    cache.close()
    cache = ResultCache(path, max_entries=3)
    assert [cache.get(key(n)) for n in range(4)] == [b"0", None, b"2", b"3"]
    # The order of use survived, too: 2 is now the oldest but for the uses just made.
    assert [entry.key for entry in cache.entries()] == [key(3), key(0), key(2)]
    cache.close()


def test_the_byte_limit_holds_by_itself(path: Path) -> None:
    cache = ResultCache(path, max_bytes=10_000)
    for n in range(200):
        cache.set(key(n), bytes(500))
        assert cache.stats().bytes <= 10_000
    cache.close()
    cache = ResultCache(path, max_bytes=2_000)
    assert not cache.set(key("big"), bytes(2_001)).result()
    assert cache.set(key("fits"), bytes(1_900)).result()
    assert cache.stats().bytes <= 2_000
    assert cache.get(key("fits")) == bytes(1_900)
    assert cache.get(key("big")) is None
    cache.close()


def test_an_entry_lives_as_long_as_its_ttl(path: Path) -> None:
    clock = Clock()
    cache = ResultCache(path, ttl=10, clock=clock)
    cache.set(key(), b"v").result()
    clock.now += 9.9
    assert cache.get(key()) == b"v"  # A use does not make it younger.
    clock.now += 0.1
    assert cache.get(key()) is None
    assert cache.get(key()) is None
    cache._file.usable().flush()
    assert (cache.stats().expirations, cache.stats().entries, cache.stats().evictions) == (1, 0, 0)
    cache.set(key(), b"w").result()
    assert cache.get(key()) == b"w"
    cache.close()


def test_invalidation_forgets_exactly_what_it_names(path: Path) -> None:
    cache = ResultCache(path)
    keys = [key(task=task, activity=activity) for task in ("T1", "T2") for activity in ("plan", "judge")]
    for each in keys:
        cache.set(each, b"v")
    assert cache.invalidate(keys[0]) == 1
    assert cache.get(keys[0]) is None
    assert cache.invalidate(keys[0]) == 0
    assert cache.invalidate_activity("judge") == 2
    assert [entry.key for entry in cache.entries()] == [keys[2]]
    assert cache.entries(task="T1") == ()
    assert cache.entries(task="T2", activity="plan", model="m")[0].bytes == 1
    assert cache.invalidate_task("T2") == 1
    cache.set(keys[0], b"v")
    assert cache.clear() == 1
    stats = cache.stats()
    assert (stats.entries, stats.bytes, stats.evictions) == (0, 0, 0)
    cache.close()


operations = st.lists(
    st.one_of(
        st.tuples(st.just("get"), st.integers(0, 6), st.just(0)),
        st.tuples(st.just("set"), st.integers(0, 6), st.integers(1, 30)),
        st.tuples(st.just("wait"), st.integers(1, 15), st.just(0)),
        st.tuples(st.just("invalidate"), st.integers(0, 6), st.just(0)),
        st.tuples(st.just("restart"), st.just(0), st.just(0)),
    ),
    max_size=40,
)


class NaiveCache:
    """What the cache should do, in the plainest words."""

    def __init__(self) -> None:
        self.entries: OrderedDict[int, tuple[bytes, float]] = OrderedDict()
        self.hits = self.misses = self.evictions = self.expirations = 0

    def get(self, n: int, now: float) -> bytes | None:
        if n in self.entries and self.entries[n][1] <= now:
            del self.entries[n]
            self.expirations += 1
        if n not in self.entries:
            self.misses += 1
            return None
        self.hits += 1
        self.entries.move_to_end(n)
        return self.entries[n][0]

    def set(self, n: int, value: bytes, now: float) -> None:
        self.entries.pop(n, None)
        self.entries[n] = (value, now + 20)
        if self.over():
            for old in [n for n, (_, expires) in self.entries.items() if expires <= now]:
                del self.entries[old]
                self.expirations += 1
        while self.over():
            self.entries.popitem(last=False)
            self.evictions += 1

    def over(self) -> bool:
        return len(self.entries) > 4 or self.bytes > 60

    @property
    def bytes(self) -> int:
        return sum(len(value) for value, _ in self.entries.values())


@settings(max_examples=60, deadline=None)
@given(operations)
def test_it_does_what_a_naive_cache_does(steps: list[tuple[str, int, int]]) -> None:
    clock, naive = Clock(), NaiveCache()
    with tempfile.TemporaryDirectory() as folder:
        options = {"max_entries": 4, "max_bytes": 60, "ttl": 20, "clock": clock}
        cache = ResultCache(Path(folder, "cache.db"), **options)
        for number, (what, n, size) in enumerate(steps):
            if what == "get":
                assert cache.get(key(n)) == naive.get(n, clock.now)
            elif what == "set":
                value = bytes([number % 256]) * size
                assert cache.set(key(n), value).result()
                naive.set(n, value, clock.now)
            elif what == "wait":
                clock.now += n
            elif what == "invalidate":
                assert cache.invalidate(key(n)) == (naive.entries.pop(n, None) is not None)
            else:
                cache.close()
                cache = ResultCache(Path(folder, "cache.db"), **options)
            cache._file.usable().flush()
            stats = cache.lifetime_stats()
            assert (stats.entries, stats.bytes) == (len(naive.entries), naive.bytes)
            assert (stats.hits, stats.misses) == (naive.hits, naive.misses)
            assert (stats.evictions, stats.expirations) == (naive.evictions, naive.expirations)
        cache.close()
