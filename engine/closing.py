"""The last event of a run: how it ended, and its sums."""

from __future__ import annotations

from typing import Literal

from engine import events as ev
from engine.blocked import blocked
from engine.course import Course
from engine.errors import HaltedError
from engine.model import TaskState
from engine.snapshot import Snapshot

Status = Literal["landed", "failed", "budget", "interrupted"]


def closing(snapshot: Snapshot, course: Course, *, at: float) -> ev.RunFinished:
    """Give the event for a run that stands as `snapshot` tells."""
    counts, totals = snapshot.counts, snapshot.totals
    total = snapshot.total
    in_vain = len(blocked(snapshot))
    landed = counts.get(TaskState.LANDED, 0)
    failed = counts.get(TaskState.FAILED, 0)
    cancelled = counts.get(TaskState.CANCELLED, 0) - snapshot.removed
    left = total - landed - failed - cancelled
    status, exit_status = _status(course, open=left, whole=landed == total and not snapshot.refused)
    return ev.RunFinished(
        at=at,
        status=status,
        exit_status=exit_status,
        total=total,
        landed=landed,
        failed=failed,
        cancelled=cancelled,
        blocked=in_vain,
        waiting=left - in_vain,
        not_run=len(snapshot.refused),
        trains=totals.trains,
        pushes=totals.pushes,
        model_calls=totals.model_calls,
        batch_calls=totals.batch_calls,
        batched_requests=totals.batched_requests,
        cache_hits=totals.cache_hits,
        tokens=totals.usage,
        usd=totals.usd,
        unpriced=totals.unpriced,
        usd_saved=totals.usd_saved,
        duration_s=snapshot.run.elapsed(at),
    )


def _status(course: Course, *, open: int, whole: bool) -> tuple[Status, int]:
    if course.halted:
        return "interrupted", HaltedError.exit_status
    if course.stopping.is_set() and open:
        return "interrupted", 130
    if course.budget_reached:
        return "budget", 3
    return ("landed", 0) if whole else ("failed", 1)
