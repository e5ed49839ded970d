"""One task: its attempts, stages, landing and lessons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from engine import events as ev
from engine.figures import StageTime
from engine.model import Stage, TaskState
from engine.reducing.facts import Facts
from engine.reducing.motion import ended_at, reopened, stopped, worked_on
from engine.snapshot import LessonNote
from engine.task_view import AttemptView, LessonTaught, StageSpan, TaskView

MAX_SPANS = 60  # stages of one task, the newest
MAX_ATTEMPTS = 12  # of one task that ended badly, the newest
MAX_LANDINGS = 240  # times, for the rate of landing
MAX_LESSONS = 50  # notes of what was learned, the newest
MAX_LEARNED = 20  # lessons that one task caused, the newest


def _task_queued(state: Facts, e: ev.TaskQueued) -> None:
    state.change(e.task, state=TaskState.QUEUED)


def _task_elsewhere(state: Facts, e: ev.TaskElsewhere) -> None:
    view = state.tasks.get(e.task)
    if view is not None and not view.state.ended:
        state.change(
            e.task,
            state=TaskState.ELSEWHERE,
            stage=None,
            stage_started=None,
            last=f"at {e.host}, process {e.pid}",
            **stopped(view, e.at, "taken over"),
        )


def _task_reopened(state: Facts, e: ev.TaskReopened) -> None:
    view = state.tasks.get(e.task)
    if view is not None:
        state.change(e.task, **reopened(view))


def _ended_badly(view: TaskView) -> tuple[AttemptView, ...]:
    """The attempts that ended badly, with the newest as the view tells it now."""
    newest = view.newest_attempt(view.spans[-1].stage if view.spans else None)
    return (*(each for each in view.ended_badly if each.attempt != view.attempt), newest)[-MAX_ATTEMPTS:]


def _attempt_started(state: Facts, e: ev.AttemptStarted) -> None:
    view = state.tasks.get(e.task)
    if view is None:
        return
    state.add(retries=int(e.attempt > 1), lessons_used=len(e.lessons))
    state.change(
        e.task,
        state=TaskState.RUNNING,
        attempt=e.attempt,
        over=False,
        branch=e.branch,
        base=e.base,
        worktree=e.worktree,
        logs=e.logs,
        lessons=e.lessons,
        started=view.started if view.started is not None else e.at,
        **worked_on(view, e.at),
        commit="",
        change=None,
        problem="",
        verification=None,
        verdict=None,
        stage=None,
        stage_started=None,
        train=None,
    )


def _stage_started(state: Facts, e: ev.StageStarted) -> None:
    view = state.tasks.get(e.task)
    if view is not None:
        fields = worked_on(view, e.at)
        before = view.spans[-1] if view.spans else None
        if (
            before is not None
            and before.attempt == e.attempt
            and before.ok is False
            and view.last == before.note
        ):
            fields["last"] = ""  # what broke this attempt off is over, now that it goes on
        span = StageSpan(e.attempt, e.stage, e.at, idle=fields.get("idle", view.idle))
        state.change(
            e.task,
            state=TaskState.RUNNING,
            stage=e.stage,
            stage_started=e.at,
            spans=(*view.spans, span)[-MAX_SPANS:],
            **fields,
        )


def _stage_finished(state: Facts, e: ev.StageFinished) -> None:
    view = state.tasks.get(e.task)
    if view is None:
        return
    spans = _end_span(state, view, e.stage, e.attempt, e.at, ok=e.ok, note=e.note, log=e.log)
    state.change(e.task, spans=spans, last=e.note or view.last)


def _end_span(
    state: Facts, view: TaskView, stage: Stage, attempt: int, at: float, *, ok: bool, note: str, log: str = ""
) -> tuple[StageSpan, ...]:
    """Close the stage's open span, and count its time; gives all spans."""
    spans = list(view.spans)
    for index in range(len(spans) - 1, -1, -1):
        span = spans[index]
        if span.stage is stage and span.attempt == attempt and span.ended is None:
            ended = max(span.started, at)
            spans[index] = replace(span, ended=ended, ok=ok, note=note, log=log)
            _time_stage(state, stage, spans[index].elapsed(ended))
            break
    return tuple(spans)


def _time_stage(state: Facts, stage: Stage, seconds: float) -> None:
    old = state.stage_times.get(stage, StageTime(stage))
    state.stage_times[stage] = StageTime(
        stage, old.count + 1, old.total + seconds, old.squares + seconds * seconds
    )


def _progressed(state: Facts, e: ev.Progressed) -> None:
    state.change(e.task, last=e.text)


def _plan_made(state: Facts, e: ev.PlanMade) -> None:
    state.change(e.task, plan=e.plan)


def _change_committed(state: Facts, e: ev.ChangeCommitted) -> None:
    state.change(e.task, change=e.change)


def _verified(state: Facts, e: ev.Verified) -> None:
    state.change(e.task, verification=e.verification)


def _judged(state: Facts, e: ev.Judged) -> None:
    state.change(e.task, verdict=e.verdict)


def _attempt_failed(state: Facts, e: ev.AttemptFailed) -> None:
    view = state.tasks.get(e.task)
    if view is None:
        return
    failed = state.change(
        e.task,
        over=True,
        problem=e.reason,
        last=e.reason,
        feedback=e.feedback,
        failures=view.failures + 1,
    )
    if failed is not None:
        state.change(e.task, ended_badly=_ended_badly(failed))


