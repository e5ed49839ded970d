"""Events and runs for tests: each names what it is about, and leaves out what it is not.

state = RunState().apply_all([started(Task("T1", "First")), begun("T1", at=1.0)])
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from engine import events as ev
from engine.model import AnswerSource, Change, Role, Stage, Task, TaskState, Usage
from engine.paths import StatePaths
from engine.store.journal import Journal
from engine.store.owner import Owner
from engine.store.state_db import open_state

START = 1_800_000_000.0
BASE = "b" * 40
PAIR = (Task("A-1", "Add one"), Task("B-2", "Add two", after=("A-1",)))


def started(*tasks: Task, at: float = 0.0, **changes: Any) -> ev.RunStarted:
    """The first event of a run over these tasks, or over a pair of which the second waits for the first."""
    event = ev.RunStarted(
        at=at,
        run="r1",
        board="tasks/board.md",
        repository="/repo",
        base=BASE,
        target="taskyard/board",
        remote="origin",
        host="here",
        pid=1,
        tasks=tasks or PAIR,
        max_concurrency=10,
        max_attempts=3,
        max_batch=10,
        max_age=5.0,
    )
    return replace(event, **changes)


def begun(task: str, *, at: float, attempt: int = 1, **changes: Any) -> ev.AttemptStarted:
    """An attempt begins."""
    event = ev.AttemptStarted(at=at, task=task, attempt=attempt, branch=f"task/{task}", base=BASE)
    return replace(event, **changes)


def answered(call: str, task: str, *, at: float, **changes: Any) -> ev.CallAnswered:
    """The Implementer's model has answered, for half a dollar."""
    event = ev.CallAnswered(
        at=at,
        call=call,
        task=task,
        attempt=1,
        role=Role.IMPLEMENTER,
        model="claude-sonnet-5-5",
        source=AnswerSource.CALL,
        usage=Usage(input=100, output=10),
        usd=0.5,
    )
    return replace(event, **changes)


def finished(*, at: float, **changes: Any) -> ev.RunFinished:
    """The last event of a run in which nothing happened but what `changes` tell."""
    event = ev.RunFinished(
        at=at,
        status="landed",
        exit_status=0,
        total=0,
        landed=0,
        failed=0,
        cancelled=0,
        blocked=0,
        trains=0,
        pushes=0,
        model_calls=0,
        batch_calls=0,
        batched_requests=0,
        cache_hits=0,
        tokens=Usage(),
        usd=0.0,
        usd_saved=0.0,
        duration_s=0.0,
    )
    return replace(event, **changes)


def short_run() -> list[ev.Event]:
    """A run of three tasks: one lands at once, one after a failed attempt, one fails."""
    tasks = (
        Task("T1", "First", line=5),
        Task("T2", "Second", line=6),
        Task("T3", "Third", after=("T1",), line=7),
    )
    at = iter(START + second for second in range(100))
    events: list[ev.Event] = [
        started(
            *tasks,
            at=next(at),
            repository="/shop",
            host="elsewhere",
            max_concurrency=4,
            max_attempts=2,
            budget_usd=10.0,
        )
    ]
    used = Usage(input=1200, output=340, cache_read=31_000)
    for name in ("T1", "T2"):
        change = Change(commit=name[-1] * 40, base=BASE, files=2, added=41, removed=7)
        events += [
            ev.TaskQueued(at=next(at), task=name),
            begun(name, at=next(at)),
            answered(f"c-{name}", name, at=next(at), usage=used, usd_saved=0.25),
            ev.ChangeCommitted(at=next(at), task=name, attempt=1, change=change),
        ]
    return [
        *events,
        ev.AttemptFailed(
            at=next(at), task="T2", attempt=1, stage=Stage.VERIFY, reason="3 != 4 \x1b[31m\r\n[/]"
        ),
        ev.LessonRecorded(at=next(at), task="T2", lesson="l1", text="round once, at the end", times_seen=3),
        begun("T2", at=next(at), attempt=2),
        *(
            ev.TaskReadyToLand(at=next(at), task=name, attempt=1, commit=name[-1] * 40)
            for name in ("T1", "T2")
        ),
        ev.TrainDeparted(at=next(at), train=1, tasks=("T1", "T2")),
        ev.Pushed(at=next(at), train=1, ref="origin/taskyard/board", tip="f" * 40),
        *(ev.TaskLanded(at=next(at), task=name, commit=name[-1] * 40, train=1) for name in ("T1", "T2")),
        ev.TrainArrived(at=next(at), train=1, landed=("T1", "T2"), sent_back=(), tip="f" * 40),
        begun("T3", at=next(at), base="f" * 40),
        ev.TaskEnded(
            at=next(at), task="T3", state=TaskState.FAILED, reason="no change was made (attempt 2 of 2)"
        ),
        finished(
            at=START + 72,
            status="failed",
            exit_status=1,
            total=3,
            landed=2,
            failed=1,
            trains=1,
            pushes=1,
            model_calls=2,
            tokens=Usage(input=2400, output=680, cache_read=62_000),
            usd=1.0,
            usd_saved=0.5,
            duration_s=72.0,
        ),
    ]


def record(
    root: Path, events: Sequence[ev.Event], *, run: str = "r1", owner: Owner | None = None
) -> StatePaths:
    """Write a run into the journal of the repository at `root`, as the engine would."""
    paths = StatePaths.of(root / ".git", os.environ)
    paths.state.mkdir(parents=True, exist_ok=True)
    database = open_state(paths.state_db)
    journal = Journal(database, paths.archive, clock=lambda: START)
    journal.begin_run(run, "tasks/board.md", owner=owner, started=START)
    if events:
        journal.append(run, events, durable=True).result()
    if events and isinstance(events[-1], ev.RunFinished) and events[-1].status in ("landed", "failed"):
        journal.end_run(run, events[-1].at, events[-1].status).result()
    database.close()
    return paths
