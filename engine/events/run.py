"""The run as a whole: its start and end, what it works on, how it dispatches, its gauges, notices and cycles."""

from __future__ import annotations

from typing import Literal

import msgspec

from engine.events.base import Event
from engine.figures import (
    HistoryFigures,
    LessonFigures,
    LimiterFigures,
    PeerFigures,
    QueueFigures,
    ResultCacheFigures,
    TemplateFigures,
)
from engine.model import Task, Usage

NoticeLevel = Literal["info", "warning", "error"]


class RunStarted(Event, frozen=True, kw_only=True):
    """The first event of a run: what it works on, and under which limits.

    `base` is the commit that work begins from, `target` the branch it lands on, `remote` empty where there is none.
    `max_batch` and `max_age` (seconds) are the train's; `budget_usd` None means no limit. `roles` says in words who
    plays each. `economy`: whether tasks may choose the cheaper lane, which is for what models are asked.
    """

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
    roles: dict[str, str] = msgspec.field(default_factory=dict)
    economy: bool = True


class RunSetup(msgspec.Struct, frozen=True, kw_only=True):
    """What a process works by, as its settings say: the fields of `RunStarted` that may be others in the next one."""

    target: str
    remote: str
    max_concurrency: int
    max_attempts: int
    max_batch: int
    max_age: float
    budget_usd: float | None
    roles: dict[str, str]
    economy: bool


class RunResumed(Event, frozen=True, kw_only=True):
    """A process took the run up; what was in motion in an old one starts again from what it committed.

    `rested`: it is the one that had finished the run, and nothing of it has stopped. `setup`: what it works by from
    now on; None where that is as before.
    """

    host: str
    pid: int
    rested: bool = False
    setup: RunSetup | None = None


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
    peers: tuple[PeerFigures, ...] | None = None


class LocksChanged(Event, frozen=True, kw_only=True):
    """What keeps the locks that orchestrators share went away (`problem` says how), or is back (empty).

    While it is away nothing is claimed and nothing lands.
    """

    problem: str = ""


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


class RunFinished(Event, frozen=True, kw_only=True, omit_defaults=False):
    """The last event of a run, and the last line of `run --json`. Scripts may rely on every field.

    `status`: landed (all that the board asks for), failed (some did not land), budget, interrupted. `blocked` counts
    tasks that wait for one that failed, was cancelled or is blocked itself, `waiting` all others that have not ended:
    the next run goes on with them. These and those that landed, failed and were cancelled make up the `total`.
    `not_run` counts the rows of the board that could not run, which are in no other count, not
    even in `total`; `trains` those that landed something.
    `model_calls` counts the answers to single calls, `batched_requests` those to requests in the `batch_calls`.
    `usd` is the sum of the answers whose price is known, `unpriced` counts the others. `tokens` by class; `duration_s`
    counts from the first start, over all resumes, but not the time between them, when no process worked on the run.
    """

    status: Literal["landed", "failed", "budget", "interrupted"]
    exit_status: int
    total: int
    landed: int
    failed: int
    cancelled: int
    blocked: int
    waiting: int = 0
    not_run: int = 0
    trains: int
    pushes: int
    model_calls: int
    batch_calls: int
    batched_requests: int = 0
    cache_hits: int
    tokens: Usage
    usd: float
    unpriced: int = 0
    usd_saved: float
    duration_s: float


RunEvent = (
    RunStarted
    | RunResumed
    | TasksAdded
    | DispatchChanged
    | Noticed
    | Measured
    | BudgetReached
    | CycleStarted
    | RunFinished
    | LocksChanged
)
