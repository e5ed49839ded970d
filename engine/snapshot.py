"""The frozen values that everything shows: a `Snapshot` of the run, with one `TaskView` a task.

A view is replaced only when its task changed, so a reader can compare by identity.
"""

from __future__ import annotations

import msgspec

from engine import events as ev
from engine.figures import (
    BatchView,
    HistoryFigures,
    LessonFigures,
    LimiterFigures,
    PeerFigures,
    QueueFigures,
    ResultCacheFigures,
    Sample,
    SpendLine,
    StageTime,
    TemplateFigures,
    TrainView,
)
from engine.model import TaskState, Usage
from engine.rows import BoardChange
from engine.task_view import TaskView


class Notice(msgspec.Struct, frozen=True):
    """One line for a person. `number` counts up over the run, `elapsed` is how long that had been worked on."""

    number: int
    at: float
    level: str
    text: str
    task: str = ""
    elapsed: float = 0.0


class LessonNote(msgspec.Struct, frozen=True):
    """A lesson this run recorded, or used."""

    at: float
    task: str
    lesson: str
    text: str
    times_seen: int = 1
    resolved: bool = False


class BoardOffer(msgspec.Struct, frozen=True):
    """Edits of the board that a person is asked about. `number` counts up over the run."""

    number: int
    at: float
    change: BoardChange


class RunView(msgspec.Struct, frozen=True):
    """The run as a whole. `idle`: seconds since it started in which no process worked on it; `resumed`: when one took
    it up again, the last time. `locks_away`: in words, why the locks that it shares with others cannot be reached.
    `economy`: whether tasks may choose the cheaper lane. `told_before`: the number of the last notice of the processes
    before this one, which tells itself what is still so."""

    run: str = ""
    board: str = ""
    repository: str = ""
    base: str = ""
    target: str = ""
    remote: str = ""
    host: str = ""
    pid: int = 0
    roles: dict[str, str] = {}
    economy: bool = True
    started: float | None = None
    resumes: int = 0
    resumed: float | None = None
    idle: float = 0.0
    cycle: int = 1
    dispatch: str = "running"
    max_concurrency: int = 0
    max_attempts: int = 0
    max_batch: int = 0
    max_age: float = 0.0
    budget_usd: float | None = None
    budget_reached: str = ""
    locks_away: str = ""
    told_before: int = 0
    finished: ev.RunFinished | None = None

    @property
    def since(self) -> float | None:
        """When it would have started, had it been worked on ever since; what is told over the run counts from then."""
        return None if self.started is None else self.started + self.idle

    def elapsed(self, now: float) -> float:
        """Seconds that a process worked on the run, to its end or to `now`; 0 before it started."""
        if self.started is None:
            return 0.0
        until = self.finished.at if self.finished is not None else now
        return max(0.0, until - self.started - self.idle)


class Totals(msgspec.Struct, frozen=True):
    """Sums over the run. `pushes` counts what the remote took; `trains` those that landed something.

    Of the pushes, `marks` brought no task but only the board's new states.
    `landed` counts the tasks that this run has landed; others of the board may have landed before.
    `model_calls` counts the answers to single calls, `batched_requests` those to requests that went out in one of the
    `batch_calls`, `sent_in_batches` such requests, answered or not, `cache_hits` the answers that were used again from
    the result cache. `usd_saved` is the sum of what the result cache, the service's prompt cache and the half price of
    batches took off; the prompt cache's part is below nothing while more was written to it than was read.
    """

    trains: int = 0
    pushes: int = 0
    marks: int = 0
    landed: int = 0
    model_calls: int = 0
    batch_calls: int = 0
    batched_requests: int = 0
    sent_in_batches: int = 0
    cache_hits: int = 0
    call_failures: int = 0
    usage: Usage = Usage()
    usd: float = 0.0
    usd_saved: float = 0.0
    usd_saved_results: float = 0.0
    usd_saved_prompts: float = 0.0
    usd_saved_batches: float = 0.0
    tokens_saved: int = 0
    unpriced: int = 0
    sent_back: int = 0
    retries: int = 0
    lessons_recorded: int = 0
    lessons_used: int = 0

    @property
    def pushes_saved(self) -> int:
        """How many pushes more it would have taken to push each task by itself."""
        return max(0, self.landed - self.pushes) if self.pushes else 0


class Snapshot(msgspec.Struct, frozen=True, eq=False):
    """The whole run at one moment, in board order. Compare by identity: a new object means something changed.

    `removed` counts the tasks whose rows are gone from the board, `refused` says which rows cannot run. `landings` are
    when tasks landed, each later by the time since in which nobody worked on the run, and so are the `samples`.
    """

    run: RunView = RunView()
    at: float = 0.0
    tasks: tuple[TaskView, ...] = ()
    counts: dict[TaskState, int] = {}
    totals: Totals = Totals()
    spend: tuple[SpendLine, ...] = ()
    stage_times: tuple[StageTime, ...] = ()
    landings: tuple[float, ...] = ()
    samples: tuple[Sample, ...] = ()
    trains: tuple[TrainView, ...] = ()
    batches: tuple[BatchView, ...] = ()
    open_batches: tuple[ev.BatchCreating | ev.BatchSubmitted, ...] = ()
    results: ResultCacheFigures = ResultCacheFigures()
    templates: TemplateFigures = TemplateFigures()
    lessons: LessonFigures = LessonFigures()
    lesson_notes: tuple[LessonNote, ...] = ()
    history: HistoryFigures = HistoryFigures()
    limiters: tuple[LimiterFigures, ...] = ()
    queues: tuple[QueueFigures, ...] = ()
    peers: tuple[PeerFigures, ...] = ()
    notices: tuple[Notice, ...] = ()
    notice_count: int = 0
    offer: BoardOffer | None = None
    removed: int = 0
    refused: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """How many tasks the board asks for: those whose rows came and went do not count."""
        return len(self.tasks) - self.removed

    def count(self, state: TaskState) -> int:
        """How many tasks are in the state."""
        return self.counts.get(state, 0)

    @property
    def others(self) -> tuple[PeerFigures, ...]:
        """The other orchestrators that have taken part in the work on the board."""
        return tuple(peer for peer in self.peers if peer.run != self.run.run)

    @property
    def usd_of_all(self) -> float:
        """What all orchestrators that share the board have spent, this one included."""
        return self.totals.usd + sum(peer.usd for peer in self.others)

    def task(self, task_id: str) -> TaskView | None:
        """The view of one task, or None."""
        return next((view for view in self.tasks if view.task.id == task_id), None)

    @property
    def prompt_hit_rate(self) -> float | None:
        """Share of prompt tokens that the service's prompt cache held, or None before the first call."""
        prompt = self.totals.usage.prompt
        return self.totals.usage.cache_read / prompt if prompt else None
