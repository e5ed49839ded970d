"""The reducer over one task: what a run leaves of it, and what is taken up of it after a crash."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine import events as ev
from engine.model import (
    AnswerSource,
    BoardStatus,
    Change,
    Role,
    Stage,
    Task,
    TaskState,
    Usage,
    Verdict,
)
from engine.rows import BoardChange, EditKind, RowEdit
from engine.state import RunState
from tests.tui import sample_run
from tests.unit.run_events import (
    A,
    B,
    after,
    answer,
    attempt,
    call,
    consistent,
    encoded,
    landed_run,
    stage,
    started,
)
from tui.frame import Frame
from tui.line import plain
from tui.sections import timeline_lines
from tui.source import Health


def test_a_task_that_lands_leaves_all_its_figures() -> None:
    snapshot = after(*landed_run()).snapshot()
    consistent(snapshot)
    view = snapshot.task("A-1")
    assert view is not None
    assert (view.state, view.stage, view.commit, view.train) == (TaskState.LANDED, None, "c" * 40, 1)
    assert view.elapsed(999.0) == 11.0
    assert [span.stage for span in view.spans] == list(Stage)
    assert (view.usd, view.usd_saved, view.model_calls, view.cache_hits, view.batched) == (1.0, 0.5, 1, 1, 0)
    assert view.usage == Usage(input=200, output=20)
    assert snapshot.count(TaskState.LANDED) == 1
    assert snapshot.count(TaskState.WAITING) == 1
    totals = snapshot.totals
    assert (totals.pushes, totals.trains, totals.model_calls, totals.batched_requests) == (1, 1, 1, 1)
    assert (totals.cache_hits, totals.usd, totals.usd_saved, totals.tokens_saved) == (1, 1.0, 0.5, 110)
    assert {time.stage: time.total for time in snapshot.stage_times} == {
        Stage.PLAN: 2.0,
        Stage.IMPLEMENT: 5.0,
        Stage.VERIFY: 1.0,
        Stage.JUDGE: 1.0,
        Stage.LAND: 2.0,
    }


def test_an_answer_from_the_cache_is_listed_although_no_call_was_made() -> None:
    view = after(attempt(), answer(1, at=103.0, source=AnswerSource.CACHE)).view("A-1")
    (listed,) = view.calls
    assert (listed.source, listed.started, listed.ended) == (AnswerSource.CACHE, 101.0, 103.0)
    assert listed.record == "/logs/c.json"
    assert (view.usd, view.model_calls, view.cache_hits) == (0.0, 0, 1)


def test_an_unpriced_call_counts_as_such_and_costs_nothing_known() -> None:
    state = after(attempt(), call(1, at=102.0), answer(1, at=103.0, usd=None))
    assert (state.totals.usd, state.totals.unpriced, state.view("A-1").unpriced) == (0.0, 1, 1)


def test_landing_is_told_once_however_often_it_is_said() -> None:
    twice = after(*landed_run(), *landed_run()[-1:])
    assert encoded(twice.snapshot()) == encoded(after(*landed_run()).snapshot())


def test_a_failed_call_that_is_tried_again_stays_open() -> None:
    failed = ev.CallFailed(
        at=103.0, call="c1", task="A-1", role=Role.JUDGE, model="m", error="overloaded", retry_in=2.0
    )
    state = after(attempt(), call(1, at=102.0, batched=True), failed)
    assert state.view("A-1").calls[0].ended is None
    assert (state.view("A-1").batched, state.view("A-1").last) == (1, "overloaded; again in 2 s")
    state.apply(msgspec.structs.replace(failed, retry_in=None))
    assert state.view("A-1").calls[0].error == "overloaded"
    assert state.view("A-1").batched == 0


def test_a_cancelled_task_has_nothing_in_motion() -> None:
    state = after(
        attempt(),
        stage(Stage.IMPLEMENT, at=102.0),
        call(1, at=102.0, batched=True),
        ev.TaskEnded(at=104.0, task="A-1", state=TaskState.CANCELLED, reason="cancelled"),
    )
    view = state.view("A-1")
    assert (view.batched, view.calls[0].ended, view.spans[0].ended) == (0, 104.0, 104.0)
    assert view.elapsed(999.0) == 3.0


# Trying again


def test_the_time_that_a_task_lay_ended_is_nobodys_work() -> None:
    end = ev.TaskEnded(at=106.0, task="A-1", state=TaskState.FAILED, reason="red")
    state = after(attempt(at=101.0), FAILED, end)
    assert state.view("A-1").elapsed(150.0) == 5.0
    state.apply(ev.RunResumed(at=200.0, host="h", pid=8, rested=True))
    state.apply(ev.TaskReopened(at=200.0, task="A-1"))
    assert state.view("A-1").elapsed(210.0) == 5.0, "it waits, and nobody works on it"
    state.apply(attempt(2, at=220.0))
    assert state.view("A-1").elapsed(223.0) == 8.0
    state.apply(ev.TaskEnded(at=224.0, task="A-1", state=TaskState.CANCELLED, reason="cancelled"))
    assert state.view("A-1").elapsed(900.0) == 9.0


def test_an_interrupted_attempt_that_goes_on_after_a_retry_does_not_count_the_time_between() -> None:
    end = ev.TaskEnded(at=106.0, task="A-1", state=TaskState.CANCELLED, reason="cancelled")
    state = after(attempt(at=101.0), end, ev.TaskReopened(at=200.0, task="A-1"))
    state.apply(stage(Stage.VERIFY, at=210.0))
    assert state.view("A-1").elapsed(212.0) == 7.0


def test_what_ended_before_it_began_counts_from_its_first_attempt() -> None:
    end = ev.TaskEnded(at=106.0, task="A-1", state=TaskState.CANCELLED, reason="cancelled")
    state = after(end, ev.TaskReopened(at=200.0, task="A-1"), attempt(at=210.0))
    assert state.view("A-1").elapsed(212.0) == 2.0


def test_a_task_that_is_given_up_is_a_notice_each_time_and_a_cancelled_one_is_none() -> None:
    ends = [
        ev.TaskEnded(at=106.0, task=name, state=end, reason="red")
        for name, end in (("A-1", TaskState.FAILED), ("B-2", TaskState.CANCELLED))
    ]
    state = after(attempt(), *ends)
    assert [(each.task, each.text) for each in state.notices] == [("A-1", "failed: red")]
    state.apply_all([ev.TaskReopened(at=107.0, task="A-1"), attempt(2, at=108.0), ends[0]])
    assert len(state.notices) == 2


# Resuming


def test_an_interrupted_attempt_is_queued_again_and_not_over() -> None:
    state = after(
        attempt(),
        stage(Stage.IMPLEMENT, at=102.0),
        call(1, at=102.0, batched=True),
        ev.TrainDeparted(at=103.0, train=1, tasks=()),
        ev.BudgetReached(at=103.0, scope="run", limit_usd=1, spent_usd=1, next_usd=1),
        ev.RunResumed(at=200.0, host="there", pid=8),
    )
    view, run = state.view("A-1"), state.run
    assert (view.state, view.stage, view.attempt, view.over) == (TaskState.QUEUED, None, 1, False)
    assert (view.spans[0].note, view.spans[0].ended) == ("interrupted", 103.0)
    assert (view.calls[0].error, view.batched) == ("interrupted", 0)
    assert (run.host, run.pid, run.resumes, run.budget_reached) == ("there", 8, 1, "")
    assert state.snapshot().trains[0].stage == "failed"


def test_an_attempt_that_goes_on_is_not_told_as_interrupted() -> None:
    """It verified, and its row said "interrupted" until the check had said something."""

    def ended(note: str, *, ok: bool, at: float) -> ev.Event:
        return ev.StageFinished(at=at, task="A-1", attempt=1, stage=Stage.VERIFY, ok=ok, note=note)

    state = after(attempt(), stage(Stage.VERIFY, at=102.0), ended("interrupted", ok=False, at=103.0))
    assert state.view("A-1").last == "interrupted"
    state.apply_all([ev.RunResumed(at=200.0, host="there", pid=8), stage(Stage.VERIFY, at=201.0)])
    assert state.view("A-1").last == ""
    state.apply_all([ended("passed in 2 s", ok=True, at=203.0), stage(Stage.JUDGE, at=203.0)])
    assert state.view("A-1").last == "passed in 2 s"
    red = after(attempt(), stage(Stage.VERIFY, at=102.0), ended("exit 1: red", ok=False, at=103.0), FAILED)
    red.apply_all([attempt(2, at=104.0), stage(Stage.IMPLEMENT, attempt=2, at=104.0)])
    assert red.view("A-1").last == "red", "why it is tried again"


def test_the_time_between_two_processes_is_nobodys_work() -> None:
    state = after(
        attempt(at=101.0), stage(Stage.IMPLEMENT, at=110.0), ev.RunResumed(at=200.0, host="h", pid=8)
    )
    assert (state.run.idle, state.run.elapsed(230.0)) == (90.0, 40.0)
    assert state.view("A-1").elapsed(230.0) == 39.0
    assert state.view("B-2").elapsed(230.0) == 0.0
    state.apply(ev.RunResumed(at=300.0, host="h", pid=9))
    assert (state.run.idle, state.run.resumed) == (190.0, 300.0)


def test_stages_and_notices_leave_out_the_time_between_two_processes() -> None:
    """An attempt of 13 s that was taken up the next day was told as one of a day, beside a task of 13 s."""
    state = after(
        attempt(at=101.0), stage(Stage.IMPLEMENT, at=101.0), ev.Noticed(at=103.0, level="error", text="red")
    )
    state.apply(ev.RunResumed(at=1003.0, host="h", pid=8))
    state.apply_all([attempt(at=1003.0), stage(Stage.IMPLEMENT, at=1004.0)])
    state.apply(ev.StageFinished(at=1010.0, task="A-1", attempt=1, stage=Stage.IMPLEMENT, ok=True))
    state.apply(ev.TaskReadyToLand(at=1010.0, task="A-1", attempt=1, commit="c" * 40))
    state.apply(ev.Noticed(at=1012.0, level="error", text="red still"))
    state.apply(ev.RunResumed(at=9012.0, host="h", pid=9))
    state.apply(ev.TaskLanded(at=9013.0, task="A-1", commit="c" * 40, train=1))
    view = state.view("A-1")
    assert [(span.stage, span.idle, span.rested) for span in view.spans] == [
        (Stage.IMPLEMENT, 0.0, 0.0),
        (Stage.IMPLEMENT, 900.0, 0.0),
        (Stage.LAND, 900.0, 8000.0),
    ]
    assert view.elapsed(9999.0) == 12.0
    assert "attempt 1  12.0 s  from 00:00 on" in plain(timeline_lines(view, 9999.0, 80)[0])
    assert state.snapshot().stage_times[-1].total == 3.0, "the land stage, of which an estimate is made"
    assert [notice.elapsed for notice in state.notices] == [3.0, 12.0]


def test_only_what_the_process_at_work_tells_is_an_error_still() -> None:
    """It tells anew what is still so; what is mended since stayed in the header, and what is not counted twice."""
    state = after(
        ev.Noticed(at=101.0, level="error", text="no agent"),
        ev.Noticed(at=101.0, level="error", text="row 3"),
    )

    def errors(dismissed: int = 0) -> int:
        return Frame(state.snapshot(), 0.0, Health(), "LIVE", dismissed).errors

    assert errors() == 2
    state.apply(ev.RunResumed(at=150.0, host="h", pid=7, rested=True))
    assert errors() == 2, "it is the same process"
    state.apply(ev.RunResumed(at=200.0, host="h", pid=8))
    state.apply(ev.Noticed(at=201.0, level="error", text="row 3"))
    assert (errors(), len(state.notices)) == (1, 3)
    assert errors(dismissed=3) == 0


def test_a_run_that_ended_and_goes_on_was_idle_since_its_end() -> None:
    state = after(sample_run.finished(150.0), ev.Measured(at=170.0))
    assert state.run.elapsed(600.0) == 50.0
    state.apply(ev.RunResumed(at=600.0, host="h", pid=8))
    assert state.run.elapsed(610.0) == 60.0


def test_work_that_waits_for_a_train_still_waits_after_a_resume() -> None:
    state = after(*landed_run()[:20], ev.RunResumed(at=200.0, host="there", pid=8))
    view = state.view("A-1")
    assert (view.state, view.commit) == (TaskState.TO_LAND, "c" * 40)


FAILED = ev.AttemptFailed(
    at=105.0, task="A-1", attempt=1, stage=Stage.VERIFY, reason="red", feedback="It is red."
)
SENT_BACK = ev.TaskSentBack(at=105.0, task="A-1", attempt=1, reason="conflict", feedback="It clashes.")


@pytest.mark.parametrize("end", [FAILED, SENT_BACK], ids=["failed", "sent back"])
def test_an_attempt_that_ended_is_over_until_the_next_begins(end: ev.Event) -> None:
    state = after(attempt(), end, ev.RunResumed(at=200.0, host="there", pid=8))
    view = state.view("A-1")
    assert (view.state, view.over, view.feedback) == (TaskState.QUEUED, True, end.feedback)  # type: ignore[attr-defined]
    state.apply(attempt(2, at=201.0))
    assert (state.view("A-1").over, state.view("A-1").problem) == (False, "")


def test_what_an_earlier_attempt_came_to_stays_known() -> None:
    change = Change("c" * 40, "b" * 40, 1, 2, 3)
    refused = Verdict(False, "rounded twice")
    state = after(
        attempt(),
        stage(Stage.JUDGE, at=102.0),
        ev.ChangeCommitted(at=103.0, task="A-1", attempt=1, change=change),
        ev.Judged(at=104.0, task="A-1", attempt=1, verdict=refused),
        FAILED,
    )
    assert [each.attempt for each in state.view("A-1").attempts] == [1]
    state.apply_all(
        [attempt(2, at=106.0), ev.TaskSentBack(at=107.0, task="A-1", attempt=2, reason="conflict")]
    )
    state.apply(attempt(3, at=108.0))
    first, second, third = state.view("A-1").attempts
    assert (first.stage, first.problem, first.feedback) == (Stage.JUDGE, "red", "It is red.")
    assert (first.change, first.verdict) == (change, refused)
    assert (second.problem, second.change) == ("conflict", None)
    assert (third.attempt, third.problem, third.feedback) == (3, "", "")
    state.apply(ev.TaskEnded(at=109.0, task="A-1", state=TaskState.CANCELLED, reason="cancelled"))
    state.apply(ev.TaskReopened(at=110.0, task="A-1"))
    state.apply(attempt(4, at=111.0))
    assert [each.problem for each in state.view("A-1").attempts] == ["red", "conflict", "cancelled", ""]


def test_a_failed_task_that_is_tried_again_by_hand_does_not_repeat_its_last_attempt() -> None:
    state = after(
        attempt(),
        FAILED,
        ev.TaskEnded(at=106.0, task="A-1", state=TaskState.FAILED, reason="red"),
        ev.TaskReopened(at=107.0, task="A-1"),
    )
    view = state.view("A-1")
    assert (view.state, view.over, view.failures, view.problem) == (TaskState.WAITING, True, 0, "")
    assert view.feedback == "It is red."


def test_a_row_that_somebody_marked_as_landed_is_landed() -> None:
    row = msgspec.structs.replace(A, status=BoardStatus.LANDED)
    state = after(attempt(), ev.TasksAdded(at=150.0, tasks=(row,)))
    assert state.view("A-1").state is TaskState.LANDED
    state.apply(ev.TaskLanded(at=151.0, task="A-1", commit="c" * 40, train=0))
    assert state.view("A-1").commit == "c" * 40


def test_a_rewritten_row_changes_the_task_unless_its_work_is_done() -> None:
    new = msgspec.structs.replace(A, scope="Add three")
    assert after(ev.TasksAdded(at=101.0, tasks=(new,))).view("A-1").task.scope == "Add three"
    assert after(*landed_run(), ev.TasksAdded(at=150.0, tasks=(new,))).view("A-1").task.scope == "Add one"


def test_rows_that_have_landed_before_count_as_landed() -> None:
    state = RunState().apply_all([started(msgspec.structs.replace(A, status=BoardStatus.LANDED), B)])
    assert state.snapshot().counts == {TaskState.LANDED: 1, TaskState.WAITING: 1}


def test_pushes_are_saved_by_what_this_run_landed_and_not_by_what_had_landed_before() -> None:
    rows = [Task(f"B-{number}", "scope", status=BoardStatus.LANDED) for number in range(9)]
    rows += [Task("C-1", "scope"), Task("C-2", "scope"), Task("C-3", "scope")]
    state = after(started(*rows))
    assert (state.totals.landed, state.totals.pushes_saved) == (0, 0)
    state.apply(ev.Pushed(at=103, train=1, ref="main", tip="f" * 40))
    for name in ("C-1", "C-2", "C-3"):
        state.apply(ev.TaskLanded(at=104, task=name, commit="c" * 40, train=1))
    assert (state.totals.landed, state.totals.pushes_saved) == (3, 2)


def test_a_row_that_came_and_went_is_in_no_sum() -> None:
    def take(kind: EditKind, row: Task) -> ev.BoardTaken:
        return ev.BoardTaken(at=102.0, change=BoardChange((RowEdit(kind, row),)))

    row = Task("C-1", "scope")
    state = after(take(EditKind.ADDED, row))
    before = state.snapshot().total
    state.apply(take(EditKind.REMOVED, row))
    assert (state.snapshot().total, state.snapshot().removed) == (before - 1, 1)
    assert RunState(state.snapshot()).snapshot().total == before - 1
    # Put back, it counts again; and so does one that somebody set to [x].
    state.apply(take(EditKind.RETRIED, row))
    assert (state.snapshot().total, state.snapshot().removed) == (before, 0)
    state.apply(take(EditKind.REMOVED, row))
    state.apply(take(EditKind.LANDED, msgspec.structs.replace(row, status=BoardStatus.LANDED)))
    assert (state.snapshot().total, state.snapshot().removed) == (before, 0)


def test_open_batches_are_what_a_restart_must_look_for() -> None:
    made: dict[str, Any] = {"role": Role.JUDGE, "model": "m", "custom_ids": ("x",), "tasks": ("A-1",)}
    creating = ev.BatchCreating(at=101.0, token="t1", **made)
    submitted = ev.BatchSubmitted(at=102.0, token="t1", batch="b1", **made)
    other = ev.BatchCreating(at=103.0, token="t2", **made)
    assert after(creating).snapshot().open_batches == (creating,)
    assert after(creating, submitted, other).snapshot().open_batches == (submitted, other)
    ended = ev.BatchEnded(at=104.0, batch="b1", succeeded=1, errored=0)
    assert after(creating, submitted, other, ended).snapshot().open_batches == (other,)
