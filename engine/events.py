"""The engine's only output: typed events, frozen and tagged, each with the time it happened.

`encode` and `decode` are the wire form that the journal, `run --json` and recorded files share: one JSON object whose
`event` names the type. Everything that shows or resumes a run is `state.RunState` over a sequence of these.
"""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import msgspec

from engine.figures import (
    HistoryFigures,
    LessonFigures,
    LimiterFigures,
    QueueFigures,
    ResultCacheFigures,
    TemplateFigures,
)
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

NoticeLevel = Literal["info", "warning", "error"]


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


class Event(msgspec.Struct, frozen=True, kw_only=True, tag=_snake, tag_field="event", omit_defaults=True):
    """Base of all events. `at`: seconds since the epoch."""

    at: float


# The run as a whole


class RunStarted(Event, frozen=True, kw_only=True):
    """The first event of a run: what it works on, and under which limits."""

    run: str
    board: str
    repository: str
    base: str
    target: str
    remote: str
    host: str
    pid: int
    tasks: tuple[Task, ...]
    max_concurrency: int
    max_attempts: int
    max_batch: int
    max_age: float
    budget_usd: float | None = None
    roles: dict[str, str] = {}


class RunResumed(Event, frozen=True, kw_only=True):
    """Another process took the run up; what was in motion in the old one starts again from what it committed."""

    host: str
    pid: int


class TasksAdded(Event, frozen=True, kw_only=True):
    """Rows that appeared on the board, or were rewritten, since the run started."""

    tasks: tuple[Task, ...]


class DispatchChanged(Event, frozen=True, kw_only=True):
    """Dispatch was paused, resumed, set to drain, or got another limit."""

    mode: Literal["running", "paused", "draining"]
    max_concurrency: int


class Noticed(Event, frozen=True, kw_only=True):
    """Something a person should know. Errors stay in the list of the dashboard until dismissed."""

    level: NoticeLevel
    text: str
    task: str = ""


class Measured(Event, frozen=True, kw_only=True):
    """Gauges that changed; None means unchanged. Sent at most once a second."""

    results: ResultCacheFigures | None = None
    templates: TemplateFigures | None = None
    lessons: LessonFigures | None = None
    history: HistoryFigures | None = None
    limiters: tuple[LimiterFigures, ...] | None = None
    queues: tuple[QueueFigures, ...] | None = None


class BudgetReached(Event, frozen=True, kw_only=True):
    """A call was not made because its worst case could pass the budget."""

    scope: Literal["run", "task"]
    limit_usd: float
    spent_usd: float
    next_usd: float
    task: str = ""


class CycleStarted(Event, frozen=True, kw_only=True):
    """The journal continues as new: `state` is the encoded `Snapshot` of all that came before."""

    cycle: int
    state: msgspec.Raw


class RunFinished(Event, frozen=True, kw_only=True):
    """The last event of a run, and the last line of `run --json`. Scripts may rely on every field.

    `status`: landed (all), failed (some did not land), budget, interrupted. `blocked` counts tasks that never started
    because one they wait for did not land. `tokens` by class; `duration_s` counts from the first start, over all
    resumes.
    """

    status: Literal["landed", "failed", "budget", "interrupted"]
    exit_status: int
    total: int
    landed: int
    failed: int
    cancelled: int
    blocked: int
    trains: int
    pushes: int
    model_calls: int
    batch_calls: int
    cache_hits: int
    tokens: Usage
    usd: float
    usd_saved: float
    duration_s: float


# One task


class TaskQueued(Event, frozen=True, kw_only=True):
    """All that the task waits for has landed; it waits for a slot."""

    task: str


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
    """The commit is an ancestor of the target, on the remote where there is one."""

    task: str
    commit: str
    train: int


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
    """A failure became a lesson, or raised the count of one that was known."""

    task: str
    lesson: str
    text: str
    times_seen: int = 1


class LessonResolved(Event, frozen=True, kw_only=True):
    """The retry that read the lesson landed; what it did is the resolution."""

    task: str
    lesson: str


