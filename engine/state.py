"""The state of a run as one pure reducer over its events, and the frozen `Snapshot` that everything shows.

`RunState.apply(event)` has no clock and no I/O, and its memory is bounded by the number of tasks. A `TaskView` is
replaced only when its task changed, so a reader can compare by identity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from engine import events as ev
from engine.figures import (
    BatchView,
    HistoryFigures,
    LessonFigures,
    LimiterFigures,
    QueueFigures,
    ResultCacheFigures,
    SpendLine,
    StageTime,
    TemplateFigures,
    TrainView,
)
from engine.model import (
    AnswerSource,
    BoardStatus,
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

_V = TypeVar("_V")

MAX_SPANS = 60
MAX_CALLS = 60
MAX_NOTICES = 200
MAX_LANDINGS = 240
MAX_TRAINS = 50
MAX_BATCHES = 50
MAX_UNANSWERED = 10
MAX_LESSONS = 50
MAX_DETAILED = 500


class StageSpan(msgspec.Struct, frozen=True):
    """One stage of one attempt. `ended` is None while it runs."""

    attempt: int
    stage: Stage
    started: float
    ended: float | None = None
    ok: bool | None = None
    note: str = ""
    log: str = ""


class CallView(msgspec.Struct, frozen=True):
    """One model call of a task, as the task screen lists it."""

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


class TaskView(msgspec.Struct, frozen=True, eq=False):
    """All that is known of one task. `usd` counts calls with a known price; `started` is its first attempt.

    `over` says that the newest attempt came to an end of its own, so that the next one is another; without it, an
    attempt that stands still was interrupted. `failures` and `returns` count failed attempts and send-backs since
    somebody last asked to retry; `feedback` is what the next attempt is told; `learned` are the lessons this task
    caused and has not resolved yet.
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
    calls_made: int = 0
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
    spans: tuple[StageSpan, ...] = ()
    calls: tuple[CallView, ...] = ()

    @property
    def id(self) -> str:
        """The id on the board."""
        return self.task.id

    def elapsed(self, now: float) -> float:
        """Seconds from the first attempt to the end, or to `now`; 0 before the first attempt."""
        if self.started is None:
            return 0.0
        return max(0.0, (self.ended if self.ended is not None else now) - self.started)


class Notice(msgspec.Struct, frozen=True):
    """One line for a person. `number` counts up over the run."""

    number: int
    at: float
    level: str
    text: str
    task: str = ""


class LessonNote(msgspec.Struct, frozen=True):
    """A lesson this run recorded, or used."""

    at: float
    task: str
    lesson: str
    text: str
    times_seen: int = 1
    resolved: bool = False


class RunView(msgspec.Struct, frozen=True):
    """The run as a whole."""

    run: str = ""
    board: str = ""
    repository: str = ""
    base: str = ""
    target: str = ""
    remote: str = ""
    host: str = ""
    pid: int = 0
    roles: dict[str, str] = {}
    started: float | None = None
    resumes: int = 0
    cycle: int = 1
    dispatch: str = "running"
    max_concurrency: int = 0
    max_attempts: int = 0
    max_batch: int = 0
    max_age: float = 0.0
    budget_usd: float | None = None
    budget_reached: str = ""
    finished: ev.RunFinished | None = None


class Totals(msgspec.Struct, frozen=True):
    """Sums over the run. `pushes` counts what the remote took; `trains` those that landed something."""

    trains: int = 0
    pushes: int = 0
    model_calls: int = 0
    batch_calls: int = 0
    batched_requests: int = 0
    cache_hits: int = 0
    call_failures: int = 0
    usage: Usage = Usage()
    usd: float = 0.0
    usd_saved: float = 0.0
    tokens_saved: int = 0
    unpriced: int = 0
    sent_back: int = 0
    retries: int = 0
    lessons_recorded: int = 0
    lessons_used: int = 0


