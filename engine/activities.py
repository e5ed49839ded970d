"""What the pipeline asks for, as one protocol: the local form does the work, another may send it elsewhere."""

from __future__ import annotations

from typing import Protocol

import msgspec

from engine.errors import StageFailedError
from engine.events import Event
from engine.model import Change, LessonGiven, Plan, Stage, Task, Usage, Verdict, Verification


class Attempt(msgspec.Struct, frozen=True):
    """One attempt at a task: where it works, over which commit, and what it is told beside the task.

    `worktree` is an absolute path; `feedback` says what went wrong before, or is empty.
    """

    task: Task
    number: int
    branch: str
    base: str
    worktree: str
    lessons: tuple[LessonGiven, ...] = ()
    feedback: str = ""


class Recalled(msgspec.Struct, frozen=True):
    """What an earlier run made of the same task over the same starting tree, judged and landed.

    `verdict` is None where no Judge was set.
    `built_on` names the tasks of the board whose changes the patch needs under it; `usage` and `usd` are what it cost.
    """

    patch: bytes
    plan: Plan
    verdict: Verdict | None
    summary: str
    built_on: tuple[str, ...] = ()
    usage: Usage = Usage()
    usd: float = 0.0
    model: str = ""
    said: str = ""


class Activities(Protocol):
    """The work of a pipeline. Stages raise StageFailedError for what another attempt may do better."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def emit(self, event: Event) -> None:
        """Tell the event; it is kept soon."""

    async def commit(self, event: Event) -> None:
        """Tell the event once it would survive a crash."""

    def log(self, attempt: Attempt, stage: Stage) -> str:
        """The path of the stage's whole output, or an empty string when it has none."""

    async def begin(self, task: Task, number: int, feedback: str) -> Attempt:
        """Make a worktree over the newest landed commit and choose lessons; tells AttemptStarted."""

    async def reopen(self, attempt: Attempt, change: Change | None) -> None:
        """Bring back the worktree of an interrupted attempt: at its change, or clean at its base."""

    async def recall(self, task: Task) -> Recalled | None:
        """Look the task up among what earlier runs landed."""

    async def apply(self, attempt: Attempt, recalled: Recalled) -> Change:
        """Apply a recalled patch to the worktree and commit it."""

    async def plan(self, attempt: Attempt) -> Plan:
        """Ask the Planner."""

    async def brief(self, attempt: Attempt, plan: Plan) -> Attempt:
        """Give the attempt the lessons that its first plan calls for; tells LessonsGiven where they are others."""

    async def implement(self, attempt: Attempt, plan: Plan) -> Change:
        """Let the Implementer work, and commit what it changed."""

    async def verify(self, attempt: Attempt, change: Change) -> Verification:
        """Run the verification command; raises StageFailedError when it does not pass."""

    async def judge(
        self, attempt: Attempt, plan: Plan, change: Change, verification: Verification
    ) -> Verdict | None:
        """Ask the Judge; None where none is set. Raises StageFailedError when it refuses."""

    async def learn(self, attempt: Attempt, plan: Plan, stage: Stage, failure: StageFailedError) -> None:
        """Keep a failure as a lesson."""

    async def ready(self, attempt: Attempt, change: Change) -> None:
        """Queue the change for landing, so that no crash loses it; tells TaskReadyToLand."""
