"""How long the rest of a run will take, from the stages that have finished, and how fast tasks land."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.model import Stage, TaskState
from engine.snapshot import Snapshot, TaskView

ENOUGH = 3
"""Finished stages below which nothing is promised."""

_STAGES = tuple(Stage)
_OPEN = (TaskState.WAITING, TaskState.QUEUED, TaskState.ELSEWHERE, TaskState.RUNNING, TaskState.TO_LAND)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds to go, and by how much that may be wrong (one standard deviation)."""

    seconds: float
    give_or_take: float


def time_to_go(snapshot: Snapshot, now: float) -> Estimate | None:
    """When everything will have landed, if no attempt fails; None when nobody can know.

    It is the greater of the work left over the slots, and of the longest chain of tasks that wait for each other.
    Others that share the board count with what they work on now.
    """
    if snapshot.run.finished is not None or snapshot.run.dispatch != "running":
        return None
    times = {time.stage: time for time in snapshot.stage_times}
    if sum(time.count for time in times.values()) < ENOUGH:
        return None
    means = [times[s].total / times[s].count if s in times else 0.0 for s in _STAGES]
    spreads = [
        max(0.0, times[s].squares / times[s].count - m * m) if s in times else 0.0
        for s, m in zip(_STAGES, means, strict=True)
    ]
    left = {view.id: _left(view, means, now) for view in snapshot.tasks if view.state in _OPEN}
    if not left:
        return None
    others = sum(peer.working for peer in snapshot.others if peer.present)
    slots = max(1, min((snapshot.run.max_concurrency or 1) + others, len(left)))
    work = sum(left.values())
    seconds = max(work / slots, _longest_chain(snapshot.tasks, left))
    variance = sum(spreads) * len(left)
    # Waiting for each other and for trains is not in the means; a tenth is what it costs in practice at least.
    return Estimate(seconds, max(math.sqrt(variance) / slots, seconds / 10))


def _left(view: TaskView, means: Sequence[float], now: float) -> float:
    if view.stage is None:
        return sum(means)
    at = _STAGES.index(view.stage)
    spent = max(0.0, now - view.stage_started) if view.stage_started is not None else 0.0
    return max(0.0, means[at] - spent) + sum(means[at + 1 :])


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


def throughput(
    snapshot: Snapshot, now: float, *, cells: int = 8, longest: float = 600.0
) -> tuple[tuple[int, ...], float]:
    """Tasks landed in each of `cells` equal spans up to now, and the tasks a minute over all of them.

    The spans cover the run so far, or since it was taken up again, at most `longest` seconds.
    """
    run = snapshot.run
    begin = run.resumed if run.resumed is not None else run.started if run.started is not None else now
    covered = min(longest, max(60.0, now - begin))
    counts = [0] * cells
    for at in reversed(snapshot.landings):
        age = now - at
        if age >= covered:
            break
        counts[cells - 1 - min(cells - 1, max(0, int(age / covered * cells)))] += 1
    return tuple(counts), sum(counts) / covered * 60
