"""The result cache: what other caches got wrong, a naive model beside it, and two processes on one file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine.store.cache import CacheKey, Computed, ResultCache, digest


class Clock:
    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def key(n: object = 1, *, task: str = "T1", activity: str = "judge", model: str = "m") -> CacheKey:
    return CacheKey(activity, task, digest(str(n)), model)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.db"


def answer(value: bytes = b"yes", **cost: float):
    calls = []

    async def compute() -> Computed:
        calls.append(1)
        await asyncio.sleep(0)
        return Computed(value, **cost)

    compute.calls = calls
    return compute


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
