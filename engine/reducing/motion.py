"""The parts of a task's view that are in motion: open stages and open calls, and how they stop and begin anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from engine.model import Task, TaskState
from engine.rows import asks
from engine.task_view import CallView, TaskView

MAX_CALLS = 60  # of one task


def end_call(view: TaskView, call_id: str, at: float, **fields: Any) -> dict[str, Any]:
    """Close the call in the view's list; gives the fields of the view that change."""
    calls = list(view.calls)
    for index, call in enumerate(calls):
        # One that a kill interrupted may have its answer after all, and the restart finds it.
        if call.id == call_id and call.source is None:
            calls[index] = replace(call, ended=max(call.started, at), stopped=False, **fields)
            break
    return calls_of(calls)


def calls_of(calls: Sequence[CallView]) -> dict[str, Any]:
    """The view's fields for these calls: the newest of them, and how many still wait in batches."""
    kept = tuple(calls[-MAX_CALLS:])
    return {"calls": kept, "batched": sum(call.batched and call.ended is None for call in kept)}


def stopped(view: TaskView, at: float, why: str) -> dict[str, Any]:
    """The view's fields once nothing of it is in motion any more."""
    spans = tuple(
        span if span.ended is not None else replace(span, ended=max(span.started, at), note=why)
        for span in view.spans
    )
    calls = [
        call
        if call.ended is not None
        else replace(call, ended=max(call.started, at), error=why, stopped=True)
        for call in view.calls
    ]
    return {"spans": spans, **calls_of(calls)}


def ended_at(view: TaskView, at: float) -> dict[str, Any]:
    """The view's fields once it has ended, now or again."""
    return {**worked_on(view, at), "ended": at}


def worked_on(view: TaskView, at: float) -> dict[str, Any]:
    """The view's fields once somebody works on it: what passed since it had ended was nobody's work."""
    if view.ended is None:
        return {}
    rest = max(0.0, at - view.ended) if view.started is not None else 0.0
    return {"ended": None, "idle": view.idle + rest}


def reopened(view: TaskView) -> dict[str, Any]:
    """The view's fields once somebody asked to try it again: by the row as it stands by now."""
    fields = rewritten(view, view.revised) if view.revised is not None else {}
    return {
        **fields,
        "state": TaskState.WAITING,
        "removed": False,
        "problem": "",
        "last": "",
        "sent_back": False,
        "failures": 0,
        "returns": 0,
        "stage": None,
        "commit": "",
        "train": None,
    }


def rewritten(view: TaskView, row: Task) -> dict[str, Any]:
    """The view's fields with another row. What was made for other words is not the new words' work: it begins anew."""
    fields: dict[str, Any] = {"task": row, "revised": None}
    if view.attempt and asks(row) != asks(view.task):
        fields |= {"over": True, "plan": None, "change": None, "feedback": ""}
    return fields
