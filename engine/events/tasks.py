"""One task: its way through the attempts and stages of a run, to landed or given up, and the lessons on that way."""

from __future__ import annotations

from engine.events.base import Event
from engine.model import Change, LessonGiven, Plan, Stage, TaskState, Verdict, Verification


class TaskQueued(Event, frozen=True, kw_only=True):
    """All that the task waits for has landed; it waits for a slot."""

    task: str


class TaskElsewhere(Event, frozen=True, kw_only=True):
    """Another orchestrator of the same board has claimed the task."""

    task: str
    host: str
    pid: int


class TaskReopened(Event, frozen=True, kw_only=True):
    """Somebody asked to try an ended task again."""

    task: str


class AttemptStarted(Event, frozen=True, kw_only=True):
    """A try begins on `branch` over the commit `base`, with these lessons.

    `logs` is the folder that each stage writes its output to while it runs, as `<stage>.log`.
    """

    task: str
    attempt: int
    branch: str
    base: str
    worktree: str = ""
    logs: str = ""
    lessons: tuple[LessonGiven, ...] = ()


class StageStarted(Event, frozen=True, kw_only=True):
    """A stage begins."""

    task: str
    attempt: int
    stage: Stage


class StageFinished(Event, frozen=True, kw_only=True):
    """A stage ended; `note` says in a few words how, `log` names the file with its whole output."""

    task: str
    attempt: int
    stage: Stage
    ok: bool
    note: str = ""
    log: str = ""


class Progressed(Event, frozen=True, kw_only=True):
    """The task's last line: what it is doing right now."""

    task: str
    text: str


class PlanMade(Event, frozen=True, kw_only=True):
    """The Planner answered."""

    task: str
    attempt: int
    plan: Plan


class ChangeCommitted(Event, frozen=True, kw_only=True):
    """The Implementer's work is one commit on the task's branch."""

    task: str
    attempt: int
    change: Change


class Verified(Event, frozen=True, kw_only=True):
    """The verification command ended."""

    task: str
    attempt: int
    verification: Verification


class Judged(Event, frozen=True, kw_only=True):
    """The Judge answered."""

    task: str
    attempt: int
    verdict: Verdict


class AttemptFailed(Event, frozen=True, kw_only=True):
    """The try ended without a commit to land; `reason` is shown in the task's row, `feedback` goes to the next try."""

    task: str
    attempt: int
    stage: Stage
    reason: str
    feedback: str = ""


class TaskReadyToLand(Event, frozen=True, kw_only=True):
    """Verified and judged; the commit waits for a train."""

    task: str
    attempt: int
    commit: str


class TaskSentBack(Event, frozen=True, kw_only=True):
    """The train could not take the task: it clashes with `other`, or the combination is red."""

    task: str
    attempt: int
    reason: str
    other: str = ""
    paths: tuple[str, ...] = ()
    feedback: str = ""


class TaskLanded(Event, frozen=True, kw_only=True):
    """The commit is an ancestor of the target, on the remote where there is one.

    `train` is 0, and `by` names host and process, when another orchestrator landed it.
    """

    task: str
    commit: str
    train: int
    by: str = ""


class TaskEnded(Event, frozen=True, kw_only=True):
    """The task is given up (`failed`) or was stopped (`cancelled`)."""

    task: str
    state: TaskState
    reason: str


class LessonsGiven(Event, frozen=True, kw_only=True):
    """The lessons of the try, chosen anew: by the type and the files that its plan names."""

    task: str
    attempt: int
    lessons: tuple[LessonGiven, ...]


class LessonRecorded(Event, frozen=True, kw_only=True):
    """A failure became a lesson, or raised the count of one that was known.

    `terms` is a digest of what the failed attempt ran under: the words of its row, its check, who plays the roles.
    """

    task: str
    lesson: str
    text: str
    times_seen: int = 1
    terms: str = ""


class LessonResolved(Event, frozen=True, kw_only=True):
    """The retry that read the lesson landed; what it did is the resolution."""

    task: str
    lesson: str


class LessonLeftOpen(Event, frozen=True, kw_only=True):
    """The task landed with this `attempt`, but what helped is not known.

    Its agent did not say what it did differently, or, if `changed`, a person had changed the row, its check or the
    roles since the failure.
    """

    task: str
    lesson: str
    attempt: int
    changed: bool = False


TaskEvent = (
    TaskQueued
    | TaskReopened
    | AttemptStarted
    | StageStarted
    | StageFinished
    | Progressed
    | PlanMade
    | ChangeCommitted
    | Verified
    | Judged
    | AttemptFailed
    | TaskReadyToLand
    | TaskSentBack
    | TaskLanded
    | TaskEnded
    | LessonsGiven
    | LessonRecorded
    | LessonResolved
    | LessonLeftOpen
    | TaskElsewhere
)
