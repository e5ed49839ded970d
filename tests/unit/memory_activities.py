"""Activities in memory, which a script makes succeed or fail, for the tests of the pipeline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from engine import events as ev
from engine.activities import Attempt, Recalled
from engine.errors import StageFailedError
from engine.events import Event
from engine.model import Change, LessonGiven, Plan, Stage, Task, Usage, Verdict, Verification
from engine.pipeline import Start, run_task
from engine.state import RunState

TASK = Task("A-1", "Add one", command="make test")
PLAN = Plan(("one", "two"), ("a.py",), "fix_bug")
RECALLED = Recalled(b"patch", PLAN, Verdict(True, "judged before"), "summary", usage=Usage(input=9), usd=0.5)


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
