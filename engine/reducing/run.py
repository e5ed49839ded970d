"""The run as a whole: its start, its resumes, its gauges, its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from engine import events as ev
from engine.errors import budget_in_words
from engine.model import TaskState
from engine.reducing.facts import GAUGES, Facts
from engine.reducing.motion import stopped
from engine.reducing.samples import sample
from engine.snapshot import RunView, Snapshot
from engine.task_view import StageSpan

_RUN_FIELDS = (
    "run",
    "board",
    "repository",
    "base",
    "target",
    "remote",
    "host",
    "pid",
    "roles",
    "economy",
    "max_concurrency",
    "max_attempts",
    "max_batch",
    "max_age",
    "budget_usd",
)


def _run_started(state: Facts, e: ev.RunStarted) -> None:
    fields = {name: getattr(e, name) for name in _RUN_FIELDS}
    state.run = RunView(started=e.at, cycle=state.run.cycle, **fields)
    state.add_tasks(e.tasks)


def _run_resumed(state: Facts, e: ev.RunResumed) -> None:
    # Nobody worked on it since the last that was told, or since it ended.
    left = state.run.finished.at if state.run.finished is not None else min(state.at, e.at)
    idle = max(0.0, e.at - left)
    state.run = replace(
        state.run,
        host=e.host,
        pid=e.pid,
        resumes=state.run.resumes + 1,
        resumed=e.at,
        idle=state.run.idle + idle,
        dispatch="running",
        finished=None,
        budget_reached="",
        locks_away=state.run.locks_away if e.rested else "",
        told_before=state.run.told_before if e.rested else state.notice_count,
        **(asdict(e.setup) if e.setup is not None else {}),
    )
    if not e.rested:
        state.offer = None  # The one who takes the run up reads the board anew.
    state.landings = tuple(at + idle for at in state.landings)
    state.samples = tuple(replace(each, at=each.at + idle) for each in state.samples)
    for view in tuple(state.tasks.values()):
        if view.started is not None and view.ended is None:
            state.change(view.id, idle=view.idle + idle)
        if view.state is TaskState.TO_LAND:
            state.change(view.id, spans=tuple(_rested(span, idle) for span in view.spans))
        if view.state in (TaskState.RUNNING, TaskState.ELSEWHERE):
            state.change(
                view.id,
                state=TaskState.QUEUED,
                stage=None,
                stage_started=None,
                **stopped(view, left, "interrupted"),
            )
    for number, train in state.trains.items():
        if train.ended_at is None:
            state.trains[number] = replace(
                train, stage="failed", detail="interrupted", ended_at=max(train.started_at, left)
            )


def _rested(span: StageSpan, idle: float) -> StageSpan:
    return span if span.ended is not None else replace(span, rested=span.rested + idle)


def _dispatch_changed(state: Facts, e: ev.DispatchChanged) -> None:
    state.run = replace(state.run, dispatch=e.mode, max_concurrency=e.max_concurrency)


def _noticed(state: Facts, e: ev.Noticed) -> None:
    state.notice(e.at, e.level, e.text, e.task)


def _measured(state: Facts, e: ev.Measured) -> None:
    for name in GAUGES:
        value = getattr(e, name)
        if value is not None:
            state.gauges[name] = value
    sample(state, e.at)


def _locks_changed(state: Facts, e: ev.LocksChanged) -> None:
    state.run = replace(state.run, locks_away=e.problem)
    if e.problem:
        state.notice(e.at, "error", f"{e.problem}: no task is claimed and nothing lands until it is back")
    else:
        state.notice(e.at, "info", "the locks are back, and the run goes on")


def _budget_reached(state: Facts, e: ev.BudgetReached) -> None:
    whose = f"task {e.task}" if e.scope == "task" else "the run"
    text = budget_in_words(whose, limit_usd=e.limit_usd, spent_usd=e.spent_usd, next_usd=e.next_usd)
    if e.scope == "run":
        state.run = replace(state.run, budget_reached=text)
    state.notice(e.at, "error", text, e.task)


def _cycle_started(state: Facts, e: ev.CycleStarted) -> None:
    state.load(msgspec.json.decode(e.state, type=Snapshot))
    state.run = replace(state.run, cycle=e.cycle)


def _run_finished(state: Facts, e: ev.RunFinished) -> None:
    state.run = replace(state.run, finished=e)


HANDLERS: dict[type[ev.Event], Callable[[Facts, Any], None]] = {
    ev.RunStarted: _run_started,
    ev.RunResumed: _run_resumed,
    ev.DispatchChanged: _dispatch_changed,
    ev.Noticed: _noticed,
    ev.Measured: _measured,
    ev.LocksChanged: _locks_changed,
    ev.BudgetReached: _budget_reached,
    ev.CycleStarted: _cycle_started,
    ev.RunFinished: _run_finished,
}
