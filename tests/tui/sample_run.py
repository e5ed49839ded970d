"""A made-up run with everything a screen can show: failures, retries, batches, trains, lessons, notices.

It is the same every time. `events_until(seconds)` gives what had happened by then.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from engine import events as ev
from engine.figures import (
    HistoryFigures,
    LessonFigures,
    LimiterFigures,
    QueueFigures,
    ResultCacheFigures,
    TemplateFigures,
)
from engine.model import (
    AnswerSource,
    Change,
    Lane,
    LessonGiven,
    Plan,
    Role,
    Stage,
    Task,
    TaskState,
    Usage,
    Verdict,
    Verification,
)
from tests import samples

BEGIN = samples.START
RUN = "r-2027-01-15-a1"
MODEL = "claude-opus-5-5"
SLOTS = 6
CLASHING = "T2.09"
FAILING = "T2.14"
REFUSED = "T2.06"

_SCOPES = (
    "Round prices half up at the end of a sum",
    "Keep quantities of a cart positive",
    "Parse ISO dates with a time zone",
    "Say which column of a CSV file is missing",
    "Cache exchange rates for an hour",
    "Refuse a discount above the price",
    "Print totals right-aligned",
    "Read settings from the environment",
)


def board(count: int = 24) -> tuple[Task, ...]:
    """The tasks: every fifth waits for others, every fourth is in the economy lane."""
    tasks = []
    for n in range(1, count + 1):
        after = (f"T2.{n - 8:02}", f"T2.{n - 5:02}") if n > 10 and n % 5 == 0 else ()
        tasks.append(
            Task(
                id=f"T2.{n:02}",
                scope=_SCOPES[n % len(_SCOPES)],
                branch=f"task/T2.{n:02}",
                command=f"pytest -q tests/test_{n:02}.py",
                acceptance="The totals of the receipt do not change.",
                after=after,
                type="fix_bug" if n % 3 else "feature",
                lane=Lane.ECONOMY if n % 4 == 0 else Lane.FAST,
                line=n + 4,
            )
        )
    return tuple(tasks)


@dataclass(order=True)
class _Item:
    at: float
    number: int
    event: ev.Event = field(compare=False)


class _Script:
    """Puts events in the order of their times."""

    def __init__(self) -> None:
        self._items: list[_Item] = []
        self._numbers = itertools.count()

    def add(self, event: ev.Event) -> None:
        heapq.heappush(self._items, _Item(event.at, next(self._numbers), event))

    def all(self) -> list[ev.Event]:
        return [item.event for item in sorted(self._items)]


def events(count: int = 24) -> list[ev.Event]:
    """The whole run."""
    script = _Script()
    tasks = board(count)
    script.add(
        samples.started(
            *tasks,
            at=BEGIN,
            run=RUN,
            board="tasks/board-T2.md",
            repository="/home/ada/shop",
            base="9f3c2ab4d1e0",
            host="ada",
            pid=4242,
            max_concurrency=SLOTS,
            budget_usd=10.0,
            roles={"planner": MODEL, "implementer": MODEL, "judge": MODEL},
        )
    )
    free = [BEGIN + 1.0] * SLOTS
    ready: dict[str, float] = {}
    trains = itertools.count(1)
    train: list[tuple[float, Task]] = []
    for n, task in enumerate(tasks):
        slot = free.index(min(free))
        begin = max([free[slot], *(ready.get(name, BEGIN) for name in task.after)])
        end = _attempts(script, task, begin, n)
        free[slot] = end
        if task.id == FAILING:
            continue
        train.append((end, task))
        ready[task.id] = end + 8
        if len(train) == 5:
            _train(script, next(trains), train)
            train = []
    if train:
        _train(script, next(trains), train)
    for event in _gauges(script):
        script.add(event)
    return script.all()


def events_until(seconds: float, count: int = 24) -> list[ev.Event]:
    """What had happened so long after the start."""
    return [event for event in events(count) if event.at <= BEGIN + seconds]


def finished(
    at: float, *, status: str = "failed", exit_status: int = 1, landed: int = 23, failed: int = 1
) -> ev.RunFinished:
    """The last event."""
    return samples.finished(
        at=at,
        status=status,
        exit_status=exit_status,
        total=24,
        landed=landed,
        failed=failed,
        trains=5,
        pushes=5,
        model_calls=60,
        batch_calls=2,
        cache_hits=12,
        tokens=Usage(input=120_000, output=40_000, cache_read=600_000),
        usd=3.2,
        usd_saved=2.31,
        duration_s=at - BEGIN,
    )


def begins_to_log(folder: Path, task: str, at: float) -> tuple[ev.Event, ...]:
    """The task's Implementer begins once more, and writes to `implement.log` in the folder."""
    return (
        ev.AttemptStarted(at=at, task=task, attempt=3, branch="b", base="c", logs=str(folder)),
        ev.StageStarted(at=at, task=task, attempt=3, stage=Stage.IMPLEMENT),
    )


