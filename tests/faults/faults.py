"""The kinds of faults. Each is a function that hurts a yard once, at a moment that chance (`rng`) picks.

It gives words for what it did, or None when the moment never came, because the work was done before.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from engine import events as ev
from engine.git.child import FAULT_POINT
from tests.faults.process import Run
from tests.faults.yard import Yard

PATIENCE = 90.0
"""Seconds for a moment to come, on a machine with a lot to do."""

Fault = Callable[[Yard, random.Random], str | None]


def _step(stage: str) -> Callable[[ev.AnyEvent], bool]:
    return lambda event: isinstance(event, ev.TrainMoved) and event.stage == stage


def _kind(kind: type[ev.Event]) -> Callable[[ev.AnyEvent], bool]:
    return lambda event: isinstance(event, kind)


MOMENTS: dict[str, Callable[[ev.AnyEvent], bool]] = {
    **{
        kind.__name__: _kind(kind)
        for kind in (
            ev.RunStarted,
            ev.RunResumed,
            ev.TaskQueued,
            ev.AttemptStarted,
            ev.StageStarted,
            ev.CallStarted,
            ev.CallFailed,
            ev.CallAnswered,
            ev.PlanMade,
            ev.BatchCreating,
            ev.BatchSubmitted,
            ev.BatchPolled,
            ev.BatchEnded,
            ev.Progressed,
            ev.StageFinished,
            ev.ChangeCommitted,
            ev.Verified,
            ev.Judged,
            ev.AttemptFailed,
            ev.LessonRecorded,
            ev.LessonsGiven,
            ev.TaskReadyToLand,
            ev.TrainDeparted,
        )
    },
    "TrainMoved (combine)": _step("combine"),
    "TrainMoved (board)": _step("board"),
    "TrainMoved (push)": _step("push"),
    "Pushed": _kind(ev.Pushed),
    "TrainArrived": _kind(ev.TrainArrived),
    "TaskLanded": _kind(ev.TaskLanded),
    "TaskSentBack": _kind(ev.TaskSentBack),
    "LessonResolved": _kind(ev.LessonResolved),
    "RunFinished": _kind(ev.RunFinished),
}
"""The moments of a run as its journal tells them, in about the order in which they come."""


def moments(rng: random.Random, count: int, among: Sequence[str] = tuple(MOMENTS)) -> list[str]:
    """Pick moments, in the order in which they are likely to come."""
    order = list(MOMENTS)
    return sorted((rng.choice(among) for _ in range(count)), key=order.index)


def _victim(yard: Yard, rng: random.Random) -> tuple[int, Run] | None:
    """Pick a run that is at work, starting those that ended (or leaving that to the others); None when all landed."""
    if any(run is not None and run.process.poll() == 0 for run in yard.slots):
        return None
    for slot, run in enumerate(yard.slots):
        if run is None or (not run.alive and (rng.random() < 0.5 or not yard.at_work)):
            yard.start(slot)
    return rng.choice(yard.at_work)


def _some_moment(run: Run, rng: random.Random) -> str | None:
    """Wait for one of the next events, whichever it is; None when the run ended before."""
    left = iter(range(rng.randint(3, 50), 0, -1))
    event = run.wait_for(lambda _: next(left) == 1, PATIENCE)
    return None if event is None or not run.alive else type(event).__name__


def kill_at(moment: str) -> Fault:
    """SIGKILL as soon as a moment has come, or a little later."""

    def kill(yard: Yard, rng: random.Random) -> str | None:
        victim = _victim(yard, rng)
        if victim is None:
            return None
        run = victim[1]
        if run.wait_for(MOMENTS[moment], PATIENCE) is None:
            return None
        time.sleep(rng.choice((0.0, 0.0, rng.uniform(0, 0.03))))
        run.kill()
        return moment

    return kill


def kill_at_next(yard: Yard, rng: random.Random) -> str | None:
    """SIGKILL at one of the next events, whichever it is."""
    victim = _victim(yard, rng)
    moment = None if victim is None else _some_moment(victim[1], rng)
    if victim is None or moment is None:
        return None
    victim[1].kill()
    return moment


def kill_with_all(yard: Yard, rng: random.Random) -> str | None:
    """SIGKILL for the run and for all it has started, at once: what a host that goes down leaves.

    What works in the remote's folder is spared: the remote is another host's.
    """
    victim = _victim(yard, rng)
    moment = None if victim is None else _some_moment(victim[1], rng)
    if moment is None:
        return None
    for process in yard.processes():
        with contextlib.suppress(psutil.Error, OSError):
            if not process.cwd().startswith(str(yard.remote)):
                process.kill()
    for _, run in yard.at_work:
        run.kill()
    return moment


def kill_somewhere(yard: Yard, rng: random.Random) -> str | None:
    """SIGKILL at a random moment."""
    victim = _victim(yard, rng)
    if victim is None or victim[1].ended_within(rng.uniform(0.3, 4.5)):
        return None
    run = victim[1]
    run.kill()
    return "at random"


def kill_at_git_command(yard: Yard, rng: random.Random) -> str | None:
    """SIGKILL before, during or after the n-th git command of the process."""
    for slot, run in enumerate(yard.slots):
        if run is None or not run.alive:
            point = f"{rng.randint(1, 200)}:{rng.choice(('before', 'during', 'after'))}"
            hurt = yard.start(slot, {FAULT_POINT: point})
            hurt.ended_within(PATIENCE)
            return point if hurt.process.returncode == -signal.SIGKILL else None
    return None


def stop_for(seconds: float) -> Fault:
    """SIGSTOP for so long, then SIGCONT: the process wakes up and believes that no time has passed."""

    def stop(yard: Yard, rng: random.Random) -> str | None:
        victim = _victim(yard, rng)
        moment = None if victim is None else _some_moment(victim[1], rng)
        if victim is None or moment is None:
            return None
        run = victim[1]
        run.signal(signal.SIGSTOP)
        time.sleep(seconds)
        run.signal(signal.SIGCONT)
        return moment if run.alive else None

    return stop


def _for_a_while(
    yard: Yard, rng: random.Random, away: Callable[[int], object], back: Callable[[int], object]
) -> str | None:
    """Take something away at a random moment, and give it back."""
    victim = _victim(yard, rng)
    moment = None if victim is None else _some_moment(victim[1], rng)
    if victim is None or moment is None:
        return None
    slot, run = victim
    away(slot)
    try:
        run.ended_within(rng.uniform(0.2, 2.0))
    finally:
        back(slot)
    return moment


def cut_off_service(yard: Yard, rng: random.Random) -> str | None:
    """The way to the model service breaks for a while: connections are reset, new ones refused."""
    return _for_a_while(
        yard, rng, lambda slot: yard.service_cables[slot].cut(), lambda slot: yard.service_cables[slot].mend()
    )


def cut_off_remote(yard: Yard, rng: random.Random) -> str | None:
    """The git remote is away for a while."""
    gone = yard.remote.with_suffix(".away")
    return _for_a_while(yard, rng, lambda _: yard.remote.rename(gone), lambda _: gone.rename(yard.remote))


def fill_disk(yard: Yard, rng: random.Random) -> str | None:
    """There is no room on the disk for a while: not for state, worktrees, checkout and remote."""
    filler = yard.disk / "filler"
    return _for_a_while(yard, rng, lambda _: _fill(filler), lambda _: filler.unlink())


def _fill(path: Path) -> None:
    with path.open("wb") as file, contextlib.suppress(OSError):
        block = 1 << 20
        while block:
            try:
                os.write(file.fileno(), bytes(block))
            except OSError:
                block //= 2


def kill_redis(yard: Yard, rng: random.Random) -> str | None:
    """The lock server is killed, and comes back after a while without what it knew."""
    assert yard.redis is not None
    redis = yard.redis
    return _for_a_while(yard, rng, lambda _: redis.kill(), lambda _: redis.start())


def cut_off_redis(yard: Yard, rng: random.Random) -> str | None:
    """One orchestrator loses the lock server for a while; the others keep it."""
    return _for_a_while(
        yard, rng, lambda slot: yard.redis_cables[slot].cut(), lambda slot: yard.redis_cables[slot].mend()
    )
