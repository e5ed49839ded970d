"""A run as plain lines for logs, pipes and people without a dashboard: one line for each fact worth one.

lines = ProgressLines()
for event in events:
    for line in lines.of(event):
        print(line)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from engine import events as ev
from engine.errors import HaltedError
from engine.model import TaskState
from engine.snapshot import RunView, Snapshot
from engine.state import RunState
from tui.edits import summary, taken
from tui.peers import crew_changes, place_of
from tui.plain import count, duration, money, one_line, short_model, tokens_by_class
from tui.setup import landing_in_words, setup_changes
from tui.sums import (
    answers_in_words,
    counts_at_the_end,
    end_in_words,
    plus_unpriced,
    pushes_in_words,
    rows_listed,
    savings_by_cause,
)

_MIN_WIDTH = 5  # the longest of run, board, batch, train and push
_MAX_WIDTH = 14  # cells of the first column: a longer id runs on


class ProgressLines:
    """Turns the events of one run into lines. `start` is what is known of the run already.

    `kept` says whether an interrupted run can be taken up again; that of a demo in a temporary folder cannot.
    """

    def __init__(self, start: Snapshot | None = None, *, kept: bool = True) -> None:
        self._state = RunState(start)
        self._kept = kept
        self._width = _MIN_WIDTH
        self._elsewhere: dict[str, str] = {}  # where the tasks of others are worked on
        self._widen()

    def of(self, event: ev.Event) -> Iterator[str]:
        """The lines that tell the event; mostly none or one."""
        peers, run = self._state.gauges["peers"], self._state.run
        self._state.apply(event)
        if isinstance(event, ev.RunFinished):
            yield from self._summary(event)
            return
        if isinstance(event, ev.Measured) and event.peers is not None:
            for text in crew_changes(peers, self._state.snapshot()):
                yield self._line(event.at, "run", text)
            return
        if isinstance(event, (ev.RunStarted, ev.TasksAdded, ev.BoardTaken, ev.CycleStarted)):
            self._widen()
        told = self._tell_resumed(event, run) if isinstance(event, ev.RunResumed) else self._tell(event)
        if told is not None:
            yield self._line(event.at, *told)

    def _line(self, at: float, about: str, text: str) -> str:
        return f"{self._clock(at)}  {one_line(about):<{self._width}}  {one_line(text)}".rstrip()

    def _tell(self, event: ev.Event) -> tuple[str, str] | None:
        """What the line is about (a task, `run`, a train …), and its text; None when the event is not worth a line."""
        match event:
            case ev.RunStarted():
                return "run", (
                    f"{event.run}: {count(len(event.tasks), 'task')} of {event.board}, "
                    f"{event.max_concurrency} at once; {landing_in_words(event.target, event.remote)}"
                )
            case ev.TasksAdded():
                return "board", f"changed: {', '.join(task.id for task in event.tasks)} taken in"
            case ev.BoardOffered() | ev.BoardTaken() | ev.BoardLeft():
                return self._tell_board(event)
            case ev.DispatchChanged():
                mode = {"running": "goes on", "paused": "is paused", "draining": "drains: no task is begun"}
                return "run", f"dispatch {mode[event.mode]}, {event.max_concurrency} at once"
            case ev.Noticed():
                mark = "" if event.level == "info" else f"{event.level}: "
                return event.task or "run", mark + event.text
            case ev.LocksChanged():
                notice = self._state.notices[-1]
                return "run", ("error: " if notice.level == "error" else "") + notice.text
            case ev.BudgetReached():
                return event.task or "run", self._state.notices[-1].text
            case ev.AttemptStarted() | ev.ChangeCommitted() | ev.AttemptFailed() | ev.TaskReadyToLand():
                return self._tell_attempt(event)
            case ev.TaskReopened():
                return event.task, "is tried again, as asked"
            case ev.TaskSentBack():
                # The reason mostly names the other one and the files itself.
                more = [text for text in (event.other, *event.paths) if text and text not in event.reason]
                return event.task, f"sent back: {event.reason}" + (f" ({', '.join(more)})" if more else "")
            case ev.TaskElsewhere() | ev.TaskLanded():
                return self._tell_whose(event)
            case ev.TaskEnded():
                self._elsewhere.pop(event.task, None)
                return event.task, f"{event.state.value}: {event.reason}"
            case ev.LessonsGiven():
                return event.task, f"its plan calls for {count(len(event.lessons), 'lesson')}"
            case ev.LessonRecorded():
                again = f" (seen {event.times_seen} times)" if event.times_seen > 1 else ""
                return event.task, f"lesson: {event.text}{again}"
            case ev.LessonResolved():
                return event.task, f"lesson {event.lesson} has its resolution"
            case ev.CallFailed():
                then = "given up" if event.retry_in is None else f"again in {event.retry_in:.1f} s"
                return event.task, f"{event.role.value} call failed: {event.error}; {then}"
            case ev.BatchSubmitted():
                requests = count(len(event.custom_ids), "request")
                whose = f"{short_model(event.model)} in one call ({event.role.value})"
                return "batch", f"{event.batch}: {requests} to {whose}"
            case ev.BatchEnded():
                errored = f", {event.errored} errored" if event.errored else ""
                return "batch", f"{event.batch}: {event.succeeded} answered{errored}"
            case ev.TrainDeparted() | ev.TrainMoved() | ev.Pushed() | ev.TrainArrived():
                return self._tell_train(event)
            case _:
                return None

    def _tell_resumed(self, event: ev.RunResumed, before: RunView) -> tuple[str, str]:
        changes = ", ".join(setup_changes(before, self._state.run))
        return "run", f"taken up again by process {event.pid}" + (f": now {changes}" if changes else "")

    def _tell_board(self, event: ev.BoardOffered | ev.BoardTaken | ev.BoardLeft) -> tuple[str, str] | None:
        match event:
            case ev.BoardOffered():
                if not event.change.edits:
                    return "board", "is as the run has it again"
                return (
                    "board",
                    f"was edited ({summary(event.change)}): the dashboard asks whether to take that in",
                )
            case ev.BoardTaken():
                rows = [taken(edit) for edit in event.change.edits if edit.acts]
                return ("board", f"taken in: {', '.join(rows)}") if rows else None
            case ev.BoardLeft():
                return "board", "its edits are left to the next run"

    def _tell_attempt(
        self, event: ev.AttemptStarted | ev.ChangeCommitted | ev.AttemptFailed | ev.TaskReadyToLand
    ) -> tuple[str, str]:
        match event:
            case ev.AttemptStarted():
                left = self._elsewhere.pop(event.task, "")
                over = f", taken over from {left}" if left else ""
                try_ = f", attempt {event.attempt}" if event.attempt > 1 else ""
                lessons = f", with {count(len(event.lessons), 'lesson')}" if event.lessons else ""
                return event.task, f"started{over}{try_}{lessons}"
            case ev.ChangeCommitted():
                change = event.change
                files = count(change.files, "file")
                return event.task, f"changed {files}, +{change.added} −{change.removed}, {change.commit[:7]}"
            case ev.AttemptFailed():
                return event.task, f"attempt {event.attempt} failed in {event.stage.value}: {event.reason}"
            case ev.TaskReadyToLand():
                view = self._state.find(event.task)
                judged = "approved" if view is not None and view.verdict is not None else "not judged"
                return event.task, f"verified, {judged}; waits for a train"

    def _tell_whose(self, event: ev.TaskElsewhere | ev.TaskLanded) -> tuple[str, str] | None:
        """Where another has the task: once it has landed, or is taken over."""
        left = self._elsewhere.pop(event.task, "")
        match event:
            case ev.TaskElsewhere():
                place = self._elsewhere[event.task] = place_of(event.host, event.pid)
                over = bool(left) and left != place
                return (event.task, f"taken over from {left} by {place}") if over else None
            case ev.TaskLanded():
                with_train = f" with train {event.train}" if event.train else ""
                by = f" by {event.by}" if event.by else ""
                return event.task, f"landed{with_train}, {event.commit[:7]}{by}"

    def _tell_train(
        self, event: ev.TrainDeparted | ev.TrainMoved | ev.Pushed | ev.TrainArrived
    ) -> tuple[str, str] | None:
        train = f"train {event.train}"
        match event:
            case ev.TrainDeparted():
                return "train", f"{event.train} departs with {', '.join(event.tasks)}"
            case ev.TrainMoved():
                if event.stage != "bisect":
                    return None
                detail = f": {event.detail}" if event.detail else ""
                return "train", f"{event.train} looks for the one at fault{detail}"
            case ev.Pushed():
                cargo = train if event.train else "the board's new states"
                return "push", f"{cargo} to {event.ref}, {event.tip[:7]}"
            case ev.TrainArrived():
                back = f", {len(event.sent_back)} sent back" if event.sent_back else ""
                problem = f"; {event.problem}" if event.problem else ""
                return "train", f"{event.train} landed {count(len(event.landed), 'task')}{back}{problem}"

    def _summary(self, end: ev.RunFinished) -> Iterator[str]:
        yield ""
        halted = end.status == "interrupted" and end.exit_status == HaltedError.exit_status
        goes_on = "the same command goes on from here" if self._kept else ""
        word = end_in_words(end)
        if end.status == "interrupted" and goes_on:
            word += f": mend that, and {goes_on}" if halted else f"; {goes_on}"
        parts = [f"{end.landed} of {end.total} landed", *counts_at_the_end(end)]
        yield f"{word}: {', '.join(parts)}, in {duration(end.duration_s)}"
        yield "  git      " + self._git_line(self._state.snapshot())
        yield "  models   " + answers_in_words(self._state.totals)
        if end.tokens.total:
            yield "  tokens   " + tokens_by_class(end.tokens)
        yield "  cost     " + self._cost_line(end)
        for view in self._state.snapshot().tasks:
            if view.state is TaskState.FAILED or (
                view.state is TaskState.CANCELLED and not view.removed and end.status != "interrupted"
            ):
                yield f"  {view.state.value:<8} {one_line(view.id)}  {one_line(view.problem)}".rstrip()

        for text in rows_listed(self._state.refused):
            yield f"  not run  {one_line(text)}"

    def _git_line(self, snapshot: Snapshot) -> str:
        line = pushes_in_words(snapshot)
        marks = snapshot.totals.marks
        if marks and snapshot.totals.landed:
            line += f"; {count(marks, 'push', 'pushes')} of the board's states alone"
        return line

    def _cost_line(self, end: ev.RunFinished) -> str:
        causes = savings_by_cause(self._state.totals, partial(money, among=self._state.totals.usd_saved))
        spent = money(end.usd) + plus_unpriced(end.unpriced)
        return f"{spent}, {money(end.usd_saved)} saved" + (f": {', '.join(causes)}" if causes else "")

    def _clock(self, at: float) -> str:
        return duration(self._state.run.elapsed(at))

    def _widen(self) -> None:
        ids = (len(one_line(view.id)) for view in self._state.snapshot().tasks)
        self._width = min(_MAX_WIDTH, max(_MIN_WIDTH, *ids, _MIN_WIDTH))