class Snapshot(msgspec.Struct, frozen=True, eq=False):
    """The whole run at one moment, in board order. Compare by identity: a new object means something changed."""

    run: RunView = RunView()
    at: float = 0.0
    tasks: tuple[TaskView, ...] = ()
    counts: dict[TaskState, int] = {}
    totals: Totals = Totals()
    spend: tuple[SpendLine, ...] = ()
    stage_times: tuple[StageTime, ...] = ()
    landings: tuple[float, ...] = ()
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
    notices: tuple[Notice, ...] = ()
    notice_count: int = 0

    def count(self, state: TaskState) -> int:
        """How many tasks are in the state."""
        return self.counts.get(state, 0)

    def task(self, task_id: str) -> TaskView | None:
        """The view of one task, or None."""
        return next((view for view in self.tasks if view.task.id == task_id), None)

    @property
    def prompt_hit_rate(self) -> float | None:
        """Share of prompt tokens that the service's prompt cache held, or None before the first call."""
        prompt = self.totals.usage.prompt
        return self.totals.usage.cache_read / prompt if prompt else None


class RunState:
    """The reducer. `RunState()` is a run nobody started; `RunState(snapshot)` goes on from a compact state."""

    def __init__(self, start: Snapshot | None = None) -> None:
        self._load(start or Snapshot())

    def _load(self, start: Snapshot) -> None:
        self._run = start.run
        self._at = start.at
        self._tasks = {view.task.id: view for view in start.tasks}
        self._counts = Counter(view.state for view in start.tasks)
        self._totals = start.totals
        self._spend = {(line.role, line.model): line for line in start.spend}
        self._stage_times = {time.stage: time for time in start.stage_times}
        self._landings = start.landings
        self._trains = {train.number: train for train in start.trains}
        self._batches = {batch.id: batch for batch in start.batches}
        # What a restart needs to find every batch again: by token, the newest that was told of it.
        self._open_batches = {batch.token: batch for batch in start.open_batches}
        self._gauges = {name: getattr(start, name) for name in _GAUGES}
        self._lesson_notes = start.lesson_notes
        self._notices = start.notices
        self._notice_count = start.notice_count

    def apply(self, event: ev.Event) -> None:
        """Take one event in. An event about a task nobody knows changes nothing."""
        self._at = max(self._at, event.at)
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event)

    def apply_all(self, events: Iterable[ev.Event]) -> RunState:
        """Take events in, in order; gives itself back."""
        for event in events:
            self.apply(event)
        return self

    def snapshot(self) -> Snapshot:
        """The state now, as one immutable value."""
        return Snapshot(
            run=self._run,
            at=self._at,
            tasks=tuple(self._tasks.values()),
            counts={state: self._counts[state] for state in TaskState if self._counts[state]},
            totals=self._totals,
            spend=tuple(self._spend.values()),
            stage_times=tuple(self._stage_times.values()),
            landings=self._landings,
            trains=tuple(self._trains.values()),
            batches=tuple(self._batches.values()),
            open_batches=tuple(self._open_batches.values()),
            lesson_notes=self._lesson_notes,
            notices=self._notices,
            notice_count=self._notice_count,
            **self._gauges,
        )

    def begin_cycle(self) -> Snapshot:
        """Count the cycle that the journal now begins, and give the compact state that opens it.

        Of ended tasks only the newest keep their details: the older events are in the archive, where a replay finds
        them, and neither the journal nor the memory may grow with all that ever ended.
        """
        self._run = replace(self._run, cycle=self._run.cycle + 1)
        ended = sorted((v for v in self._tasks.values() if v.state.ended), key=lambda v: v.ended or 0.0)
        for view in ended[:-MAX_DETAILED]:
            self._tasks[view.id] = replace(view, **_NO_DETAILS)
        return self.snapshot()

    def view(self, task_id: str) -> TaskView:
        """The view of one task. Raises KeyError when the board has no such task."""
        return self._tasks[task_id]

    def find(self, task_id: str) -> TaskView | None:
        """The view of one task, or None when the board has no such task."""
        return self._tasks.get(task_id)

    def count(self, state: TaskState) -> int:
        """How many tasks are in the state."""
        return self._counts[state]

    @property
    def run(self) -> RunView:
        """The run as a whole."""
        return self._run

    @property
    def totals(self) -> Totals:
        """Sums over the run so far."""
        return self._totals

    # Small steps that the handlers share

    def _change(self, task_id: str, **fields: Any) -> TaskView | None:
        old = self._tasks.get(task_id)
        if old is None or all(getattr(old, name) == value for name, value in fields.items()):
            return old
        new = replace(old, **fields)
        self._tasks[task_id] = new
        if new.state is not old.state:
            self._counts[old.state] -= 1
            self._counts[new.state] += 1
        return new

    def _add(self, **amounts: Any) -> None:
        values = {name: getattr(self._totals, name) + amount for name, amount in amounts.items()}
        self._totals = replace(self._totals, **values)

    def _add_tasks(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            if task.id not in self._tasks:
                state = TaskState.LANDED if task.status is BoardStatus.LANDED else TaskState.WAITING
                self._tasks[task.id] = TaskView(task=task, state=state)
                self._counts[state] += 1

    def _notice(self, at: float, level: str, text: str, task: str = "") -> None:
        self._notice_count += 1
        notice = Notice(self._notice_count, at, level, text, task)
        self._notices = (*self._notices, notice)[-MAX_NOTICES:]

    # The run

    def _run_started(self, e: ev.RunStarted) -> None:
        fields = {name: getattr(e, name) for name in _RUN_FIELDS}
        self._run = RunView(started=e.at, cycle=self._run.cycle, **fields)
        self._add_tasks(e.tasks)

    def _run_resumed(self, e: ev.RunResumed) -> None:
        self._run = replace(
            self._run,
            host=e.host,
            pid=e.pid,
            resumes=self._run.resumes + 1,
            dispatch="running",
            finished=None,
            budget_reached="",
        )
        for view in tuple(self._tasks.values()):
            if view.state is TaskState.RUNNING:
                self._change(
                    view.id,
                    state=TaskState.QUEUED,
                    stage=None,
                    stage_started=None,
                    ended=None,
                    **_stopped(view, e.at, "interrupted"),
                )
        for number, train in self._trains.items():
            if train.ended_at is None:
                self._trains[number] = replace(
                    train, stage="failed", detail="interrupted", ended_at=max(train.started_at, e.at)
                )

    def _tasks_added(self, e: ev.TasksAdded) -> None:
        for task in e.tasks:
            view = self._tasks.get(task.id)
            if view is None or view.state in (TaskState.TO_LAND, TaskState.LANDED):
                continue
            self._change(task.id, task=task)
            if task.status is BoardStatus.LANDED:
                self._change(
                    task.id,
                    state=TaskState.LANDED,
                    stage=None,
                    stage_started=None,
                    ended=e.at,
                    problem="",
                    last="landed, says the board",
                    **_stopped(view, e.at, "landed meanwhile"),
                )
        self._add_tasks(e.tasks)

    def _dispatch_changed(self, e: ev.DispatchChanged) -> None:
        self._run = replace(self._run, dispatch=e.mode, max_concurrency=e.max_concurrency)

    def _noticed(self, e: ev.Noticed) -> None:
        self._notice(e.at, e.level, e.text, e.task)

    def _measured(self, e: ev.Measured) -> None:
        for name in _GAUGES:
            value = getattr(e, name)
            if value is not None:
                self._gauges[name] = value

    def _budget_reached(self, e: ev.BudgetReached) -> None:
        whose = f"task {e.task}" if e.scope == "task" else "the run"
        text = f"budget of {whose} reached: ${e.spent_usd:.2f} of ${e.limit_usd:.2f}, next call up to ${e.next_usd:.2f}"
        if e.scope == "run":
            self._run = replace(self._run, budget_reached=text)
        self._notice(e.at, "error", text, e.task)

    def _cycle_started(self, e: ev.CycleStarted) -> None:
        self._load(msgspec.json.decode(e.state, type=Snapshot))
        self._run = replace(self._run, cycle=e.cycle)

    def _run_finished(self, e: ev.RunFinished) -> None:
        self._run = replace(self._run, finished=e)

    # Tasks

    def _task_queued(self, e: ev.TaskQueued) -> None:
        self._change(e.task, state=TaskState.QUEUED)

    def _task_reopened(self, e: ev.TaskReopened) -> None:
        self._change(
            e.task,
            state=TaskState.WAITING,
            ended=None,
            problem="",
            last="",
            sent_back=False,
            failures=0,
            returns=0,
            stage=None,
            commit="",
            train=None,
        )

    def _attempt_started(self, e: ev.AttemptStarted) -> None:
        view = self._tasks.get(e.task)
        if view is None:
            return
        self._add(retries=int(e.attempt > 1), lessons_used=len(e.lessons))
        self._change(
            e.task,
            state=TaskState.RUNNING,
            attempt=e.attempt,
            over=False,
            branch=e.branch,
            base=e.base,
            worktree=e.worktree,
            logs=e.logs,
            lessons=e.lessons,
            started=view.started if view.started is not None else e.at,
            ended=None,
            commit="",
            change=None,
            problem="",
            verification=None,
            verdict=None,
            stage=None,
            stage_started=None,
            train=None,
        )

    def _stage_started(self, e: ev.StageStarted) -> None:
        view = self._tasks.get(e.task)
        if view is not None:
            spans = (*view.spans, StageSpan(e.attempt, e.stage, e.at))[-MAX_SPANS:]
            self._change(e.task, state=TaskState.RUNNING, stage=e.stage, stage_started=e.at, spans=spans)

    def _stage_finished(self, e: ev.StageFinished) -> None:
        view = self._tasks.get(e.task)
        if view is None:
            return
        spans = self._end_span(view, e.stage, e.attempt, e.at, ok=e.ok, note=e.note, log=e.log)
        self._change(e.task, spans=spans, last=e.note or view.last)

    def _end_span(
        self, view: TaskView, stage: Stage, attempt: int, at: float, *, ok: bool, note: str, log: str = ""
    ) -> tuple[StageSpan, ...]:
        """Close the stage's open span, and count its time; gives all spans."""
        spans = list(view.spans)
        for index in range(len(spans) - 1, -1, -1):
            span = spans[index]
            if span.stage is stage and span.attempt == attempt and span.ended is None:
                ended = max(span.started, at)
                spans[index] = replace(span, ended=ended, ok=ok, note=note, log=log)
                self._time_stage(stage, ended - span.started)
                break
        return tuple(spans)

    def _time_stage(self, stage: Stage, seconds: float) -> None:
        old = self._stage_times.get(stage, StageTime(stage))
        self._stage_times[stage] = StageTime(
            stage, old.count + 1, old.total + seconds, old.squares + seconds * seconds
        )

    def _progressed(self, e: ev.Progressed) -> None:
        self._change(e.task, last=e.text)

    def _plan_made(self, e: ev.PlanMade) -> None:
        self._change(e.task, plan=e.plan)

    def _change_committed(self, e: ev.ChangeCommitted) -> None:
        self._change(e.task, change=e.change)

    def _verified(self, e: ev.Verified) -> None:
        self._change(e.task, verification=e.verification)

    def _judged(self, e: ev.Judged) -> None:
        self._change(e.task, verdict=e.verdict)

    def _attempt_failed(self, e: ev.AttemptFailed) -> None:
        view = self._tasks.get(e.task)
        if view is not None:
            self._change(
                e.task,
                over=True,
                problem=e.reason,
                last=e.reason,
                feedback=e.feedback,
                failures=view.failures + 1,
            )

    def _ready_to_land(self, e: ev.TaskReadyToLand) -> None:
        view = self._tasks.get(e.task)
        if view is None:
            return
        self._change(
            e.task,
            state=TaskState.TO_LAND,
            spans=(*view.spans, StageSpan(e.attempt, Stage.LAND, e.at))[-MAX_SPANS:],
            stage=Stage.LAND,
            stage_started=e.at,
            commit=e.commit,
            sent_back=False,
            problem="",
            last="waits for a train",
        )

    def _sent_back(self, e: ev.TaskSentBack) -> None:
        view = self._tasks.get(e.task)
        if view is None:
            return
        self._add(sent_back=1)
        self._change(
            e.task,
            spans=self._end_span(view, Stage.LAND, e.attempt, e.at, ok=False, note=e.reason),
            state=TaskState.QUEUED,
            over=True,
            stage=None,
            stage_started=None,
            sent_back=True,
            train=None,
            commit="",
            problem=e.reason,
            last=e.reason,
            feedback=e.feedback,
            returns=view.returns + 1,
        )

    def _landed(self, e: ev.TaskLanded) -> None:
        view = self._tasks.get(e.task)
        if view is None or (view.state is TaskState.LANDED and view.commit):
            return
        where = f"train {e.train}, {e.commit[:7]}" if e.train else f"landed as {e.commit[:7]}"
        self._landings = (*self._landings, e.at)[-MAX_LANDINGS:]
        self._change(
            e.task,
            state=TaskState.LANDED,
            stage=None,
            stage_started=None,
            commit=e.commit,
            train=e.train,
            ended=e.at,
            problem="",
            sent_back=False,
            last=where,
            spans=self._end_span(view, Stage.LAND, view.attempt, e.at, ok=True, note=where),
        )

    def _task_ended(self, e: ev.TaskEnded) -> None:
        view = self._tasks.get(e.task)
        if view is not None:
            self._change(
                e.task,
                state=e.state,
                stage_started=None,
                ended=e.at,
                problem=e.reason,
                last=e.reason,
                **_stopped(view, e.at, e.reason),
            )

    # Lessons

    def _lesson_recorded(self, e: ev.LessonRecorded) -> None:
        self._add(lessons_recorded=1)
        view = self._tasks.get(e.task)
        if view is not None and e.lesson not in view.learned:
            self._change(e.task, learned=(*view.learned, e.lesson))
        note = LessonNote(e.at, e.task, e.lesson, e.text, e.times_seen)
        self._lesson_notes = (*self._lesson_notes, note)[-MAX_LESSONS:]

    def _lesson_resolved(self, e: ev.LessonResolved) -> None:
        view = self._tasks.get(e.task)
        if view is not None:
            self._change(e.task, learned=tuple(lesson for lesson in view.learned if lesson != e.lesson))
        self._lesson_notes = tuple(
            replace(note, resolved=True) if note.lesson == e.lesson else note for note in self._lesson_notes
        )

    # Model calls

    def _call_started(self, e: ev.CallStarted) -> None:
        view = self._tasks.get(e.task)
        if view is not None:
            call = CallView(e.call, e.attempt, e.role, e.model, e.at, batched=e.batched)
            self._change(e.task, **_calls((*view.calls, call)))

    def _call_answered(self, e: ev.CallAnswered) -> None:
        cached = e.source is AnswerSource.CACHE
        paid = not cached
        usd = (e.usd or 0.0) if paid else 0.0
        usage = e.usage if paid else Usage()
        unpriced = int(paid and e.usd is None)
        self._add(
            model_calls=int(e.source is AnswerSource.CALL),
            batched_requests=int(e.source is AnswerSource.BATCH),
            cache_hits=int(cached),
            usage=usage,
            usd=usd,
            usd_saved=e.usd_saved,
            unpriced=unpriced,
            tokens_saved=e.usage.total if cached else 0,
        )
        key = (e.role, e.model)
        line = self._spend.get(key, SpendLine(e.role, e.model))
        self._spend[key] = replace(
            line,
            calls=line.calls + int(paid),
            cached=line.cached + int(cached),
            batched=line.batched + int(e.source is AnswerSource.BATCH),
            usage=line.usage + usage,
            usd=line.usd + usd,
            usd_saved=line.usd_saved + e.usd_saved,
            unpriced=line.unpriced + unpriced,
        )
        view = self._tasks.get(e.task)
        if view is None:
            return
        if not any(call.id == e.call for call in view.calls):
            # What the cache answers was never on its way.
            began = CallView(e.call, e.attempt, e.role, e.model, e.at - e.duration)
            view = replace(view, calls=(*view.calls, began))
        calls = _end_call(
            view,
            e.call,
            e.at,
            source=e.source,
            usage=e.usage,
            usd=e.usd,
            usd_saved=e.usd_saved,
            record=e.record,
            error="",
        )
        self._change(
            e.task,
            **calls,
            usd=view.usd + usd,
            usd_saved=view.usd_saved + e.usd_saved,
            usage=view.usage + usage,
            calls_made=view.calls_made + int(paid),
            cache_hits=view.cache_hits + int(cached),
            unpriced=view.unpriced + unpriced,
        )

    def _call_failed(self, e: ev.CallFailed) -> None:
        self._add(call_failures=1)
        view = self._tasks.get(e.task)
        if view is None:
            return
        if e.retry_in is None:
            self._change(e.task, **_end_call(view, e.call, e.at, error=e.error), last=e.error)
        else:
            self._change(e.task, last=f"{e.error}; again in {e.retry_in:.0f} s")

    def _batch_creating(self, e: ev.BatchCreating) -> None:
        self._open_batches[e.token] = e
        # One that never got its id is kept for a restart to look for it, but not for ever.
        unanswered = [
            token for token, known in self._open_batches.items() if isinstance(known, ev.BatchCreating)
        ]
        for token in unanswered[:-MAX_UNANSWERED]:
            del self._open_batches[token]

    def _batch_submitted(self, e: ev.BatchSubmitted) -> None:
        self._open_batches[e.token] = e
        if e.batch in self._batches:
            return
        self._add(batch_calls=1)
        self._batches[e.batch] = BatchView(
            e.batch, e.role, e.model, len(e.custom_ids), "in_progress", e.at, tasks=e.tasks
        )
        _bound(self._batches, MAX_BATCHES, lambda batch: batch.ended_at is not None)

    def _batch_polled(self, e: ev.BatchPolled) -> None:
        batch = self._batches.get(e.batch)
        if batch is not None:
            self._batches[e.batch] = replace(
                batch, status=e.status, succeeded=e.succeeded, errored=e.errored, next_poll_at=e.next_poll_at
            )

    def _batch_ended(self, e: ev.BatchEnded) -> None:
        for token, known in tuple(self._open_batches.items()):
            if isinstance(known, ev.BatchSubmitted) and known.batch == e.batch:
                del self._open_batches[token]
        batch = self._batches.get(e.batch)
        if batch is not None:
            self._batches[e.batch] = replace(
                batch,
                status="ended",
                succeeded=e.succeeded,
                errored=e.errored,
                next_poll_at=None,
                ended_at=max(batch.submitted_at, e.at),
            )

    # Trains

    def _train_departed(self, e: ev.TrainDeparted) -> None:
        self._trains[e.train] = TrainView(e.train, "combine", e.tasks, e.at)
        _bound(self._trains, MAX_TRAINS, lambda train: train.ended_at is not None)
        for task in e.tasks:
            self._change(task, train=e.train, last=f"train {e.train}, combine")

    def _train_moved(self, e: ev.TrainMoved) -> None:
        train = self._trains.get(e.train)
        if train is None:
            return
        self._trains[e.train] = replace(train, stage=e.stage, detail=e.detail)
        for task in train.tasks:
            view = self._tasks.get(task)
            if view is not None and view.state is TaskState.TO_LAND and view.train == e.train:
                self._change(task, last=f"train {e.train}, {e.stage}")

    def _pushed(self, e: ev.Pushed) -> None:
        self._add(pushes=1)

    def _train_arrived(self, e: ev.TrainArrived) -> None:
        train = self._trains.get(e.train)
        if train is None:
            return
        self._add(trains=int(bool(e.landed)))
        self._trains[e.train] = replace(
            train,
            stage="failed" if e.problem else "landed",
            detail=e.problem,
            landed=len(e.landed),
            sent_back=len(e.sent_back),
            tip=e.tip,
            ended_at=max(train.started_at, e.at),
        )
        if e.problem:
            self._notice(e.at, "error", f"train {e.train}: {e.problem}")


def _end_call(view: TaskView, call_id: str, at: float, **fields: Any) -> dict[str, Any]:
    """Close the call in the view's list; gives the fields of the view that change."""
    calls = list(view.calls)
    for index, call in enumerate(calls):
        if call.id == call_id and call.ended is None:
            calls[index] = replace(call, ended=max(call.started, at), **fields)
            break
    return _calls(calls)


def _calls(calls: Sequence[CallView]) -> dict[str, Any]:
    """The view's fields for these calls: the newest of them, and how many still wait in batches."""
    kept = tuple(calls[-MAX_CALLS:])
    return {"calls": kept, "batched": sum(call.batched and call.ended is None for call in kept)}


def _stopped(view: TaskView, at: float, why: str) -> dict[str, Any]:
    """The view's fields once nothing of it is in motion any more."""
    spans = tuple(
        span if span.ended is not None else replace(span, ended=max(span.started, at), note=why)
        for span in view.spans
    )
    calls = [
        call if call.ended is not None else replace(call, ended=max(call.started, at), error=why)
        for call in view.calls
    ]
    return {"spans": spans, **_calls(calls)}


def _bound(items: dict[Any, _V], limit: int, may_go: Callable[[_V], bool]) -> None:
    """Forget the oldest items over the limit, but none that is still in motion."""
    for key in list(items):
        if len(items) <= limit:
            return
        if may_go(items[key]):
            del items[key]


_NO_DETAILS: dict[str, Any] = {
    "plan": None, "change": None, "verification": None, "verdict": None, "lessons": (), "feedback": "", "worktree": "",
    "spans": (), "calls": (),
}  # fmt: skip
_GAUGES = ("results", "templates", "lessons", "history", "limiters", "queues")
_RUN_FIELDS = (
    "run",
    "board",
    "repository",
    "base",
    "target",
    "remote",
    "host",
    "pid",
    "roles",
    "max_concurrency",
    "max_attempts",
    "max_batch",
    "max_age",
    "budget_usd",
)
_HANDLERS: dict[type[ev.Event], Callable[[RunState, Any], None]] = {
    ev.RunStarted: RunState._run_started,
    ev.RunResumed: RunState._run_resumed,
    ev.TasksAdded: RunState._tasks_added,
    ev.DispatchChanged: RunState._dispatch_changed,
    ev.Noticed: RunState._noticed,
    ev.Measured: RunState._measured,
    ev.BudgetReached: RunState._budget_reached,
    ev.CycleStarted: RunState._cycle_started,
    ev.RunFinished: RunState._run_finished,
    ev.TaskQueued: RunState._task_queued,
    ev.TaskReopened: RunState._task_reopened,
    ev.AttemptStarted: RunState._attempt_started,
    ev.StageStarted: RunState._stage_started,
    ev.StageFinished: RunState._stage_finished,
    ev.Progressed: RunState._progressed,
    ev.PlanMade: RunState._plan_made,
    ev.ChangeCommitted: RunState._change_committed,
    ev.Verified: RunState._verified,
    ev.Judged: RunState._judged,
    ev.AttemptFailed: RunState._attempt_failed,
    ev.TaskReadyToLand: RunState._ready_to_land,
    ev.TaskSentBack: RunState._sent_back,
    ev.TaskLanded: RunState._landed,
    ev.TaskEnded: RunState._task_ended,
    ev.LessonRecorded: RunState._lesson_recorded,
    ev.LessonResolved: RunState._lesson_resolved,
    ev.CallStarted: RunState._call_started,
    ev.CallAnswered: RunState._call_answered,
    ev.CallFailed: RunState._call_failed,
    ev.BatchCreating: RunState._batch_creating,
    ev.BatchSubmitted: RunState._batch_submitted,
    ev.BatchPolled: RunState._batch_polled,
    ev.BatchEnded: RunState._batch_ended,
    ev.TrainDeparted: RunState._train_departed,
    ev.TrainMoved: RunState._train_moved,
    ev.Pushed: RunState._pushed,
    ev.TrainArrived: RunState._train_arrived,
}
