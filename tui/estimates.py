"""How long the rest of a run will take, from the stages that have finished, and how fast tasks land."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.figures import StageTime
from engine.model import Stage, TaskState
from engine.snapshot import Snapshot
from engine.task_view import TaskView

_STAGES = tuple(Stage)
_OPEN = (TaskState.WAITING, TaskState.QUEUED, TaskState.ELSEWHERE, TaskState.RUNNING, TaskState.TO_LAND)
USUAL_RETRIES = 0.25
"""Attempts of a task beyond its first that are expected before a run has shown any."""
LATE = 0.25
"""What is left at least of a stage that already takes longer than it usually does, as a share of that."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds to go, and by how much that may be wrong."""

    seconds: float
    give_or_take: float


def time_to_go(snapshot: Snapshot, now: float) -> Estimate | None:
    """When everything will have landed; None when nobody can know.

    Nobody can before each stage that lies ahead has ended once. It is the greater of the work left over the slots, and
    of the longest chain of tasks that wait for each other, with as many retries as there have been. Others that share
    the board count with what they work on now.
    """
    if snapshot.run.finished is not None or snapshot.run.dispatch != "running":
        return None
    open_ = [view for view in snapshot.tasks if view.state in _OPEN]
    times = {time.stage: time for time in snapshot.stage_times if time.count}
    if not open_ or any(stage not in times for stage in _STAGES[min(map(_reached, open_)) :]):
        return None
    means = [times[s].total / times[s].count if s in times else 0.0 for s in _STAGES]
    left = {view.id: _left(view, means, now) for view in open_}
    others = sum(peer.working for peer in snapshot.others if peer.present)
    slots = max(1, min((snapshot.run.max_concurrency or 1) + others, len(left)))
    chain = _longest_chain(snapshot.tasks, left)
    seconds = max(sum(left.values()) / slots, chain) * (1 + _retries(snapshot))
    return Estimate(seconds, _give_or_take(seconds, times))


def _reached(view: TaskView) -> int:
    """The index of the stage that the task is in, or will begin with."""
    return _STAGES.index(view.stage) if view.stage is not None else 0


def _retries(snapshot: Snapshot) -> float:
    """How many attempts a task takes beyond its first, as it was so far; with few to go by, nearer to the usual."""
    begun = sum(view.started is not None for view in snapshot.tasks)
    return (snapshot.totals.retries + USUAL_RETRIES) / (begun + 1)


def _left(view: TaskView, means: Sequence[float], now: float) -> float:
    at = _reached(view)
    spent = (
        max(0.0, now - view.stage_started)
        if view.stage_started is not None and view.stage is not None
        else 0.0
    )
    return max(means[at] - spent, means[at] * LATE) + sum(means[at + 1 :])


def _give_or_take(seconds: float, times: dict[str, StageTime]) -> float:
    """By how much that may be wrong: a third, for what waits for another and for trains, and what attempts differ by.
    Of a stage that was seen once or twice, the mean says as little as that."""
    spread = 0.0
    for time in times.values():
        mean = time.total / time.count
        spread += max(0.0, time.squares / time.count - mean * mean) + mean * mean / time.count
    return seconds / 3 + math.sqrt(spread)


def _longest_chain(tasks: Sequence[TaskView], left: dict[str, float]) -> float:
    """The seconds of the chain that takes longest. Board order need not be the order of waiting."""
    ends: dict[str, float] = {}
    blockers: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    for view in tasks:
        if view.id in left:
            blockers[view.id] = before = [name for name in view.task.after if name in left]
            for name in before:
                followers.setdefault(name, []).append(view.id)
    unknown = {name: len(before) for name, before in blockers.items()}
    ready = [name for name, number in unknown.items() if not number]
    for name in ready:
        ends[name] = left[name] + max((ends[each] for each in blockers[name]), default=0.0)
        for follower in followers.get(name, ()):
            unknown[follower] -= 1
            if not unknown[follower]:
                ready.append(follower)
    return max(ends.values(), default=0.0)


class Forecast:
    """`time_to_go`, looked at once a second of the run: of ten thousand tasks it takes as long as a frame may."""

    def __init__(self) -> None:
        self._asked: tuple[object, ...] = ()
        self._known: Estimate | None = None

    def at(self, snapshot: Snapshot, now: float) -> Estimate | None:
        """When everything will have landed; None when nobody can know."""
        run = snapshot.run
        asked = (run.run, run.dispatch, run.finished, int(now))
        if asked != self._asked:
            self._asked, self._known = asked, time_to_go(snapshot, now)
        return self._known


@dataclass(frozen=True, slots=True)
class Pace:
    """How tasks landed over the last `seconds`: in each of a few equal spans of them, the newest last."""

    counts: tuple[int, ...]
    seconds: float

    @property
    def in_words(self) -> str:
        """Tasks a minute; over less than a minute, which tells no such rate, how many there were: "9 in 31 s"."""
        landed = sum(self.counts)
        if self.seconds < 60:
            return f"{landed} in {max(1, int(self.seconds))} s"  # as the clock beside it counts
        return f"{landed / self.seconds * 60:.1f}/min"


def throughput(snapshot: Snapshot, now: float, *, cells: int = 8, longest: float = 600.0) -> Pace | None:
    """How tasks landed up to now or to the run's end, over the run so far, at most `longest` seconds of its clock.

    None before anything has landed in that time.
    """
    run = snapshot.run
    if run.finished is not None:
        now = min(now, run.finished.at)
    covered = min(longest, run.elapsed(now))
    if snapshot.totals.landed > len(snapshot.landings) > 0:
        covered = min(covered, now - snapshot.landings[0])  # those before are known no more
    counts = [0] * cells
    for at in reversed(snapshot.landings):
        age = now - at
        if age > covered:
            break
        counts[cells - 1 - min(cells - 1, max(0, int(age / covered * cells) if covered else 0))] += 1
    waits = covered < longest and not any(counts)
    return None if waits else Pace(tuple(counts), covered)
