"""The third panel: what travels together, to git and to the model service."""

from __future__ import annotations

from functools import lru_cache

from msgspec.structs import replace

from engine.figures import BatchView, QueueFigures, TrainView
from engine.model import TaskState
from engine.snapshot import Snapshot
from tui.format import safe_text
from tui.frame import Frame
from tui.line import BLANK, Line, Span, joined, text, wrapped
from tui.line import width as cells_of
from tui.panels.panel import Panel
from tui.plain import ago, count, duration, short_model
from tui.sums import batches_in_words, calls_saved, pushes_in_words

FULL = 60  # cells from which a line has room for more than what matters most
SHOWN_TRAINS = 12  # trains that have arrived, the newest


class BatchesPanel(Panel):
    """The queues, the train on its way, pending model batches, and the round trips saved."""

    NUMBER = 3
    NAME = "Batches"

    def lines(self, frame: Frame, width: int, height: int) -> list[Line]:
        """The figures; older trains and batches where there is room."""
        return batch_lines(frame, width)

    def summary(self, frame: Frame) -> Line:
        """What moves, and what was saved."""
        snapshot = frame.snapshot
        moving = [train for train in snapshot.trains if train.ended_at is None]
        queues = (*(each for each in snapshot.queues if each.name == "git"), model_queue(snapshot))
        queued = [f"{_queue_name(queue)} {queue.queued} queued" for queue in queues if queue and queue.queued]
        parts: list[Line] = []
        if moving:
            parts.append(text(f"train {moving[-1].number} {stage_in_words(moving[-1].stage)}", "accent"))
        elif queued:
            parts.append(text(", ".join(queued), "text"))
        if words := _out_in_words(snapshot):
            parts.append(text(words, "batch"))
        parts.append(text(pushes_in_words(snapshot), "muted"))
        return joined(parts, " · ")


def _queue_name(queue: QueueFigures) -> str:
    return "git" if queue.name == "git" else "model"


def _out_in_words(snapshot: Snapshot) -> str:
    """How many requests are on their way in batches: "4 requests out in 2 batches", or nothing."""
    out = [batch for batch in snapshot.batches if batch.ended_at is None]
    requests = count(sum(batch.requests for batch in out), "request")
    return f"{requests} out in {count(len(out), 'batch', 'batches')}" if out else ""


@lru_cache(maxsize=2)
def model_queue(snapshot: Snapshot) -> QueueFigures | None:
    """The queue of requests to models, with as many in it as the list of tasks tells to be gathering.

    Its own figure is measured once a second, and would be behind the list.
    """
    measured = next((queue for queue in snapshot.queues if queue.name != "git"), None)
    waits = [view for view in snapshot.tasks if view.batched and view.state is TaskState.RUNNING]
    if not waits:
        return measured
    sent = {task for batch in snapshot.batches if batch.ended_at is None for task in batch.tasks}
    queued = sum(view.batched for view in waits if view.id not in sent)
    if measured is None:
        return QueueFigures(name="model requests", queued=queued)
    return replace(measured, queued=queued, oldest_at=measured.oldest_at if measured.queued else None)


def batch_lines(frame: Frame, width: int) -> list[Line]:
    """Git first, then the model, in lines of `width` cells."""
    snapshot = frame.snapshot
    full = width >= FULL
    queues = {queue.name: queue for queue in snapshot.queues}
    lines = [_queue_line("git", queues.get("git"), frame, waiting=snapshot.count(TaskState.TO_LAND))]
    for train in snapshot.trains:
        if train.ended_at is None:
            lines += _train_lines(train, frame, width)
    lines.append((("      ", "text"), (pushes_in_words(snapshot), "muted")))
    line = _queue_line("model", model_queue(snapshot), frame)
    out = _out_in_words(snapshot)
    beside = (*line, (f" · {out}", "batch")) if out else line
    # Where there is no room for it, the batches below tell it one by one.
    lines.append(beside if cells_of(beside) <= width else line)
    for batch in snapshot.batches:
        if batch.ended_at is None:
            lines += _model_batch_lines(batch, frame, full=full)
    totals = snapshot.totals
    if totals.batch_calls or totals.batched_requests:
        so_far = " so far" if full and out else ""
        words = f"{batches_in_words(totals)}, {calls_saved(totals):,} saved{so_far}"
        lines.append((("      ", "text"), (words, "muted")))
    older = [train for train in reversed(snapshot.trains) if train.ended_at is not None][:SHOWN_TRAINS]
    if older:
        lines.append(BLANK)
        for train in older:
            lines += _past_train_lines(train, frame, width)
    return lines


