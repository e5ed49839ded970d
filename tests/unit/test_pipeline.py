"""One task through the pipeline, over activities in memory that a script makes succeed or fail."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import events as ev
from engine.activities import Attempt, Recalled
from engine.errors import (
    AuthenticationError,
    BudgetReachedError,
    GitError,
    HaltedError,
    LLMError,
    OverloadedError,
    RequestRejectedError,
    ServiceError,
    StageFailedError,
    TaskyardError,
)
from engine.events import Event
from engine.model import Change, LessonGiven, Plan, Stage, Task, TaskState, Usage, Verdict, Verification
from engine.pipeline import GivenUpError, Ready, Start, run_task
from engine.state import RunState

TASK = Task("A-1", "Add one", command="make test")
PLAN = Plan(("one", "two"), ("a.py",), "fix_bug")


class Memory:
    """Activities without I/O.

    `fails` maps (stage, attempt) to what it raises, only once if it `recovers`; `cached` is what an earlier run made.
    """

    def __init__(
        self,
        fails: Mapping[tuple[str, int], BaseException] | None = None,
        *,
        cached: Recalled | None = None,
        recovers: bool = False,
    ) -> None:
        self.fails = dict(fails or {})
        self.recovers = recovers
        self.cached = cached
        self.clock = 100.0
        self.events: list[Event] = []
        self.durable: list[Event] = []
        self.done: list[str] = []
        self.told: list[str] = []
        self.lessons: list[tuple[Stage, str]] = []
        self.given: list[tuple[LessonGiven, ...]] = []
        self.reopened: list[tuple[Attempt, Change | None]] = []
        self.verdict: Verdict | None = Verdict(True, "well done")
        self.block: asyncio.Event | None = None
        self.reached = asyncio.Event()

    # Events

    def now(self) -> float:
        self.clock += 1.0
        return self.clock

    def emit(self, event: Event) -> None:
        self.events.append(event)

    async def commit(self, event: Event) -> None:
        self.events.append(event)
        self.durable.append(event)

    def log(self, attempt: Attempt, stage: Stage) -> str:
        return f"/logs/{attempt.number}/{stage}.log"

    # The work

    async def _do(self, what: str, attempt: Attempt) -> None:
        self.done.append(f"{what} {attempt.number}")
        await asyncio.sleep(0)
        error = self.fails.get((what, attempt.number))
        if error is not None:
            if self.recovers:
                del self.fails[what, attempt.number]
            raise error
        if self.block is not None and what == "implement":
            self.reached.set()
            await self.block.wait()

    async def begin(self, task: Task, number: int, feedback: str) -> Attempt:
        self.told.append(feedback)
        attempt = Attempt(task, number, f"task/{task.id}", "base", "/tree", feedback=feedback)
        await self.commit(
            ev.AttemptStarted(
                at=self.now(),
                task=task.id,
                attempt=number,
                branch=attempt.branch,
                base="base",
                worktree="/tree",
            )
        )
        return attempt

    async def reopen(self, attempt: Attempt, change: Change | None) -> None:
        self.reopened.append((attempt, change))

    async def recall(self, task: Task) -> Recalled | None:
        self.done.append("recall")
        return self.cached

    async def apply(self, attempt: Attempt, recalled: Recalled) -> Change:
        await self._do("apply", attempt)
        return Change("cached", "base", files=1)

    async def plan(self, attempt: Attempt) -> Plan:
        await self._do("plan", attempt)
        return PLAN

    async def brief(self, attempt: Attempt, plan: Plan) -> Attempt:
        lessons = (LessonGiven("l1", f"about {' '.join(plan.files)}"),)
        await self.commit(
            ev.LessonsGiven(at=self.now(), task=attempt.task.id, attempt=attempt.number, lessons=lessons)
        )
        return msgspec.structs.replace(attempt, lessons=lessons)

    async def implement(self, attempt: Attempt, plan: Plan) -> Change:
        assert plan
        self.given.append(attempt.lessons)
        await self._do("implement", attempt)
        return Change(f"commit{attempt.number}", "base", files=2, added=3, removed=1)

    async def verify(self, attempt: Attempt, change: Change) -> Verification:
        await self._do("verify", attempt)
        return Verification("make test", 0, 1.25)

    async def judge(
        self, attempt: Attempt, plan: Plan, change: Change, verification: Verification
    ) -> Verdict | None:
        assert verification.passed
        await self._do("judge", attempt)
        return self.verdict

    async def learn(self, attempt: Attempt, plan: Plan, stage: Stage, failure: StageFailedError) -> None:
        self.lessons.append((stage, failure.failure_type))

    async def ready(self, attempt: Attempt, change: Change) -> None:
        self.done.append(f"ready {change.commit}")
        await self.commit(
            ev.TaskReadyToLand(
                at=self.now(), task=attempt.task.id, attempt=attempt.number, commit=change.commit
            )
        )

    # What a test asks

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def stages(self) -> list[tuple[int, str, bool]]:
        return [(e.attempt, str(e.stage), e.ok) for e in self.of(ev.StageFinished)]

    def view(self) -> Any:
        return RunState().apply_all([ev.TasksAdded(at=0.0, tasks=(TASK,)), *self.events]).view("A-1")


def paired(events: list[Event]) -> None:
    """Each stage that starts ends once, before the next starts."""
    open_stage: tuple[int, Stage] | None = None
    for event in events:
        if isinstance(event, ev.StageStarted):
            assert open_stage is None
            open_stage = event.attempt, event.stage
        elif isinstance(event, ev.StageFinished):
            assert open_stage == (event.attempt, event.stage)
            open_stage = None
    assert open_stage is None


def failed(kind: str = "check_failed", feedback: str = "It is red.") -> StageFailedError:
    return StageFailedError("red", "mend it", failure_type=kind, feedback=feedback)


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


# Work of earlier runs

RECALLED = Recalled(b"patch", PLAN, Verdict(True, "judged before"), "summary", usage=Usage(input=9), usd=0.5)


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


# Going on after an interruption


async def interrupted(memory: Memory, until: Callable[[Event], bool]) -> list[Event]:
    """Run the task and give the events up to the moment of a crash."""
    await run_task(TASK, memory)
    at = next(n for n, event in enumerate(memory.events) if until(event))
    return memory.events[: at + 1]


def start_after(events: list[Event]) -> Start:
    resumed = ev.RunResumed(at=500.0, host="h", pid=2)
    added = ev.TasksAdded(at=0.0, tasks=(TASK,))
    return Start.from_view(RunState().apply_all([added, *events, resumed]).view("A-1"))


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
    with pytest.raises(GivenUpError, match=r"attempt 3, after 2 failures"):
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