def _ready_to_land(state: Facts, e: ev.TaskReadyToLand) -> None:
    view = state.tasks.get(e.task)
    if view is None:
        return
    state.change(
        e.task,
        state=TaskState.TO_LAND,
        spans=(*view.spans, StageSpan(e.attempt, Stage.LAND, e.at, idle=view.idle))[-MAX_SPANS:],
        stage=Stage.LAND,
        stage_started=e.at,
        commit=e.commit,
        sent_back=False,
        problem="",
        last="waits for a train",
    )


def _sent_back(state: Facts, e: ev.TaskSentBack) -> None:
    view = state.tasks.get(e.task)
    if view is None:
        return
    state.add(sent_back=1)
    back = state.change(
        e.task,
        spans=_end_span(state, view, Stage.LAND, e.attempt, e.at, ok=False, note=e.reason),
        state=TaskState.QUEUED,
        over=True,
        stage=None,
        stage_started=None,
        sent_back=True,
        train=None,
        commit="",
        problem=e.reason,
        last=e.reason,
        feedback=e.feedback,
        returns=view.returns + 1,
    )
    if back is not None:
        state.change(e.task, ended_badly=_ended_badly(back))


def _landed(state: Facts, e: ev.TaskLanded) -> None:
    view = state.tasks.get(e.task)
    if view is None or (view.state is TaskState.LANDED and view.commit):
        return
    where = f"train {e.train}, {e.commit[:7]}" if e.train else f"landed as {e.commit[:7]}"
    if e.by:
        where = f"{where} by {e.by}"
    state.landings = (*state.landings, e.at)[-MAX_LANDINGS:]
    state.add(landed=int(not e.by))
    state.change(
        e.task,
        state=TaskState.LANDED,
        stage=None,
        stage_started=None,
        commit=e.commit,
        train=e.train,
        **ended_at(view, e.at),
        problem="",
        put_off=None,
        sent_back=False,
        last=where,
        spans=_end_span(state, view, Stage.LAND, view.attempt, e.at, ok=True, note=where),
    )


def _task_ended(state: Facts, e: ev.TaskEnded) -> None:
    view = state.tasks.get(e.task)
    if view is None:
        return
    ended = state.change(
        e.task,
        state=e.state,
        stage_started=None,
        **ended_at(view, e.at),
        problem=e.reason,
        put_off=None,
        last=e.reason,
        **stopped(view, e.at, e.reason),
    )
    if e.state is TaskState.FAILED:
        state.notice(e.at, "warning", f"failed: {e.reason}", e.task)
    if ended is not None and ended.attempt and not ended.over:
        state.change(e.task, ended_badly=_ended_badly(ended))


# Lessons


def _lessons_given(state: Facts, e: ev.LessonsGiven) -> None:
    view = state.tasks.get(e.task)
    if view is not None and view.attempt == e.attempt:
        state.add(lessons_used=len(e.lessons) - len(view.lessons))
        state.change(e.task, lessons=e.lessons)


def _lesson_recorded(state: Facts, e: ev.LessonRecorded) -> None:
    state.add(lessons_recorded=1)
    view = state.tasks.get(e.task)
    if view is not None:
        taught = LessonTaught(e.lesson, e.text, view.attempt, e.terms)
        earlier = (each for each in view.taught if each.id != e.lesson)
        learned = view.learned if e.lesson in view.learned else (*view.learned, e.lesson)
        state.change(e.task, learned=learned[-MAX_LEARNED:], taught=(*earlier, taught)[-MAX_LEARNED:])
    note = LessonNote(e.at, e.task, e.lesson, e.text, e.times_seen)
    # One lesson is one note, the newest: tasks that fail by the same are told in its count.
    others = tuple(other for other in state.lesson_notes if other.lesson != e.lesson)
    state.lesson_notes = (*others, note)[-MAX_LESSONS:]


def _lesson_resolved(state: Facts, e: ev.LessonResolved) -> None:
    view = state.tasks.get(e.task)
    if view is not None:
        state.change(
            e.task,
            learned=tuple(lesson for lesson in view.learned if lesson != e.lesson),
            taught=_retold(view, e.lesson, resolved=True),
        )
    state.lesson_notes = tuple(
        replace(note, resolved=True) if note.lesson == e.lesson else note for note in state.lesson_notes
    )


def _lesson_left_open(state: Facts, e: ev.LessonLeftOpen) -> None:
    view = state.tasks.get(e.task)
    if view is not None:
        state.change(e.task, taught=_retold(view, e.lesson, landed_with=e.attempt, changed=e.changed))


def _retold(view: TaskView, lesson: str, **news: Any) -> tuple[LessonTaught, ...]:
    """The lessons that the task taught, with what is known anew of one of them."""
    return tuple(replace(each, **news) if each.id == lesson else each for each in view.taught)


HANDLERS: dict[type[ev.Event], Callable[[Facts, Any], None]] = {
    ev.TaskQueued: _task_queued,
    ev.TaskElsewhere: _task_elsewhere,
    ev.TaskReopened: _task_reopened,
    ev.AttemptStarted: _attempt_started,
    ev.StageStarted: _stage_started,
    ev.StageFinished: _stage_finished,
    ev.Progressed: _progressed,
    ev.PlanMade: _plan_made,
    ev.ChangeCommitted: _change_committed,
    ev.Verified: _verified,
    ev.Judged: _judged,
    ev.AttemptFailed: _attempt_failed,
    ev.TaskReadyToLand: _ready_to_land,
    ev.TaskSentBack: _sent_back,
    ev.TaskLanded: _landed,
    ev.TaskEnded: _task_ended,
    ev.LessonsGiven: _lessons_given,
    ev.LessonRecorded: _lesson_recorded,
    ev.LessonResolved: _lesson_resolved,
    ev.LessonLeftOpen: _lesson_left_open,
}
