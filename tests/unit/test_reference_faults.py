"""The faults of the design that Taskyard grew from, each by name: none of them is here."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import pytest

from engine.dispatch import Dispatcher, Progress, Slot
from engine.errors import StoreError
from engine.model import Task, TaskState
from engine.store.cache import CacheKey, ResultCache, digest
from engine.store.database import Database
from engine.store.history import HistoryPruner, PrunePolicy, TaskHistory
from engine.templates import TemplateEngine


def task(name: str) -> Task:
    return Task(name, "Do it.")


async def forever(task: Task, slot: Slot) -> None:
    await asyncio.Event().wait()


def key(n: int, name: str = "T1") -> CacheKey:
    return CacheKey("judge", name, digest(n), "model")


def ended(n: int, *, at: float = 1000.0, name: str = "T1") -> TaskHistory:
    return TaskHistory(id=f"r/{name}/{n}", run="r", task=name, status=TaskState.LANDED, started=at, ended=at)


async def test_are_all_complete_is_not_always_true() -> None:
    dispatcher = Dispatcher(forever)
    dispatcher.add([task("A")])
    assert not dispatcher.are_all_complete()
    dispatcher.cancel_all()
    await dispatcher.wait()
    assert not dispatcher.are_all_complete()


async def test_cancelled_tasks_do_not_vanish() -> None:
    dispatcher = Dispatcher(forever, max_concurrency=1)
    dispatcher.add([task("running"), task("queued")])
    await asyncio.sleep(0)
    dispatcher.cancel_all()
    assert [(o.task_id, o.progress) for o in await dispatcher.wait()] == [
        ("running", Progress.CANCELLED),
        ("queued", Progress.CANCELLED),
    ]
    assert dispatcher.stats().cancelled == dispatcher.stats().total == 2


def test_inputs_are_hashed_by_sha_256_not_md5() -> None:
    assert digest({"b": 1, "a": "é"}) == hashlib.sha256('{"a":"é","b":1}'.encode()).hexdigest()


def test_the_hit_rate_is_hits_by_look_ups_not_by_entries(tmp_path: Path) -> None:
    cache = ResultCache(tmp_path / "cache.db")
    cache.set(key(1), b"x").result()
    for n in (1, 1, 1, 2):
        cache.get(key(n))
    assert cache.stats().hit_rate == 0.75
    cache.close()


def test_evicted_entries_do_not_come_back_after_a_restart(tmp_path: Path) -> None:
    cache = ResultCache(tmp_path / "cache.db", max_entries=2)
    for n in range(5):
        cache.set(key(n), b"x").result()
    kept = {n for n in range(5) if cache.get(key(n)) is not None}
    cache.close()
    cache = ResultCache(tmp_path / "cache.db", max_entries=10)
    assert {n for n in range(5) if cache.get(key(n)) is not None} == kept
    assert 4 in kept
    assert len(kept) <= 2
    cache.close()


def test_a_hit_writes_no_file(tmp_path: Path) -> None:
    cache = ResultCache(tmp_path / "cache.db")
    cache.set(key(1), b"x").result()

    def files() -> dict[str, tuple[int, int]]:
        return {p.name: (p.stat().st_size, p.stat().st_mtime_ns) for p in tmp_path.iterdir()}

    before = files()
    for _ in range(20):
        assert cache.get(key(1)) == b"x"
    assert files() == before
    cache.close()


def test_no_file_is_named_after_a_task(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    cache = ResultCache(folder / "cache.db")
    for name in ("../../outside", "/etc/passwd", "a/b", "x" * 500):
        cache.set(key(1, name), name.encode()).result()
        assert cache.get(key(1, name)) == name.encode()
    cache.close()
    assert [path.name for path in tmp_path.rglob("*")] == ["cache", "cache.db"]


def test_the_first_version_of_a_template_is_not_served_for_ever() -> None:
    templates = TemplateEngine()
    assert templates.compile_and_render("greeting", "Hello {{ name }}", name="Ada") == "Hello Ada"
    assert templates.compile_and_render("greeting", "Bye {{ name }}", name="Ada") == "Bye Ada"


def test_the_history_keeps_the_newest_not_the_oldest(database: Database, tmp_path: Path) -> None:
    history = HistoryPruner(database, PrunePolicy(tmp_path / "archive", max_entries=10), clock=lambda: 1000.0)
    for n in range(30):
        history.add(ended(n, at=float(n + 900))).result()
    history.prune()
    live = [entry.id for entry in history.recent(100)]
    assert live == [f"r/T1/{n}" for n in range(29, 29 - len(live), -1)]
    assert 8 <= len(live) < 10


def test_an_archive_that_fails_is_not_swallowed(database: Database, tmp_path: Path) -> None:
    (tmp_path / "archive").write_text("in the way")
    history = HistoryPruner(database, PrunePolicy(tmp_path / "archive", max_entries=10), clock=lambda: 1000.0)
    for n in range(12):
        history.add(ended(n)).result()
    with pytest.raises(StoreError):
        history.prune()
    assert history.stats().problem
    assert len(history.recent(100)) == 12, "what is not archived stays"


def test_two_entries_of_one_task_in_one_second_are_both_archived(database: Database, tmp_path: Path) -> None:
    history = HistoryPruner(database, PrunePolicy(tmp_path / "archive", max_entries=2), clock=lambda: 1000.0)
    for n in range(6):
        history.add(ended(n)).result()
        history.prune()
    archived = [entry.id for entry in history.archive.entries()]
    live = [entry.id for entry in history.recent(100)]
    assert sorted(archived + live) == [f"r/T1/{n}" for n in range(6)]
    assert len(archived) >= 4


def test_an_update_of_the_wrong_type_is_an_error_and_changes_nothing(
    database: Database, tmp_path: Path
) -> None:
    history = HistoryPruner(database, PrunePolicy(tmp_path / "archive"), clock=lambda: 1000.0)
    history.add(ended(1)).result()
    for changes in ({"usd": "a lot"}, {"status": 3}, {"nothing": 1}):
        with pytest.raises(StoreError):
            history.update("r/T1/1", **changes).result()
    assert history.get("r/T1/1") == ended(1)
