"""A task that was worked on before: what earlier runs landed, what an interruption left, what the train sent back."""

from __future__ import annotations

import pytest

from engine import events as ev
from engine.model import Change, TaskState
from engine.pipeline import GivenUpError, Start, run_task
from tests.unit.memory_activities import (
    PLAN,
    RECALLED,
    TASK,
    Memory,
    failed,
    interrupted,
    paired,
    start_after,
)


async def test_what_an_earlier_run_landed_is_applied_and_verified_and_asks_no_model() -> None:
    memory = Memory(cached=RECALLED)
    ready = await run_task(TASK, memory)
    assert ready.change.commit == "cached"
    assert memory.done == ["recall", "apply 1", "verify 1", "ready cached"]
    assert memory.of(ev.PlanMade)[0].plan == PLAN
    assert memory.of(ev.Judged)[0].verdict == RECALLED.verdict
    assert memory.of(ev.StageFinished)[0].note == "1 file, +0 −0, from the cache"
    paired(memory.events)


@pytest.mark.parametrize("stage", ["apply", "verify"])
async def test_what_does_not_fit_any_more_is_done_anew_and_counts_as_no_failure(stage: str) -> None:
    memory = Memory({(stage, 1): failed("stale_cache")}, cached=RECALLED)
    ready = await run_task(TASK, memory, max_attempts=1)
    assert (ready.attempt, ready.change.commit) == (2, "commit2")
    assert memory.lessons == []
    assert memory.of(ev.AttemptFailed) == []
    paired(memory.events)


async def test_an_interrupted_attempt_goes_on_over_the_same_base_with_the_same_words() -> None:
    first = Memory({("verify", 1): failed(feedback="Mind the gap.")})
    events = await interrupted(first, lambda e: isinstance(e, ev.StageStarted) and e.attempt == 2)
    memory = Memory()
    ready = await run_task(TASK, memory, start=start_after(events))
    ((attempt, change),) = memory.reopened
    assert (attempt.number, attempt.base, attempt.feedback, change) == (2, "base", "Mind the gap.", None)
    assert memory.told == []
    assert ready.attempt == 2
    assert memory.done == ["implement 2", "verify 2", "judge 2", "ready commit2"]


async def test_a_change_that_was_made_is_not_made_again() -> None:
    events = await interrupted(Memory(), lambda e: isinstance(e, ev.ChangeCommitted))
    memory = Memory()
    ready = await run_task(TASK, memory, start=start_after(events))
    ((attempt, change),) = memory.reopened
    assert attempt.number == 1
    assert change == ready.change == Change("commit1", "base", files=2, added=3, removed=1)
    assert memory.done == ["recall", "verify 1", "judge 1", "ready commit1"]


async def test_an_interrupted_plan_is_asked_for_again() -> None:
    events = await interrupted(Memory(), lambda e: isinstance(e, ev.StageStarted))
    memory = Memory()
    await run_task(TASK, memory, start=start_after(events))
    assert memory.reopened[0][0].number == 1
    assert memory.done[1:3] == ["plan 1", "implement 1"]


async def test_failures_of_before_count_and_the_next_attempt_hears_of_them() -> None:
    first = Memory({("verify", n): failed(feedback=f"Red {n}.") for n in (1, 2)})
    events = await interrupted(first, lambda e: isinstance(e, ev.AttemptFailed) and e.attempt == 2)
    memory = Memory({("verify", 3): failed()})
    with pytest.raises(GivenUpError, match="attempt 3 of 3"):
        await run_task(TASK, memory, start=start_after(events), max_attempts=3)
    assert memory.reopened == []
    assert memory.told == ["Red 2."]


async def test_attempts_that_are_no_failures_are_not_counted_among_them() -> None:
    memory = Memory({("verify", n): failed() for n in (2, 3)})
    with pytest.raises(GivenUpError, match=r"failure 2 of 2 allowed, attempt 3 in all"):
        await run_task(TASK, memory, start=Start(attempt=2), max_attempts=2)


async def test_a_task_that_the_train_sent_back_is_done_anew_with_the_trains_words() -> None:
    first = Memory()
    await run_task(TASK, first)
    sent_back = ev.TaskSentBack(at=200.0, task="A-1", attempt=1, reason="conflict", feedback="B-2 was first.")
    memory = Memory()
    ready = await run_task(TASK, memory, start=start_after([*first.events, sent_back]))
    assert ready.attempt == 2
    assert memory.told == ["B-2 was first."]
    assert "recall" not in memory.done


async def test_a_retry_by_hand_is_a_new_attempt_and_not_the_failed_one_again() -> None:
    first = Memory({("verify", n): failed() for n in range(1, 4)})
    with pytest.raises(GivenUpError):
        await run_task(TASK, first)
    ended = ev.TaskEnded(at=300.0, task="A-1", state=TaskState.FAILED, reason="red")
    reopened = ev.TaskReopened(at=301.0, task="A-1")
    memory = Memory()
    ready = await run_task(TASK, memory, start=start_after([*first.events, ended, reopened]))
    assert (ready.attempt, memory.reopened, memory.told) == (4, [], ["It is red."])


async def test_an_interrupted_recall_is_recalled_again_and_asks_no_model() -> None:
    for until in (ev.PlanMade, ev.StageStarted, ev.ChangeCommitted):
        events = await interrupted(Memory(cached=RECALLED), lambda e, kind=until: isinstance(e, kind))
        memory = Memory(cached=RECALLED)
        ready = await run_task(TASK, memory, start=start_after(events))
        assert ready.change.commit == "cached"
        ((_, change),) = memory.reopened
        assert change is None  # the patch is applied to the clean base
        assert not [name for name in memory.done if name.startswith(("plan", "implement", "judge"))]
