"""The history: the newest stay, the oldest are archived exactly once, whatever crashes."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.model import TaskState
from engine.store.database import Database
from engine.store.history import HistoryPruner, PrunePolicy, TaskHistory
from engine.store.state_db import open_state


class Clock:
    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def database(tmp_path: Path):
    database = open_state(tmp_path / "state.db")
    yield database
    database.close()


def done(n: int, *, ended: float | None = None, **fields: object) -> TaskHistory:
    end = 1_000_000.0 + n if ended is None else ended
    return TaskHistory(
        id=f"r/{n}", run="r", task=f"T{n}", status=TaskState.LANDED, started=end - 5, ended=end, **fields
    )


def policy(tmp_path: Path, **limits: float) -> PrunePolicy:
    return PrunePolicy(archive_dir=tmp_path / "archive", **limits)


def ids(entries) -> list[str]:
    return [entry.id for entry in entries]


def test_the_newest_stay_and_each_of_the_others_is_archived_once(
    database: Database, tmp_path: Path, clock: Clock
) -> None:
    history = HistoryPruner(database, policy(tmp_path, max_entries=100), clock=clock)
    for n in range(1000):
        history.add(done(n))
    database.flush()
    database.flush()
    history.prune()
    live = ids(history.recent(limit=1000))
    assert 80 <= len(live) <= 90
    assert live == [f"r/{n}" for n in range(999, 999 - len(live), -1)]
    assert ids(history.archive.entries()) == [f"r/{n}" for n in range(1000 - len(live))]
    stats = history.stats()
    assert (stats.entries, stats.archived, stats.problem) == (len(live), 1000 - len(live), "")