def _queue_line(name: str, queue: QueueFigures | None, frame: Frame, waiting: int = 0) -> Line:
    label = (f"{name:<6}", "muted")
    if queue is None or not queue.queued:
        return (label, (f"{waiting} to land" if waiting else "queue empty", "faint"))
    spans = [label, (f"{queue.queued} queued", "text")]
    if queue.max_size:
        spans.append((f" of {queue.max_size}", "faint"))
    if queue.oldest_at is not None:
        age = max(0.0, frame.until - queue.oldest_at)
        spans.append((f", oldest {ago(age)} of {ago(queue.max_age)}", "faint"))
    return tuple(spans)


_TRAIN_STAGES = (("combine", "merge"), ("verify", "verify"), ("push", "push"))


_TRAIN_STAGES = (("combine", "merge"), ("verify", "verify"), ("push", "push"))


def stage_in_words(stage: str) -> str:
    """What a train does, in the words of its way: "merge", "verify", "push", or "bisect" beside it."""
    if stage == "conflict":
        stage = "combine"  # who clashes goes back, and the others are merged
    return dict(_TRAIN_STAGES).get(stage, stage if stage == "bisect" else _TRAIN_STAGES[-1][1])


def _train_lines(train: TrainView, frame: Frame, width: int) -> list[Line]:
    head = [
        ("      ", "text"),
        (f"train {train.number}", "text strong"),
        (f" {count(len(train.tasks), 'task')} ", "muted"),
    ]
    age = (f" {duration(frame.until - train.started_at)}", "faint")
    detail = (f" {safe_text(train.detail)}" if train.detail else "", "muted")
    names = [word for _, word in _TRAIN_STAGES]
    way: list[Span] = []
    if train.stage == "bisect":
        way.append((" bisecting: who breaks it?", "warn"))
    else:
        at = names.index(stage_in_words(train.stage))
        for index, (_, word) in enumerate(_TRAIN_STAGES):
            mark, tone = ("✓", "good") if index < at else ("⠿", "accent") if index == at else ("·", "faint")
            way.append((f" {word} {mark}", tone))
    if width >= FULL:
        return [(*head, *way, (" ", "text"), age, detail)]
    return [(*head, age), (("       ", "text"), *way, detail)]


def _past_train_lines(train: TrainView, frame: Frame, width: int) -> list[Line]:
    ended = train.ended_at or frame.until
    now = frame.now if frame.snapshot.run.finished is not None else frame.until
    name = (f"train {train.number} ", "muted")
    if train.stage == "failed":
        rows = wrapped(safe_text(train.detail or "failed"), width - 8, "bad")
        return [(name, ("✗ ", "bad"), *rows[0]), *((("        ", "text"), *row) for row in rows[1:3])]
    full = width >= FULL
    spans = [name, (f"✓ {train.landed} landed", "good") if train.landed else ("! 0 landed", "warn")]
    if train.sent_back:
        spans.append((f", {train.sent_back} sent back" if full else f", {train.sent_back} back", "warn"))
    spans.append((f"  {ago(max(0.0, now - ended))} ago", "faint"))
    if full:
        spans.append((f"  {train.tip[:7]}", "faint"))
        spans.append((f"  in {ended - train.started_at:.1f} s: {safe_text(', '.join(train.tasks))}", "faint"))
    return [tuple(spans)]


def _model_batch_lines(batch: BatchView, frame: Frame, *, full: bool) -> list[Line]:
    done = batch.succeeded + batch.errored
    requests = count(batch.requests, "request") if full else f"{batch.requests:,}"
    first = (
        ("      ", "text"),
        ("◔ ", "batch"),
        (f"…{safe_text(batch.id)[-6:]} ", "text strong"),
        (f"{done:,} of {requests}", "text"),
        (f" {batch.role}" + (f" {short_model(batch.model)}" if full else ""), "faint"),
    )
    words = [safe_text(batch.status.replace("_", " "), 20), duration(frame.until - batch.submitted_at)]
    if batch.next_poll_at is not None:
        words.append(f"poll in {max(0.0, batch.next_poll_at - frame.until):.0f} s")
    second = [("        ", "text"), (", ".join(words), "muted")]
    if batch.errored:
        second.append((f", {batch.errored} errored", "bad"))
    return [first, tuple(second)]
