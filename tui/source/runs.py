"""The runs of a repository, past and present, as its journal knows them: listed, summed up, and read for a replay."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from engine.errors import StoreError
from engine.events import Event, RunFinished
from engine.model import TaskState
from engine.snapshot import Snapshot
from engine.state import RunState

if TYPE_CHECKING:
    from engine.store.journal_reader import JournalReader
    from engine.store.run_log import RunRow

RunEnd = Literal["running", "died", "landed", "failed", "budget", "interrupted"]


@dataclass(frozen=True, slots=True)
class ListedRun:
    """One run. `until` is its end, or its last sign of life; times are seconds since the epoch."""

    run: str
    board: str
    host: str
    pid: int
    started: float
    until: float
    state: RunEnd


@dataclass(frozen=True, slots=True)
class Listing:
    """The runs as they were at a moment, newest first."""

    at: float
    runs: tuple[ListedRun, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """How many of a run's tasks have landed, and what it has cost in US dollars, as far as prices are known.

    `idle` counts the seconds between its processes; `finished` says how it ended, and how long they worked.
    `worked`: a task was worked on; `unpriced` counts the calls whose price is not known.
    """

    landed: int
    total: int
    idle: float = 0.0
    finished: RunFinished | None = None
    usd: float = 0.0
    worked: bool = True
    unpriced: int = 0


def progress_of(snapshot: Snapshot) -> Progress:
    """How far the run is that stands as the snapshot tells."""
    idle, usd, unpriced = snapshot.run.idle, snapshot.totals.usd, snapshot.totals.unpriced
    worked = snapshot.totals.landed > 0 or any(view.attempt for view in snapshot.tasks)
    if (end := snapshot.run.finished) is not None:
        return Progress(end.landed, end.total, idle, end, usd, worked, unpriced)
    landed = snapshot.count(TaskState.LANDED)
    return Progress(landed, snapshot.total, idle, None, usd, worked, unpriced)


def end_of(run: ListedRun, progress: Progress | None) -> RunEnd:
    """How the run stands.

    Its last event says that first: the journal has no end of a run that the same command takes up again, and tells one
    that stopped, was quit or reached its budget like one that died.
    """
    finished = progress.finished if progress is not None else None
    return finished.status if finished is not None else run.state


class Runs:
    """Reads the journal at `state_db`. Every method blocks, and raises StoreError when the journal cannot be read."""

    def __init__(self, state_db: Path, archive: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._state_db = state_db
        self._archive = archive
        self._clock = clock
        self._lock = threading.Lock()
        self._opened: JournalReader | None = None

    def list(self) -> Listing:
        """All runs, newest first."""
        now, reader = self._clock(), self._reader()
        return Listing(now, tuple(_listed(reader.settled(row, now), now) for row in reader.runs()))

    def progress(self, run: str) -> Progress:
        """How far a run is."""
        reader = self._reader()
        row = reader.run(run)
        state, after = RunState(), row.resume_after if row is not None else 0
        while page := reader.poll(run, after):
            state.apply_all(event for _, event in page)
            after = page[-1][0]
        return progress_of(state.snapshot())

    def events(self, run: str) -> tuple[Event, ...]:
        """All that happened in a run so far."""
        reader, found, after = self._reader(), list[Event](), 0
        while page := reader.poll(run, after):
            found += [event for _, event in page]
            after = page[-1][0]
        if not found:
            raise StoreError(
                f"nothing is known of run {run}", "its events were removed from the state folder"
            )
        return tuple(found)

    def close(self) -> None:
        """Close the journal."""
        with self._lock:
            reader, self._opened = self._opened, None
        if reader is not None:
            reader.close()

    def _reader(self) -> JournalReader:
        from engine.store.journal_reader import JournalReader

        with self._lock:
            if self._opened is None:
                self._opened = JournalReader(self._state_db, self._archive)
            return self._opened


def _listed(row: RunRow, now: float) -> ListedRun:
    owner = row.owner
    until = row.ended if row.ended is not None else row.beat
    return ListedRun(row.run, row.board, owner.host, owner.pid, row.started, until, _state_of(row, now))


def _state_of(row: RunRow, now: float) -> RunEnd:
    if row.ended is None:
        return "running" if row.is_alive(now) else "died"
    match row.status:
        case "landed" | "failed" | "budget" as status:
            return status
        case _:
            return "interrupted"