def _attempts(script: _Script, task: Task, begin: float, n: int) -> float:
    tries = {FAILING: 3, CLASHING: 2, REFUSED: 2}.get(task.id, 1)
    at = begin
    for attempt in range(1, tries + 1):
        at = _attempt(script, task, attempt, at, n, last=attempt == tries)
    return at


def _attempt(script: _Script, task: Task, attempt: int, at: float, n: int, *, last: bool) -> float:
    pace = 1.0 + (n % 5) * 0.35
    lessons = (
        (LessonGiven("a3f9c01d2b", "check_failed: round once, at the end of the sum"),) if attempt > 1 else ()
    )
    script.add(ev.TaskQueued(at=at - 0.2, task=task.id))
    script.add(
        ev.AttemptStarted(
            at=at,
            task=task.id,
            attempt=attempt,
            branch=task.branch,
            base="9f3c2ab4d1e0",
            worktree=f"/home/ada/.local/state/taskyard/shop/{task.id}",
            lessons=lessons,
        )
    )
    at = _stage(script, task, attempt, Stage.PLAN, at, 4 * pace, "3 steps, 2 files", n)
    steps = ("Find where the sum is rounded", "Round once, half up, at the end", "Add a test with 0.125")
    script.add(
        ev.PlanMade(
            at=at,
            task=task.id,
            attempt=attempt,
            plan=Plan(steps, ("src/money.py", "tests/test_money.py"), task.type),
        )
    )
    for step in range(5):
        script.add(
            ev.Progressed(at=at + 2 + step * 2 * pace, task=task.id, text=_DOING[(n + step) % len(_DOING)])
        )
    at = _stage(script, task, attempt, Stage.IMPLEMENT, at, 14 * pace, "+41 −7 in 2 files", n)
    script.add(
        ev.ChangeCommitted(
            at=at,
            task=task.id,
            attempt=attempt,
            change=Change(
                f"{n:02}41c9e2d0",
                "9f3c2ab4d1e0",
                2,
                41,
                7,
                "Round once",
                ("src/money.py", "tests/test_money.py"),
            ),
        )
    )
    script.add(ev.Progressed(at=at + 0.5, task=task.id, text=task.command or ""))
    fails = task.id == FAILING or (task.id == REFUSED and not last and False)
    took = 6 * pace
    at = _stage(
        script,
        task,
        attempt,
        Stage.VERIFY,
        at,
        took,
        "AssertionError: 3 != 4" if fails else f"passed in {took:.1f} s",
        n,
        ok=not fails,
    )
    output = "tests/test_14.py F\nE  AssertionError: 3 != 4\n1 failed" if fails else "12 passed"
    script.add(
        ev.Verified(
            at=at,
            task=task.id,
            attempt=attempt,
            verification=Verification(task.command or "", int(fails), took, output),
        )
    )
    if fails:
        return _failed(script, task, attempt, Stage.VERIFY, at, "AssertionError: 3 != 4", last)
    refused = task.id == REFUSED and not last
    reason = (
        "The receipt's total is still rounded twice"
        if refused
        else "The change does what the task asks, and is tested"
    )
    script.add(ev.Progressed(at=at + 0.5, task=task.id, text="reading the diff, +41 −7"))
    at = _stage(script, task, attempt, Stage.JUDGE, at, 5 * pace, reason, n, ok=not refused)
    findings = ("money.py: the line total is rounded, then the sum again",) if refused else ()
    script.add(
        ev.Judged(at=at, task=task.id, attempt=attempt, verdict=Verdict(not refused, reason, findings))
    )
    if refused:
        return _failed(script, task, attempt, Stage.JUDGE, at, reason, last)
    script.add(ev.TaskReadyToLand(at=at, task=task.id, attempt=attempt, commit=f"{n:02}41c9e2d0"))
    if task.id == CLASHING and not last:
        at += 6
        script.add(
            ev.TaskSentBack(
                at=at,
                task=task.id,
                attempt=attempt,
                reason="clashes with T2.07: src/cart.py",
                other="T2.07",
                paths=("src/cart.py",),
            )
        )
        return at + 5
    return at


def _failed(
    script: _Script, task: Task, attempt: int, stage: Stage, at: float, reason: str, last: bool
) -> float:
    text = f"{stage}: {reason}"
    script.add(
        ev.LessonRecorded(
            at=at, task=task.id, lesson=f"a3f9c01d2b{task.id}", text=text, times_seen=attempt + 1
        )
    )
    script.add(
        ev.AttemptFailed(
            at=at,
            task=task.id,
            attempt=attempt,
            stage=stage,
            reason=reason,
            feedback=f"Try {attempt} failed: {reason}",
        )
    )
    if last:
        script.add(ev.TaskEnded(at=at + 0.1, task=task.id, state=TaskState.FAILED, reason=reason))
        script.add(
            ev.Noticed(
                at=at + 0.1, level="error", task=task.id, text=f"failed after {attempt} attempts: {reason}"
            )
        )
    return at + 1


_DOING = (
    "read src/money.py",
    "edit src/money.py",
    "run pytest -q",
    "search “round(” in src/",
    "edit tests/test_money.py",
    "list src/",
)


