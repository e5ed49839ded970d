"""The events of one run, in short, and the states they lead to."""

from __future__ import annotations

from collections import Counter

import msgspec

from engine import events as ev
from engine.model import (
    AnswerSource,
    Change,
    LessonGiven,
    Plan,
    Role,
    Stage,
    Task,
    Verdict,
    Verification,
)
from engine.reducing import calls, facts, motion, tasks
from engine.snapshot import Snapshot
from engine.state import RunState
from tests import samples

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
        assert len(view.learned) <= tasks.MAX_LEARNED
        assert view.batched == sum(each.batched and each.ended is None for each in view.calls)
        for span in view.spans:
            assert span.ended is None or span.ended >= span.started
        for each in view.calls:
            assert each.ended is None or each.ended >= each.started
        assert (
            min(view.usd, view.usd_saved, view.failures, view.returns, view.model_calls, view.cache_hits) >= 0
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
