"""The result cache when its file cannot be used: the run goes on without it, and says so."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from engine.errors import StoreError
from engine.store import cache_table, connection
from engine.store.cache import ResultCache
from engine.store.cache_table import Counters
from engine.store.database import Database, DatabaseError
from tests.unit.caches import Clock, answer, key


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.db"


async def test_a_full_disk_leaves_the_run_uncached_says_so_and_ends_when_there_is_space(path: Path) -> None:
    clock = Clock()
    cache = ResultCache(path, clock=clock)
    await cache.put(key(1), b"before")
    pages = cache._file.usable().read(lambda c: c.pragma("page_count"))
    full = f"PRAGMA max_page_count={pages + 2}"
    cache._file.usable().submit(lambda c: c.execute(full).fetchall()).result()
    compute = answer(bytes(100_000))
    assert await cache.get_or_compute(key(2), compute) == (bytes(100_000), False)
    assert "disk is full" in cache.stats().disabled
    assert cache.get(key(1)) == b"before"
    assert not await cache.put(key(3), b"small")  # Not even tried.
    assert await cache.get_or_compute(key(2), compute) == (bytes(100_000), False)
    assert len(compute.calls) == 2
    cache._file.usable().submit(lambda c: c.execute("PRAGMA max_page_count=1000000").fetchall()).result()
    clock.now += 61
    assert await cache.put(key(3), b"small")
    assert cache.stats().disabled == ""
    cache.close()


async def test_a_place_that_cannot_be_written_leaves_the_run_uncached_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    cache = ResultCache(tmp_path / "file" / "cache.db")
    assert "cannot be used" in cache.stats().disabled
    assert await cache.get_or_compute(key(), answer()) == (b"yes", False)
    assert cache.get(key()) is None
    with pytest.raises(StoreError, match="cannot be used"):
        cache.clear()
    cache.close()


def test_a_value_that_is_not_what_was_stored_is_a_miss_and_leaves(path: Path) -> None:
    cache = ResultCache(path)
    cache.set(key(), b"the value").result()
    cache._file.usable().submit(
        lambda c: c.execute("UPDATE bodies SET value = CAST('the valuf' AS BLOB)")
    ).result()
    assert cache.get(key()) is None
    cache._file.usable().flush()
    assert (cache.stats().damaged, cache.stats().entries, cache.stats().misses) == (1, 0, 1)
    cache.set(key(), b"the value").result()
    assert cache.get(key()) == b"the value"
    cache.close()


@pytest.mark.parametrize("checked", [True, False])
def test_a_damaged_file_is_set_aside_when_it_is_opened_or_when_it_is_met(
    path: Path, checked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = ResultCache(path)
    for n in range(2000):
        cache.set(key(n), os.urandom(200))
    cache.close()
    data = bytearray(path.read_bytes())
    data[20 * 4096 : len(data) - 4096] = bytes(len(data) - 21 * 4096)
    path.write_bytes(data)
    if not checked:
        monkeypatch.setattr(connection, "CHECKED_BYTES", 0)
    cache = ResultCache(path)
    for n in range(100):
        cache.get(key(n))
    assert cache.set_aside == path.with_name("cache.db.corrupt-1")
    assert cache.set(key(), b"v").result()
    assert cache.get(key()) == b"v"
    assert cache.stats().disabled == ""
    cache.close()


def test_a_damaged_file_is_begun_anew_although_writes_to_it_wait(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = ResultCache(path)
    damaged = cache._file.usable()
    go_on = threading.Event()
    damaged.submit(lambda _: go_on.wait(30))
    waiting = cache.set(key(1), b"one")
    monkeypatch.setattr(cache_table, "store", _fail)  # as a write to a damaged file does
    cache._file.note_failure(_DAMAGED, damaged)

    def close() -> None:
        go_on.set()  # only now, while whoever begins anew waits for the writes
        Database.close(damaged)

    monkeypatch.setattr(damaged, "close", close)
    asked = threading.Thread(target=cache.stats, daemon=True)
    asked.start()
    asked.join(30)
    assert not asked.is_alive()
    assert waiting.result(30) is False
    # What failed in the old file says nothing of the new one.
    assert cache.set_aside == path.with_name("cache.db.corrupt-1")
    monkeypatch.undo()
    assert cache.set(key(2), b"two").result()
    assert cache.get(key(2)) == b"two"
    assert cache.set_aside == path.with_name("cache.db.corrupt-1")
    cache.close()


def test_two_that_meet_the_same_damage_go_on_with_one_new_file(path: Path) -> None:
    one, other = ResultCache(path), ResultCache(path)
    for cache in (one, other):
        cache._file.note_failure(_DAMAGED, cache._file.usable())
    assert one.set(key(), b"one").result()
    assert other.get(key()) == b"one"
    assert [each.name for each in path.parent.glob("*.corrupt-?")] == ["cache.db.corrupt-1"]
    one.close()
    other.close()


_DAMAGED = DatabaseError("cache.db is damaged", kind="damaged")


def _fail(*_: object) -> Counters:
    raise _DAMAGED
