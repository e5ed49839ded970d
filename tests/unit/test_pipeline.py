"""One task through the pipeline: its stages, its failures, and what it says of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import events as ev
from engine.errors import (
    AuthenticationError,
    BudgetReachedError,
    GitError,
    HaltedError,
    LLMError,
    OverloadedError,
    RequestRejectedError,
    ServiceError,
    TaskyardError,
)
from engine.model import Change, Stage, TaskState
from engine.pipeline import GivenUpError, Ready, run_task
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


async def test_a_task_goes_through_its_stages_to_a_commit_that_may_land() -> None:
    memory = Memory()
    ready = await run_task(TASK, memory)
    assert ready == Ready(TASK, 1, "task/A-1", Change("commit1", "base", files=2, added=3, removed=1))
    assert memory.done == ["recall", "plan 1", "implement 1", "verify 1", "judge 1", "ready commit1"]
    assert [(e.stage, e.note, e.log) for e in memory.of(ev.StageFinished)] == [
        (Stage.PLAN, "2 steps", "/logs/1/plan.log"),
        (Stage.IMPLEMENT, "2 files, +3 −1", "/logs/1/implement.log"),
        (Stage.VERIFY, "passed in 1.2 s", "/logs/1/verify.log"),
        (Stage.JUDGE, "well done", "/logs/1/judge.log"),
    ]
    assert memory.of(ev.PlanMade)[0].plan == PLAN
    paired(memory.events)
    assert memory.view().state is TaskState.TO_LAND


async def test_a_change_is_on_disk_before_it_is_verified() -> None:
    memory = Memory()
    await run_task(TASK, memory)
    (committed,) = [event for event in memory.durable if isinstance(event, ev.ChangeCommitted)]
    verify = next(e for e in memory.of(ev.StageStarted) if e.stage is Stage.VERIFY)
    assert memory.events.index(committed) < memory.events.index(verify)


@pytest.mark.parametrize("stage", ["implement", "verify", "judge"])
async def test_a_failed_stage_is_learned_from_and_tried_again_with_its_words(stage: str) -> None:
    memory = Memory({(stage, 1): failed()})
    ready = await run_task(TASK, memory)
    assert ready.attempt == 2
    assert memory.told == ["", "It is red."]
    assert memory.lessons == [(Stage(stage), "check_failed")]
    (told,) = memory.of(ev.AttemptFailed)
    assert told in memory.durable
    assert (told.stage, told.reason, told.feedback) == (Stage(stage), "red", "It is red.")
    assert memory.done.count("plan 1") + memory.done.count("plan 2") == 1  # the plan stays
    paired(memory.events)


async def test_lessons_are_chosen_by_the_plan_and_kept_with_the_same_words() -> None:
    memory = Memory({("implement", 1): OverloadedError("overloaded")}, recovers=True)
    await run_task(TASK, memory)
    (chosen,) = memory.of(ev.LessonsGiven)
    assert chosen in memory.durable
    assert memory.given == [chosen.lessons, chosen.lessons]
    assert memory.view().lessons == chosen.lessons
    crashed = await interrupted(Memory(), lambda event: isinstance(event, ev.LessonsGiven))
    again = Memory()
    await run_task(TASK, again, start=start_after(crashed))
    assert again.of(ev.LessonsGiven) == []
    assert again.given == [chosen.lessons]


async def test_a_failed_plan_is_made_again() -> None:
    memory = Memory({("plan", 1): failed("bad_answer")})
    assert (await run_task(TASK, memory)).attempt == 2
    assert [name for name in memory.done if name.startswith("plan")] == ["plan 1", "plan 2"]


async def test_after_the_last_attempt_the_task_is_given_up_with_the_reason_and_the_hint() -> None:
    memory = Memory({("verify", n): failed() for n in range(1, 4)})
    with pytest.raises(GivenUpError) as caught:
        await run_task(TASK, memory, max_attempts=3)
    assert str(caught.value) == "red (attempt 3 of 3): mend it"
    assert len(memory.of(ev.AttemptFailed)) == 3
    assert len(memory.lessons) == 3
    assert memory.view().failures == 3


async def test_a_single_allowed_attempt_is_not_counted_aloud() -> None:
    with pytest.raises(GivenUpError) as caught:
        await run_task(TASK, Memory({("judge", 1): failed()}), max_attempts=1)
    assert caught.value.message == "red"


def _with_status(error: LLMError, status: int) -> LLMError:
    error.status = status
    return error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (AuthenticationError("no key", "set it"), HaltedError),
        (_with_status(RequestRejectedError("no such model", "set another"), 404), HaltedError),
        (RequestRejectedError("too long"), GivenUpError),
    ],
)
async def test_what_no_further_attempt_can_mend_ends_it_at_once(
    error: Any, told: type[TaskyardError]
) -> None:
    memory = Memory({("implement", 1): error})
    with pytest.raises(told) as caught:
        await run_task(TASK, memory)
    assert (caught.value.message, caught.value.hint) == (error.message, error.hint)
    assert memory.done == ["recall", "plan 1", "implement 1"]
    assert memory.lessons == []
    paired(memory.events)


@pytest.mark.parametrize("stage", ["plan", "implement", "judge"])
async def test_a_service_that_recovers_finds_the_same_attempt_with_the_same_words(stage: str) -> None:
    memory = Memory({(stage, 1): OverloadedError("overloaded")}, recovers=True)
    ready = await run_task(TASK, memory)
    assert (ready.attempt, memory.told, memory.lessons) == (1, [""], [])
    assert memory.of(ev.AttemptFailed) == []
    ((attempt, change),) = memory.reopened
    assert attempt.number == 1
    assert (change is not None) == (stage == "judge")  # what is committed is not made again
    assert memory.done.count("implement 1") == (2 if stage == "implement" else 1)
    paired(memory.events)


async def test_a_service_that_does_not_recover_halts_the_run_in_the_end() -> None:
    memory = Memory({("implement", 1): OverloadedError("overloaded", "try later")})
    with pytest.raises(HaltedError) as caught:
        await run_task(TASK, memory, max_attempts=3)
    assert str(caught.value) == "overloaded: try later"
    assert memory.done.count("implement 1") == 3
    # A retry by hand goes on with this attempt.
    assert not memory.view().over


async def test_an_answer_that_is_none_is_asked_for_with_other_words() -> None:
    """The same words would find the same bad answer in the cache."""
    memory = Memory({("plan", 1): ServiceError("not the JSON that was asked for")})
    assert (await run_task(TASK, memory)).attempt == 2
    assert memory.lessons == [(Stage.PLAN, "model_failed")]


@pytest.mark.parametrize(
    "error",
    [BudgetReachedError("budget", scope="run"), GitError("disk full"), ZeroDivisionError("a bug")],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("stage", ["plan", "implement", "verify", "judge"])
async def test_other_errors_pass_through_and_leave_no_stage_open(stage: str, error: Exception) -> None:
    memory = Memory({(stage, 1): error})
    with pytest.raises(type(error)) as caught:
        await run_task(TASK, memory)
    assert caught.value is error
    assert memory.of(ev.AttemptFailed) == []
    assert memory.stages()[-1] == (1, stage, False)
    paired(memory.events)


async def test_a_cancelled_stage_is_closed_as_interrupted() -> None:
    memory = Memory()
    memory.block = asyncio.Event()
    running = asyncio.ensure_future(run_task(TASK, memory))
    await memory.reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    paired(memory.events)
    assert memory.of(ev.StageFinished)[-1].note == "interrupted"
    assert memory.of(ev.AttemptFailed) == []


async def test_without_a_judge_nothing_says_that_somebody_approved() -> None:
    memory = Memory()
    memory.verdict = None
    await run_task(TASK, memory)
    assert [(e.ok, e.note) for e in memory.of(ev.StageFinished) if e.stage is Stage.JUDGE] == [
        (True, "not judged: no Judge is set")
    ]
    again = Memory(cached=msgspec.structs.replace(RECALLED, verdict=None))
    await run_task(TASK, again)
    assert again.of(ev.Judged) == []


# Whatever fails

outcomes = st.sampled_from(["ok", "ok", "stage", "overloaded", "refused", "budget", "bug"])


@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["apply", "plan", "implement", "verify", "judge"]), st.integers(1, 4)),
        outcomes,
    ),
    st.integers(1, 4),
    st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_whatever_fails_events_pair_and_done_means_verified_and_judged(
    script: dict[tuple[str, int], str], max_attempts: int, cached: bool
) -> None:
    errors: dict[str, Callable[[], BaseException]] = {
        "stage": failed,
        "overloaded": lambda: OverloadedError("o"),
        "refused": lambda: RequestRejectedError("r"),
        "budget": lambda: BudgetReachedError("b"),
        "bug": lambda: RuntimeError("bug"),
    }
    memory = Memory(
        {place: errors[what]() for place, what in script.items() if what != "ok"},
        cached=RECALLED if cached else None,
    )
    ready: Ready | None = None
    with contextlib.suppress(GivenUpError, HaltedError, BudgetReachedError, RuntimeError):
        ready = asyncio.run(run_task(TASK, memory, max_attempts=max_attempts))
    paired(memory.events)
    assert len(memory.of(ev.AttemptFailed)) <= max_attempts
    assert max(Counter(e.attempt for e in memory.of(ev.AttemptStarted)).values()) == 1
    if ready is not None:
        good = {stage for number, stage, ok in memory.stages() if ok and number == ready.attempt}
        assert "verify" in good
        assert "judge" in good or (cached and ready.attempt == 1)
        assert memory.view().state is TaskState.TO_LAND
