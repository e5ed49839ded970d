"""The reducer: whatever comes, in whatever order, it stays consistent, bounded, and the same after a restore."""

from __future__ import annotations

import typing
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import events as ev
from engine import state as state_module
from engine.figures import PeerFigures
from engine.model import (
    AnswerSource,
    BoardStatus,
    Change,
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
from engine.reducing import calls, facts, motion, tasks, trains
from engine.snapshot import Snapshot, TaskView
from engine.state import RunState
from tests import samples
from tests.random_events import TASKS, events
from tests.tui import sample_run

A, B = samples.PAIR


def started(*tasks: Task, at: float = 100.0) -> ev.RunStarted:
    return samples.started(*tasks, at=at, pid=7, budget_usd=10.0, roles={"judge": "claude-opus-5-5"})


def attempt(number: int = 1, *, task: str = "A-1", at: float = 101.0) -> ev.AttemptStarted:
    return samples.begun(
        task,
        at=at,
        attempt=number,
        worktree=f"/trees/{task}",
        lessons=(LessonGiven("l1", "Mind the gap."),),
    )


def stage(name: Stage, *, at: float, attempt: int = 1) -> ev.StageStarted:
    return ev.StageStarted(at=at, task="A-1", attempt=attempt, stage=name)


def call(number: int, *, at: float, batched: bool = False) -> ev.CallStarted:
    return ev.CallStarted(
        at=at,
        call=f"c{number}",
        task="A-1",
        attempt=1,
        role=Role.IMPLEMENTER,
        model="claude-sonnet-5-5",
        batched=batched,
    )


def answer(
    number: int, *, at: float, source: AnswerSource = AnswerSource.CALL, usd: float | None = 0.5
) -> ev.CallAnswered:
    saved = 0.5 if source is AnswerSource.CACHE else 0.0
    return samples.answered(
        f"c{number}",
        "A-1",
        at=at,
        source=source,
        usd=usd,
        usd_saved=saved,
        duration=2.0,
        record="/logs/c.json",
    )


def after(*given: ev.Event) -> RunState:
    return RunState().apply_all([started(), *given])


def encoded(snapshot: Snapshot) -> bytes:
    return msgspec.json.encode(snapshot)


def restored(state: RunState) -> RunState:
    return RunState(msgspec.json.decode(encoded(state.snapshot()), type=Snapshot))


# Whatever comes


def test_every_event_has_a_handler() -> None:
    assert set(state_module._HANDLERS) == set(typing.get_args(ev.AnyEvent))


def consistent(snapshot: Snapshot) -> None:
    """Everything that must hold after any events at all."""
    assert snapshot.counts == Counter(view.state for view in snapshot.tasks)
    assert sum(snapshot.counts.values()) == len(snapshot.tasks)
    assert len({view.id for view in snapshot.tasks}) == len(snapshot.tasks)
    for view in snapshot.tasks:
        assert view.elapsed(0.0) >= 0
        assert view.elapsed(snapshot.at) >= 0
        assert len(view.spans) <= tasks.MAX_SPANS
        assert len(view.calls) <= motion.MAX_CALLS
        assert view.batched == sum(each.batched and each.ended is None for each in view.calls)
        for span in view.spans:
            assert span.ended is None or span.ended >= span.started
        for each in view.calls:
            assert each.ended is None or each.ended >= each.started
        assert (
            min(view.usd, view.usd_saved, view.failures, view.returns, view.calls_made, view.cache_hits) >= 0
        )
        if view.state.ended:
            assert view.batched == 0 or any(each.ended is None for each in view.calls)
    for train in snapshot.trains:
        assert train.ended_at is None or train.ended_at >= train.started_at
    for batch in snapshot.batches:
        assert batch.ended_at is None or batch.ended_at >= batch.submitted_at
    for time in snapshot.stage_times:
        assert time.count > 0
        assert time.total >= 0
        assert time.squares >= 0
    assert len(snapshot.notices) <= facts.MAX_NOTICES
    assert len(snapshot.lesson_notes) <= tasks.MAX_LESSONS
    assert len({note.lesson for note in snapshot.lesson_notes}) == len(snapshot.lesson_notes)
    assert len(snapshot.landings) <= tasks.MAX_LANDINGS
    assert sum(isinstance(b, ev.BatchCreating) for b in snapshot.open_batches) <= calls.MAX_UNANSWERED
    assert snapshot.prompt_hit_rate is None or 0 <= snapshot.prompt_hit_rate <= 1


@given(st.lists(events, max_size=40))
@settings(max_examples=300, deadline=None)
def test_any_events_in_any_order_leave_a_consistent_state(given_events: list[ev.Event]) -> None:
    state = after()
    for event in given_events:
        state.apply(event)
        consistent(state.snapshot())


@given(st.lists(events, max_size=30), st.lists(events, max_size=30))
@settings(max_examples=200, deadline=None)
def test_a_state_goes_on_from_its_snapshot_as_if_nothing_had_been(
    before: list[ev.Event], later: list[ev.Event]
) -> None:
    whole = after(*before)
    again = restored(whole)
    assert encoded(again.snapshot()) == encoded(whole.snapshot())
    assert encoded(again.apply_all(later).snapshot()) == encoded(whole.apply_all(later).snapshot())


@given(st.lists(events, max_size=30))
@settings(max_examples=200, deadline=None)
def test_a_view_is_replaced_when_its_task_changed_and_only_then(given_events: list[ev.Event]) -> None:
    state = after()
    for event in given_events:
        before = {view.id: view for view in state.snapshot().tasks}
        state.apply(event)
        for view in state.snapshot().tasks:
            old = before.get(view.id)
            if old is not None:
                same = msgspec.json.encode(old) == msgspec.json.encode(view)
                assert (view is old) == same, event


def test_an_event_of_an_unknown_task_changes_no_view() -> None:
    state = after()
    views = state.snapshot().tasks
    for event in (attempt(task="nobody"), answer(1, at=102.0), ev.TaskQueued(at=102.0, task="nobody")):
        state.apply(msgspec.structs.replace(event, task="nobody"))
    assert all(new is old for new, old in zip(state.snapshot().tasks, views, strict=True))


def test_memory_is_bounded_however_long_a_run_goes_on() -> None:
    state = after(attempt())

    def round_of_events(n: int) -> None:
        at = 200.0 + n
        for event in (
            stage(Stage.VERIFY, at=at, attempt=n),
            ev.StageFinished(at=at, task="A-1", attempt=n, stage=Stage.VERIFY, ok=True),
            call(n, at=at, batched=True),
            answer(n, at=at, source=AnswerSource.BATCH),
            ev.Noticed(at=at, level="info", text=f"notice {n}"),
            ev.LessonRecorded(at=at, task=f"gone{n}", lesson=f"l{n}", text="another each time"),
            ev.TrainDeparted(at=at, train=n, tasks=("A-1",)),
            ev.TrainArrived(at=at, train=n, landed=(), sent_back=()),
            ev.BatchCreating(at=at, token=f"lost{n}", role=Role.JUDGE, model="m", custom_ids=(), tasks=()),
            ev.BatchSubmitted(
                at=at, token=f"t{n}", batch=f"b{n}", role=Role.JUDGE, model="m", custom_ids=(), tasks=()
            ),
            ev.BatchEnded(at=at, batch=f"b{n}", succeeded=1, errored=0),
        ):
            state.apply(event)

    for n in range(1, 301):
        round_of_events(n)
    early = len(encoded(state.snapshot()))
    for n in range(301, 901):
        round_of_events(n)
    consistent(state.snapshot())
    assert len(encoded(state.snapshot())) < early * 1.05
    assert state.snapshot().notice_count == 900
    assert state.totals.batch_calls == 900


def test_trains_and_batches_in_motion_are_never_forgotten() -> None:
    state = after(ev.TrainDeparted(at=101.0, train=1, tasks=("A-1",)))
    for n in range(2, 200):
        state.apply(ev.TrainDeparted(at=102.0, train=n, tasks=()))
        state.apply(ev.TrainArrived(at=103.0, train=n, landed=(), sent_back=()))
    numbers = [train.number for train in state.snapshot().trains]
    assert numbers[0] == 1
    assert len(numbers) == trains.MAX_TRAINS


# One task through a run


def landed_run() -> list[ev.Event]:
    change = Change("c" * 40, "b" * 40, files=1, added=2, removed=1, paths=("a.py",))
    return [
        ev.TaskQueued(at=100.5, task="A-1"),
        attempt(at=101.0),
        stage(Stage.PLAN, at=101.0),
        call(1, at=101.0),
        answer(1, at=103.0),
        ev.StageFinished(at=103.0, task="A-1", attempt=1, stage=Stage.PLAN, ok=True, note="2 steps"),
        ev.PlanMade(at=103.0, task="A-1", attempt=1, plan=Plan(("one", "two"), ("a.py",), "fix_bug")),
        stage(Stage.IMPLEMENT, at=103.0),
        call(2, at=103.0, batched=True),
        answer(2, at=108.0, source=AnswerSource.BATCH),
        ev.StageFinished(at=108.0, task="A-1", attempt=1, stage=Stage.IMPLEMENT, ok=True),
        ev.ChangeCommitted(at=108.0, task="A-1", attempt=1, change=change),
        stage(Stage.VERIFY, at=108.0),
        ev.Verified(at=109.0, task="A-1", attempt=1, verification=Verification("make", 0, 1.0)),
        ev.StageFinished(at=109.0, task="A-1", attempt=1, stage=Stage.VERIFY, ok=True),
        stage(Stage.JUDGE, at=109.0),
        answer(3, at=110.0, source=AnswerSource.CACHE),
        ev.Judged(at=110.0, task="A-1", attempt=1, verdict=Verdict(True, "good")),
        ev.StageFinished(at=110.0, task="A-1", attempt=1, stage=Stage.JUDGE, ok=True),
        ev.TaskReadyToLand(at=110.0, task="A-1", attempt=1, commit="c" * 40),
        ev.TrainDeparted(at=111.0, train=1, tasks=("A-1",)),
        ev.TrainMoved(at=111.5, train=1, stage="push"),
        ev.Pushed(at=112.0, train=1, ref="refs/heads/t", tip="d" * 40),
        ev.TrainArrived(at=112.0, train=1, landed=("A-1",), sent_back=(), tip="d" * 40),
        ev.TaskLanded(at=112.0, task="A-1", commit="c" * 40, train=1),
    ]


def test_a_task_that_lands_leaves_all_its_figures() -> None:
    snapshot = after(*landed_run()).snapshot()
    consistent(snapshot)
    view = snapshot.task("A-1")
    assert view is not None
    assert (view.state, view.stage, view.commit, view.train) == (TaskState.LANDED, None, "c" * 40, 1)
    assert view.elapsed(999.0) == 11.0
    assert [span.stage for span in view.spans] == list(Stage)
    assert (view.usd, view.usd_saved, view.calls_made, view.cache_hits, view.batched) == (1.0, 0.5, 2, 1, 0)
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
    assert (view.usd, view.calls_made, view.cache_hits) == (0.0, 0, 1)


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


# Others on the same board


def test_the_locks_that_are_away_are_known_until_they_are_back() -> None:
    state = after(ev.LocksChanged(at=101.0, problem="the lock server does not answer"))
    assert state.run.locks_away == "the lock server does not answer"
    assert [(n.level, n.text) for n in state.notices] == [
        ("error", "the lock server does not answer: no task is claimed and nothing lands until it is back")
    ]
    state.apply(ev.LocksChanged(at=102.0))
    assert state.run.locks_away == ""
    assert state.notices[-1].level == "info"
    state.apply(ev.LocksChanged(at=103.0, problem="away again"))
    state.apply(ev.RunResumed(at=200.0, host="there", pid=8))
    assert state.run.locks_away == "", "the one who takes the run up asks anew"


def test_what_all_have_spent_counts_this_run_by_its_own_books() -> None:
    peers = tuple(PeerFigures("h", pid, f"r{pid}", 100.0, usd=0.5) for pid in (1, 2, 3))
    state = after(ev.Measured(at=101.0, peers=peers))
    snapshot = state.snapshot()
    assert snapshot.run.run == "r1"
    assert [peer.pid for peer in snapshot.others] == [2, 3]
    assert snapshot.usd_of_all == snapshot.totals.usd + 1.0


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


def test_the_time_between_two_processes_is_nobodys_work() -> None:
    state = after(
        attempt(at=101.0), stage(Stage.IMPLEMENT, at=110.0), ev.RunResumed(at=200.0, host="h", pid=8)
    )
    assert (state.run.idle, state.run.elapsed(230.0)) == (90.0, 40.0)
    assert state.view("A-1").elapsed(230.0) == 39.0
    assert state.view("B-2").elapsed(230.0) == 0.0
    state.apply(ev.RunResumed(at=300.0, host="h", pid=9))
    assert (state.run.idle, state.run.resumed) == (190.0, 300.0)


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
    assert [each.attempt for each in state.view("A-1").tries] == [1]
    state.apply_all(
        [attempt(2, at=106.0), ev.TaskSentBack(at=107.0, task="A-1", attempt=2, reason="conflict")]
    )
    state.apply(attempt(3, at=108.0))
    first, second, third = state.view("A-1").tries
    assert (first.stage, first.problem, first.feedback) == (Stage.JUDGE, "red", "It is red.")
    assert (first.change, first.verdict) == (change, refused)
    assert (second.problem, second.change) == ("conflict", None)
    assert (third.attempt, third.problem, third.feedback) == (3, "", "")
    state.apply(ev.TaskEnded(at=109.0, task="A-1", state=TaskState.CANCELLED, reason="cancelled"))
    state.apply(ev.TaskReopened(at=110.0, task="A-1"))
    state.apply(attempt(4, at=111.0))
    assert [each.problem for each in state.view("A-1").tries] == ["red", "conflict", "cancelled", ""]


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


def test_open_batches_are_what_a_restart_must_look_for() -> None:
    made: dict[str, Any] = {"role": Role.JUDGE, "model": "m", "custom_ids": ("x",), "tasks": ("A-1",)}
    creating = ev.BatchCreating(at=101.0, token="t1", **made)
    submitted = ev.BatchSubmitted(at=102.0, token="t1", batch="b1", **made)
    other = ev.BatchCreating(at=103.0, token="t2", **made)
    assert after(creating).snapshot().open_batches == (creating,)
    assert after(creating, submitted, other).snapshot().open_batches == (submitted, other)
    ended = ev.BatchEnded(at=104.0, batch="b1", succeeded=1, errored=0)
    assert after(creating, submitted, other, ended).snapshot().open_batches == (other,)


# Cycles


def test_a_cycle_opens_with_the_whole_state() -> None:
    live = after(*landed_run())
    opened = ev.CycleStarted(at=live.snapshot().at, cycle=2, state=msgspec.Raw(encoded(live.begin_cycle())))
    replayed = RunState().apply_all([ev.decode(ev.encode(opened))])
    assert encoded(replayed.snapshot()) == encoded(live.snapshot())
    assert live.run.cycle == 2


def test_text_that_is_none_is_replaced_and_nothing_else() -> None:
    event = ev.StageFinished(at=1.0, task="A-1", attempt=1, stage=Stage.JUDGE, ok=True, note="caf\udce9 é")
    clean = ev.storable(event)
    assert clean == msgspec.structs.replace(event, note="caf? é")
    assert ev.decode(ev.encode(clean)) == clean
    fine = ev.TaskQueued(at=1.0, task="A-1")
    assert ev.storable(fine) is fine


def test_a_view_of_a_task_that_never_began_has_no_elapsed_time() -> None:
    assert TaskView(A, TaskState.WAITING).elapsed(1e9) == 0.0
    assert set(TASKS) > {"A-1", "B-2"}