# Model calls


class CallStarted(Event, frozen=True, kw_only=True):
    """A request is on its way, or waits in a batch queue (`batched`)."""

    call: str
    task: str
    attempt: int
    role: Role
    model: str
    batched: bool = False


class CallAnswered(Event, frozen=True, kw_only=True):
    """An answer arrived. `usd` is None when the model's price is unknown; `usd_saved` is what was taken off it.

    `record` names the file that holds the exact prompt and answer.
    """

    call: str
    task: str
    attempt: int
    role: Role
    model: str
    source: AnswerSource
    usage: Usage
    usd: float | None
    usd_saved: float = 0.0
    duration: float = 0.0
    record: str = ""


class CallFailed(Event, frozen=True, kw_only=True):
    """An attempt at a call failed; it is tried again in `retry_in` seconds, or given up when that is None.

    A call that is given up tells what its broken answers cost: `usage`, and `usd` where the price is known. Those of a
    call that succeeds in the end are part of its `CallAnswered`.
    """

    call: str
    task: str
    role: Role
    model: str
    error: str
    retry_in: float | None = None
    usage: Usage = Usage()
    usd: float | None = None


class BatchCreating(Event, frozen=True, kw_only=True):
    """A batch is about to be created. Journaled first, so that a restart can find it at the service by its ids."""

    token: str
    role: Role
    model: str
    custom_ids: tuple[str, ...]
    tasks: tuple[str, ...]


class BatchSubmitted(Event, frozen=True, kw_only=True):
    """The service gave the batch its id."""

    token: str
    batch: str
    role: Role
    model: str
    custom_ids: tuple[str, ...]
    tasks: tuple[str, ...]


class BatchPolled(Event, frozen=True, kw_only=True):
    """The service told how far a batch is."""

    batch: str
    status: str
    succeeded: int = 0
    errored: int = 0
    next_poll_at: float | None = None


class BatchEnded(Event, frozen=True, kw_only=True):
    """All results of a batch were read."""

    batch: str
    succeeded: int
    errored: int


# Trains


class TrainDeparted(Event, frozen=True, kw_only=True):
    """A train takes these tasks."""

    train: int
    tasks: tuple[str, ...]


class TrainMoved(Event, frozen=True, kw_only=True):
    """A train reached a stage: combine, verify, bisect, board, push."""

    train: int
    stage: str
    detail: str = ""


class Pushed(Event, frozen=True, kw_only=True):
    """The remote took one push."""

    train: int
    ref: str
    tip: str


class TrainArrived(Event, frozen=True, kw_only=True):
    """A train ended. `problem` says what kept all of it from landing, if anything; its commits are kept."""

    train: int
    landed: tuple[str, ...]
    sent_back: tuple[str, ...]
    tip: str = ""
    problem: str = ""


AnyEvent = (
    RunStarted
    | RunResumed
    | TasksAdded
    | DispatchChanged
    | Noticed
    | Measured
    | BudgetReached
    | CycleStarted
    | RunFinished
    | TaskQueued
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
    | CallStarted
    | CallAnswered
    | CallFailed
    | BatchCreating
    | BatchSubmitted
    | BatchPolled
    | BatchEnded
    | TrainDeparted
    | TrainMoved
    | Pushed
    | TrainArrived
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(AnyEvent)


def encode(event: Event) -> bytes:
    """Give the event as one line of JSON, without the line end."""
    return _encoder.encode(event)


_E = TypeVar("_E", bound=Event)


def storable(event: _E) -> _E:
    """Give the event as JSON can hold it: what is no text (a file name that is no UTF-8, say) is replaced in it."""
    try:
        _encoder.encode(event)
    except UnicodeEncodeError:
        return msgspec.convert(_without_surrogates(msgspec.to_builtins(event)), type(event))
    return event


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list | tuple):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    return value


def decode(data: bytes) -> AnyEvent:
    """Read an event back. Raises `msgspec.ValidationError` for anything that is not one."""
    event: AnyEvent = _decoder.decode(data)
    return event
