"""The frozen values that show one task: a `TaskView`, with its stages, calls and attempts."""

from __future__ import annotations

import msgspec

from engine.model import (
    AnswerSource,
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
from engine.rows import RowEdit


class StageSpan(msgspec.Struct, frozen=True):
    """One stage of one attempt. `ended` is None while it runs.

    `idle` is what its task's was as it started; for `rested` seconds of it nobody worked on the run.
    """

    attempt: int
    stage: Stage
    started: float
    ended: float | None = None
    ok: bool | None = None
    note: str = ""
    log: str = ""
    idle: float = 0.0
    rested: float = 0.0

    def elapsed(self, now: float) -> float:
        """Seconds in which the stage was worked on, to its end or to `now`."""
        return max(0.0, (self.ended if self.ended is not None else now) - self.started - self.rested)


class CallView(msgspec.Struct, frozen=True):
    """One model call of a task, or one turn of an agent command (`agent`), as the task screen lists it.

    `record` names the file that holds a call's exact prompt and answer, or an agent's prompt. `stopped` says that its
    task ended, or its run was left, before it did.
    """

    id: str
    attempt: int
    role: Role
    model: str
    started: float
    ended: float | None = None
    batched: bool = False
    source: AnswerSource | None = None
    usage: Usage = Usage()
    usd: float | None = None
    usd_saved: float = 0.0
    error: str = ""
    record: str = ""
    agent: bool = False
    stopped: bool = False


class AttemptView(msgspec.Struct, frozen=True):
    """What one attempt came to. `stage` is where it ended badly; `feedback` is what the attempt after it is told."""

    attempt: int
    stage: Stage | None = None
    problem: str = ""
    feedback: str = ""
    base: str = ""
    change: Change | None = None
    verification: Verification | None = None
    verdict: Verdict | None = None
    lessons: tuple[LessonGiven, ...] = ()


class LessonTaught(msgspec.Struct, frozen=True):
    """A lesson that a task caused, in the newest of its attempts that did, which ran under these `terms`.

    `landed_with` is the attempt that landed without telling what helped, 0 while there is none; `changed` says that the
    row, its check or the roles were others by then.
    """

    id: str
    text: str
    attempt: int
    terms: str = ""
    resolved: bool = False
    landed_with: int = 0
    changed: bool = False


class TaskView(msgspec.Struct, frozen=True, eq=False):
    """All that is known of one task. `usd` counts calls with a known price; `started` is its first attempt.

    `model_calls`, `batched_requests` and `cache_hits` are those of `Totals`; `batched` counts requests on their way.
    `over` says that the newest attempt came to an end of its own, so that the next one is another; without it, an
    attempt that stands still was interrupted. `failures` and `returns` count failed attempts and send-backs since
    somebody last asked to retry; `feedback` is what the next attempt is told; `taught` are the newest lessons this
    task caused, `learned` those it has not resolved yet. `ended_badly` are the attempts that did, the newest of
    them last. `ended` stands until somebody works on it again after a retry; for `idle` seconds since it started
    it had ended, or nobody worked on the run. `revised` is the row as it was taken in once the task had begun: a
    retry takes it. `removed` says that the board no longer asks for the task, which was cancelled for that.
    `put_off` is an edit of the board that ends the task here, once no other orchestrator works on it.
    """

    task: Task
    state: TaskState
    attempt: int = 0
    over: bool = False
    stage: Stage | None = None
    sent_back: bool = False
    started: float | None = None
    stage_started: float | None = None
    ended: float | None = None
    last: str = ""
    problem: str = ""
    usd: float = 0.0
    usd_saved: float = 0.0
    usage: Usage = Usage()
    model_calls: int = 0
    batched_requests: int = 0
    cache_hits: int = 0
    unpriced: int = 0
    branch: str = ""
    base: str = ""
    worktree: str = ""
    logs: str = ""
    commit: str = ""
    train: int | None = None
    batched: int = 0
    plan: Plan | None = None
    change: Change | None = None
    verification: Verification | None = None
    verdict: Verdict | None = None
    lessons: tuple[LessonGiven, ...] = ()
    feedback: str = ""
    failures: int = 0
    returns: int = 0
    learned: tuple[str, ...] = ()
    taught: tuple[LessonTaught, ...] = ()
    spans: tuple[StageSpan, ...] = ()
    calls: tuple[CallView, ...] = ()
    ended_badly: tuple[AttemptView, ...] = ()
    idle: float = 0.0
    revised: Task | None = None
    removed: bool = False
    put_off: RowEdit | None = None

    @property
    def id(self) -> str:
        """The id on the board."""
        return self.task.id

    def elapsed(self, now: float) -> float:
        """Seconds from the first attempt to the end, or to `now`, without those between an end and the next attempt,
        and those in which nobody worked on the run.

        0 before the first attempt.
        """
        if self.started is None:
            return 0.0
        return max(0.0, (self.ended if self.ended is not None else now) - self.started - self.idle)

    @property
    def attempts(self) -> tuple[AttemptView, ...]:
        """The attempts that are known, oldest first; the newest may still go on."""
        if not self.attempt or any(each.attempt == self.attempt for each in self.ended_badly):
            return self.ended_badly
        return (*self.ended_badly, self.newest_attempt(self.stage))

    def newest_attempt(self, stage: Stage | None) -> AttemptView:
        """The newest attempt as it stands, at this stage."""
        return AttemptView(
            attempt=self.attempt,
            stage=stage,
            problem=self.problem,
            feedback=self.feedback if self.over else "",
            base=self.base,
            change=self.change,
            verification=self.verification,
            verdict=self.verdict,
            lessons=self.lessons,
        )
