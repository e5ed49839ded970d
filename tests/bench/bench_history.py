"""The history: adding with pruning, and what 100,000 entries leave in the live store and in memory."""

from __future__ import annotations

import statistics
import tempfile
import time
from concurrent.futures import Future
from pathlib import Path

from engine.model import TaskState
from engine.store.history import HistoryPruner, MemoryInfo, PrunePolicy, TaskHistory
from engine.store.state_db import open_state
from tests.bench import Row

AT_ONCE = 50
"""Tasks that end at about the same time: each add waits for its commit, which they share."""


def rows() -> list[Row]:
    """Measure in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        database = open_state(Path(folder, "state.db"))
        policy = PrunePolicy(archive_dir=Path(folder, "archive"))
        history = HistoryPruner(database, policy, clock=lambda: 1_000_000.0)
        called: list[float] = []
        committed: list[float] = []
        first = _add(history, 0, 1_000, called, committed)
        _add(history, 1_000, 99_000, called, committed)
        last = _add(history, 99_000, 100_000, called, committed)
        newest = history.recent(1)[0].task
        stats = history.stats()
        database.close()
    call, commit = statistics.median(called), statistics.median(committed)
    grown = (last.resident - first.resident) / 1e6
    live, file = last.entries / first.entries, last.file / first.file
    kept = stats.entries + stats.archived == 100_000 and newest == "T099999"
    return [
        Row("add, for the caller", "≤ 150", call, "µs", None, call <= 150),
        Row(f"add until committed, {AT_ONCE} at once", "≤ 150", commit, "µs", None, commit <= 150),
        Row(
            "entries live after 100,000 (to 1,000)",
            "≤ 1 ×",
            last.entries / 1e3,
            "KB",
            live,
            live <= 1 and kept,
        ),
        Row("the file after 100,000 (to 1,000)", "≤ 1.1 ×", last.file / 1e3, "KB", file, file <= 1.1),
        Row("memory grown over 99,000 adds", "≤ 10", grown, "MB", None, grown <= 10),
    ]


def _add(
    history: HistoryPruner, start: int, stop: int, called: list[float], committed: list[float]
) -> MemoryInfo:
    """Add entries; gives the most that the history took in the last 1,000 of them."""
    most = MemoryInfo(0, 0, 0, 0, 0, 0)
    for first in range(start, stop, AT_ONCE):
        began = time.perf_counter()
        added: list[Future[None]] = []
        for n in range(first, first + AT_ONCE):
            before = time.perf_counter()
            added.append(history.add(_entry(n)))
            called.append((time.perf_counter() - before) * 1e6)
        for each in added:
            each.result()
        committed.append((time.perf_counter() - began) / AT_ONCE * 1e6)
        if first >= stop - 1_000:
            now = history.memory_info()
            most = now if now.file > most.file else most
    return most


def _entry(n: int) -> TaskHistory:
    return TaskHistory(
        id=f"run-1/T{n:06}/1",  # All of one length, so that the sizes can be compared.
        run="run-1",
        task=f"T{n:06}",
        status=TaskState.LANDED,
        started=1_000_000.0 + n,
        ended=1_000_001.0 + n,
        scope=f"Make the parser accept case {n:06} and say where it failed",
        commit=f"{n:040x}",
        attempts=1,
        usd=0.02,
    )