def _stage(
    script: _Script,
    task: Task,
    attempt: int,
    stage: Stage,
    at: float,
    took: float,
    note: str,
    n: int,
    *,
    ok: bool = True,
) -> float:
    script.add(ev.StageStarted(at=at, task=task.id, attempt=attempt, stage=stage))
    role = {Stage.PLAN: Role.PLANNER, Stage.IMPLEMENT: Role.IMPLEMENTER, Stage.JUDGE: Role.JUDGE}.get(stage)
    if role is not None:
        call = f"{task.id}-{attempt}-{stage}"
        batched = task.lane is Lane.ECONOMY and stage is Stage.IMPLEMENT
        cached = stage is Stage.PLAN and n % 3 == 0
        if not cached:
            script.add(
                ev.CallStarted(
                    at=at + 0.1,
                    call=call,
                    task=task.id,
                    attempt=attempt,
                    role=role,
                    model=MODEL,
                    batched=batched,
                )
            )
        if batched:
            _batch(script, task, at, took)
        usage = Usage(input=2_100 + 90 * n, output=640 + 25 * n, cache_read=11_000, cache_write_5m=900)
        script.add(
            ev.CallAnswered(
                at=at + took - 0.2,
                call=call,
                task=task.id,
                attempt=attempt,
                role=role,
                model=MODEL,
                source=AnswerSource.CACHE if cached else AnswerSource.BATCH if batched else AnswerSource.CALL,
                usage=usage,
                usd=0.021 + 0.001 * n,
                usd_saved=0.024 if cached or batched else 0.011,
                usd_saved_batches=0.013 if batched else 0.0,
                duration=took,
            )
        )
    at += took
    script.add(ev.StageFinished(at=at, task=task.id, attempt=attempt, stage=stage, ok=ok, note=note))
    return at


def _batch(script: _Script, task: Task, at: float, took: float) -> None:
    token, batch = f"tok-{task.id}", f"msgbatch_01{task.id[-2:]}9f2c"
    known = {"token": token, "role": Role.IMPLEMENTER, "model": MODEL}
    ids, tasks = tuple(f"{task.id}-{i}" for i in range(3)), (task.id,)
    script.add(ev.BatchCreating(at=at + 0.2, custom_ids=ids, tasks=tasks, **known))  # type: ignore[arg-type]
    script.add(ev.BatchSubmitted(at=at + 0.4, batch=batch, custom_ids=ids, tasks=tasks, **known))  # type: ignore[arg-type]
    script.add(
        ev.BatchPolled(at=at + 2, batch=batch, status="in_progress", succeeded=1, next_poll_at=at + took - 1)
    )
    script.add(ev.BatchEnded(at=at + took - 0.3, batch=batch, succeeded=3, errored=0))


def _train(script: _Script, number: int, cargo: list[tuple[float, Task]]) -> None:
    at = max(end for end, _ in cargo) + 0.5
    names = tuple(task.id for _, task in cargo)
    script.add(ev.TrainDeparted(at=at, train=number, tasks=names))
    script.add(ev.TrainMoved(at=at + 0.3, train=number, stage="combine"))
    script.add(ev.TrainMoved(at=at + 1, train=number, stage="verify"))
    script.add(ev.TrainMoved(at=at + 6, train=number, stage="push"))
    tip = f"{number}d0b1377aa"
    script.add(ev.Pushed(at=at + 7, train=number, ref="refs/heads/taskyard/board", tip=tip))
    for name in names:
        script.add(ev.TaskLanded(at=at + 7, task=name, commit=f"{name[-2:]}41c9e2d0", train=number))
        if name == REFUSED:
            script.add(ev.LessonResolved(at=at + 7, task=name, lesson=f"a3f9c01d2b{name}"))
    script.add(ev.TrainArrived(at=at + 7.1, train=number, landed=names, sent_back=(), tip=tip))


def _gauges(script: _Script) -> Iterator[ev.Event]:
    last = max(event.at for event in script.all())
    for n in range(1, int(last - BEGIN), 2):
        at = BEGIN + n
        yield ev.Measured(
            at=at,
            results=ResultCacheFigures(
                entries=40 + n,
                bytes=900_000 + 21_000 * n,
                hits=n,
                misses=8 + n // 4,
                last_miss="T2.17: base tree changed",
            ),
            templates=TemplateFigures(templates=6, compilations=6, renders=20 + 3 * n, hits=14 + 3 * n),
            lessons=LessonFigures(total=1_204 + n // 20, bytes=410_000),
            history=HistoryFigures(
                entries=700 + n,
                max_entries=1000,
                bytes=41_000_000 + 90_000 * n,
                max_bytes=100_000_000,
                oldest_at=BEGIN - 18 * 3600,
                max_age=24 * 3600,
                prunes=9,
                archived=2410,
                segments=9,
                journal_bytes=1_900_000,
            ),
            limiters=(LimiterFigures("opus", limit=8, in_flight=n % 6, waiting=0),),
            queues=(
                QueueFigures("git", n % 4, at - 2 if n % 4 else None, 10, 5.0),
                QueueFigures("model requests", n % 3, at - 1 if n % 3 else None, 100, 60.0),
            ),
        )
