"""The result cache shared by processes: one computes for all, and any of them may die."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from engine.store.cache import Computed, ResultCache
from tests.unit.caches import Clock, answer, key, start


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.db"


COMPUTE = """
import asyncio, sys
from pathlib import Path
from engine.store.cache import CacheKey, Computed, ResultCache, digest
cache = ResultCache(Path(sys.argv[1]))
mode = sys.argv[2]
async def compute():
    with open(sys.argv[1] + ".calls", "a") as file:
        file.write("called\\n")
    print("computing", flush=True)
    if mode == "hang":
        await asyncio.sleep(1000)
    await asyncio.sleep(0.3)
    return Computed(b"yes", tokens=5)
print("ready", flush=True)
input()
value, hit = asyncio.run(cache.get_or_compute(CacheKey("judge", "T1", digest("1"), "m"), compute))
print(value.decode(), hit, cache.stats().tokens_saved, flush=True)
cache.close()
"""


def test_three_processes_that_ask_at_once_make_one_computation(path: Path) -> None:
    children = [start(COMPUTE, path, "answer") for _ in range(3)]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("\n")
        child.stdin.flush()
    answers = sorted(child.communicate(timeout=200)[0].replace("computing\n", "") for child in children)
    assert answers == ["yes False 0\n", "yes True 5\n", "yes True 5\n"]
    assert Path(f"{path}.calls").read_text() == "called\n"


async def test_a_computer_that_was_killed_is_replaced_at_once(path: Path) -> None:
    child = start(COMPUTE, path, "hang")
    child.stdin.write("\n")
    child.stdin.flush()
    assert [child.stdout.readline() for _ in range(2)] == ["ready\n", "computing\n"]
    cache = ResultCache(path, lease=1000.0)
    compute = answer(b"mine")
    waiting = asyncio.create_task(cache.get_or_compute(key(), compute))
    done, _ = await asyncio.wait([waiting], timeout=0.2)
    assert not done
    assert not compute.calls
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert await asyncio.wait_for(waiting, 5) == (b"mine", False)
    cache.close()


async def test_a_silent_computer_on_another_host_is_replaced_when_its_lease_lapses(path: Path) -> None:
    clock = Clock()
    cache = ResultCache(path, clock=clock)
    lease = (key().digest, "somebody", "elsewhere", 1, "boot:1", clock.now + 30)
    cache._file.usable().submit(
        lambda c: c.execute("INSERT INTO leases VALUES(?, ?, ?, ?, ?, ?)", lease)
    ).result()
    compute = answer()
    waiting = asyncio.create_task(cache.get_or_compute(key(), compute))
    done, _ = await asyncio.wait([waiting], timeout=0.1)
    assert not done
    clock.now += 31
    assert await asyncio.wait_for(waiting, 5) == (b"yes", False)
    cache.close()


async def test_a_long_computation_keeps_its_lease(path: Path) -> None:
    clock = Clock()
    mine, theirs = (ResultCache(path, lease=0.3, clock=clock) for _ in range(2))
    gate = asyncio.Event()

    def lapses() -> float:
        return mine._file.usable().read(lambda c: c.execute("SELECT until FROM leases").get) or 0.0

    async def long() -> Computed:
        await gate.wait()
        return Computed(b"long")

    compute = answer(b"short")
    first = asyncio.create_task(mine.get_or_compute(key(), long))
    while not lapses():
        await asyncio.sleep(0.001)
    second = asyncio.create_task(theirs.get_or_compute(key(), compute))
    for _ in range(5):  # the clock goes no further than it was renewed for: a slow machine loses no lease
        before = lapses()
        clock.now = before - 0.1
        async with asyncio.timeout(30):
            while lapses() == before:
                await asyncio.sleep(0.01)
    assert not first.done()
    assert not second.done()
    gate.set()
    assert await first == (b"long", False)
    assert await second == (b"long", True)
    assert not compute.calls
    mine.close()
    theirs.close()


SHARE = """
import random, sys
from pathlib import Path
from engine.store.cache import CacheKey, ResultCache, digest
cache = ResultCache(Path(sys.argv[1]), max_entries=50)
generator = random.Random(int(sys.argv[2]))
for _ in range(300):
    key = CacheKey("a", "t", digest(generator.randrange(100)), "m")
    value = cache.get(key)
    assert value in (None, key.input_hash.encode()), value
    assert cache.set(key, key.input_hash.encode()).result(), cache.stats().disabled
stats = cache.stats()
assert not stats.disabled, stats
cache.close()
print(stats.hits, stats.misses, stats.evictions)
"""


def test_two_processes_write_without_getting_in_each_others_way(path: Path) -> None:
    children = [start(SHARE, path, seed) for seed in (1, 2)]
    figures = [[int(word) for word in child.communicate(timeout=200)[0].split()] for child in children]
    cache = ResultCache(path, max_entries=50)
    life = cache.lifetime_stats()
    assert (
        life.entries
        == cache._file.usable().read(lambda c: c.execute("SELECT count(*) FROM bodies").get)
        <= 50
    )
    assert [life.hits, life.misses, life.evictions] == [sum(column) for column in zip(*figures, strict=True)]
    cache.close()


SET_UNTIL_KILLED = """
import sys
from pathlib import Path
from engine.store.cache import CacheKey, ResultCache, digest
cache = ResultCache(Path(sys.argv[1]), max_entries=100)
n = 0
while True:
    n += 1
    assert cache.set(CacheKey("judge", "T1", digest(str(n)), "m"), b"%d" % n * 50).result()
    print(n, flush=True)
"""


def test_what_was_stored_survives_kill_9_and_the_limits_hold(path: Path) -> None:
    child = start(SET_UNTIL_KILLED, path)
    seen = 0
    for line in child.stdout:
        seen = int(line)
        if seen == 250:
            child.send_signal(signal.SIGKILL)
    child.communicate()
    cache = ResultCache(path, max_entries=100)
    for n in range(seen - 97, seen + 1):
        assert cache.get(key(n)) == b"%d" % n * 50
    counted = cache._file.usable().read(
        lambda c: c.execute("SELECT count(*), sum(size) FROM entries").fetchone()
    )
    assert (cache.stats().entries, cache.stats().bytes) == counted
    assert cache.stats().entries <= 100
    cache.close()


def test_leases_of_those_who_never_came_back_are_forgotten(path: Path) -> None:
    clock = Clock()
    cache = ResultCache(path, clock=clock)
    for n, until in enumerate((clock.now - 1, clock.now + 100)):
        lease = (b"%d" % n, "somebody", "elsewhere", 1, "", until)
        cache._file.usable().submit(
            lambda c, row=lease: c.execute("INSERT INTO leases VALUES(?, ?, ?, ?, ?, ?)", row)
        )
    cache.close()
    cache = ResultCache(path, clock=clock)
    cache._file.usable().flush()
    assert cache._file.usable().read(lambda c: c.execute("SELECT key FROM leases").fetchall()) == [(b"1",)]
    cache.close()
