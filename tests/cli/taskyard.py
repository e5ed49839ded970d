"""The command as a user starts it, in a process of its own, and a recorded run to look at."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine import events as ev
from engine.model import AnswerSource, Change, Role, Stage, Task, TaskState, Usage
from engine.paths import StatePaths
from engine.store.journal import Journal
from engine.store.owner import Owner
from engine.store.state_db import open_state

PROGRAM = (sys.executable, "-c", "import sys; from tui.cli import main; sys.exit(main())")
START = 1_800_000_000.0


@dataclass(frozen=True, slots=True)
class Said:
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str


def taskyard(
    *args: str,
    at: Path,
    environ: Mapping[str, str] | None = None,
    plain_user: bool = False,
    timeout: float = 50,
) -> Said:
    """Run `taskyard` in the directory `at`; `environ` is added to the environment.

    As a `plain_user`, root too is bound by the permissions of files.
    """
    done = subprocess.run(
        [*PROGRAM, *args],
        cwd=at,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "COLUMNS": "100", **(environ or {})},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=timeout,
        preexec_fn=_drop_privileges if plain_user and os.geteuid() == 0 else None,
    )
    return Said(done.returncode, done.stdout, done.stderr)


def _drop_privileges() -> None:
    """Let root write only where its permissions say so: without two capabilities from the next exec on (Linux)."""
    libc = ctypes.CDLL(None)
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


def sample_events() -> list[ev.Event]:
    """A run of three tasks: one lands at once, one after a failed attempt, one fails."""
    tasks = (
        Task("T1", "First", line=5),
        Task("T2", "Second", line=6),
        Task("T3", "Third", after=("T1",), line=7),
    )
    at = iter(START + second for second in range(100))
    events: list[ev.Event] = [
        ev.RunStarted(
            at=next(at),
            run="r1",
            board="tasks/board.md",
            repository="/shop",
            base="b" * 40,
            target="taskyard/board",
            remote="origin",
            host="elsewhere",
            pid=1,
            tasks=tasks,
            max_concurrency=4,
            max_attempts=2,
            max_batch=10,
            max_age=5.0,
            budget_usd=10.0,
        )
    ]
    for name in ("T1", "T2"):
        change = Change(commit=name[-1] * 40, base="b" * 40, files=2, added=41, removed=7)
        events += [
            ev.TaskQueued(at=next(at), task=name),
            ev.AttemptStarted(at=next(at), task=name, attempt=1, branch=f"task/{name}", base="b" * 40),
            ev.CallAnswered(
                at=next(at),
                call=f"c-{name}",
                task=name,
                attempt=1,
                role=Role.IMPLEMENTER,
                model="claude-sonnet-5-5",
                source=AnswerSource.CALL,
                usage=Usage(input=1200, output=340, cache_read=31_000),
                usd=0.5,
                usd_saved=0.25,
            ),
            ev.ChangeCommitted(at=next(at), task=name, attempt=1, change=change),
        ]
    return [
        *events,
        ev.AttemptFailed(
            at=next(at), task="T2", attempt=1, stage=Stage.VERIFY, reason="3 != 4 \x1b[31m\r\n[/]"
        ),
        ev.LessonRecorded(at=next(at), task="T2", lesson="l1", text="round once, at the end", times_seen=3),
        ev.AttemptStarted(at=next(at), task="T2", attempt=2, branch="task/T2", base="b" * 40),
        *(
            ev.TaskReadyToLand(at=next(at), task=name, attempt=1, commit=name[-1] * 40)
            for name in ("T1", "T2")
        ),
        ev.TrainDeparted(at=next(at), train=1, tasks=("T1", "T2")),
        ev.Pushed(at=next(at), train=1, ref="origin/taskyard/board", tip="f" * 40),
        *(ev.TaskLanded(at=next(at), task=name, commit=name[-1] * 40, train=1) for name in ("T1", "T2")),
        ev.TrainArrived(at=next(at), train=1, landed=("T1", "T2"), sent_back=(), tip="f" * 40),
        ev.AttemptStarted(at=next(at), task="T3", attempt=1, branch="task/T3", base="f" * 40),
        ev.TaskEnded(
            at=next(at), task="T3", state=TaskState.FAILED, reason="no change was made (attempt 2 of 2)"
        ),
        ev.RunFinished(
            at=START + 72,
            status="failed",
            exit_status=1,
            total=3,
            landed=2,
            failed=1,
            cancelled=0,
            blocked=0,
            trains=1,
            pushes=1,
            model_calls=2,
            batch_calls=0,
            cache_hits=0,
            tokens=Usage(input=2400, output=680, cache_read=62_000),
            usd=1.0,
            usd_saved=0.5,
            duration_s=72.0,
        ),
    ]


def record(root: Path, events: list[ev.Event], *, run: str = "r1", owner: Owner | None = None) -> StatePaths:
    """Write a run into the journal of the repository at `root`, as the engine would."""
    paths = StatePaths.of(root / ".git", os.environ)
    paths.state.mkdir(parents=True, exist_ok=True)
    database = open_state(paths.state_db)
    journal = Journal(database, paths.archive, clock=lambda: START)
    journal.begin_run(run, "tasks/board.md", owner=owner, started=START)
    if events:
        journal.append(run, events, durable=True).result()
    if events and isinstance(events[-1], ev.RunFinished):
        journal.end_run(run, events[-1].at, events[-1].status).result()
    database.close()
    return paths
