"""How far tasks are: where each stands with the dispatcher, how it ended, and the sums over all of them."""

from __future__ import annotations

from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

R = TypeVar("R")


class Progress(StrEnum):
    """Where a task stands with the dispatcher."""

    WAITING = "waiting"
    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = frozenset({Progress.COMPLETED, Progress.FAILED, Progress.CANCELLED})


class Outcome(msgspec.Struct, Generic[R], frozen=True, eq=False):
    """How a task ended. `error` is what its work raised; `busy` counts the seconds it held a slot."""

    task_id: str
    progress: Progress
    result: R | None = None
    error: BaseException | None = None
    queued_at: float | None = None
    started_at: float | None = None
    ended_at: float = 0.0
    busy: float = 0.0

    @property
    def duration(self) -> float:
        """Seconds from start to end; 0 for a task that never started."""
        return self.ended_at - self.started_at if self.started_at is not None else 0.0


class DispatchStats(msgspec.Struct, frozen=True):
    """Sums over all tasks. Durations (seconds in slots) are of completed and failed ones; `execution_time` is wall."""

    total: int
    waiting: int
    queued: int
    running: int
    completed: int
    failed: int
    cancelled: int
    min_duration: float
    average_duration: float
    max_duration: float
    total_task_duration: float
    execution_time: float

    @property
    def speedup(self) -> float:
        """Task seconds done per second of wall time."""
        return self.total_task_duration / self.execution_time if self.execution_time > 0 else 0.0
