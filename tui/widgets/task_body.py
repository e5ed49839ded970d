"""The section of a task that is read: which attempt, call, log or file of it, and what the snapshot does not hold."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from engine.blocked import blocked
from engine.errors import TaskyardError
from engine.model import AnswerSource, TaskState
from engine.task_view import AttemptView, CallView, TaskView
from tui.bill import cost_lines, nobody_asked, source_of
from tui.call_record import prompt_lines, record_lines
from tui.diff import MAX_LINES, MOST_LINES, DiffText, diff_text
from tui.format import safe_text
from tui.frame import Frame
from tui.line import BLANK, Line, joined, plain, text
from tui.plain import count, short_model
from tui.pulse import Pulse
from tui.sections import landed_untried, lesson_lines, plan_lines, timeline_lines, verdict_lines
from tui.source import Lookups
from tui.task_log import LogReader, logs_of
from tui.waiting import awaited
from tui.widgets.pager import Pager

SECTIONS = ("Timeline", "Plan", "Prompt", "Diff", "Log", "Verdict", "Lessons", "Cost")
BY_ATTEMPT = frozenset({"Prompt", "Diff", "Log", "Verdict", "Lessons"})
"""The sections that differ from attempt to attempt."""

LOOKS = 2.0
"""Looks a second at a log that may grow."""

TIMES_FROM = 72
"""Cells from which on a log begins with its times."""


class TaskBody(Pager):
    """Shows one section of one task."""

    def __init__(self, lookups: Lookups, section: str) -> None:
        super().__init__(id="body")
        self.section = section
        self._lookups = lookups
        self._view: TaskView | None = None
        self._attempt: int | None = None
        self._item: int | None = None
        self._loaded: object = None
        self._diff = ""
        self._diff_text = DiffText()
        self._limit = MAX_LINES
        self._times: bool | None = None
        self._reader: LogReader | None = None
        self._flooded = False
        self._landed_in: dict[str, str] = {}
        self._told: object = None

    def on_mount(self) -> None:
        """Follow the log while it is on the screen."""
        super().on_mount()
        self._looks = Pulse(self._look, quick=LOOKS, calm=LOOKS)
        self._looks.start()

    def on_unmount(self) -> None:
        """Look no more."""
        self._looks.stop()

    # What is shown

    def open(self, section: str, *, newest: bool = False) -> None:
        """Begin this section anew, from its top; of the newest attempt, or of the one that was chosen."""
        self.section = section
        if newest:
            self._attempt = None
        self._item, self._limit = None, MAX_LINES
        self._close_log()
        self._loaded = None
        self._diff, self._diff_text = "", DiffText()
        self.set_follow(False)
        self.show([])
        self.scroll_home(animate=False)

    def show_task(self, view: TaskView, frame: Frame) -> None:
        """Show the section as it is in this frame."""
        self._view = view
        cells = max(20, self.scrollable_content_region.width)
        if self.section == "Timeline":
            snapshot = frame.snapshot
            waits = awaited(view, snapshot.task, blocked(snapshot)) if view.state is TaskState.WAITING else ""
            self._find_landing(view, frame, cells)
            self.show(timeline_lines(view, frame.until, cells, waits, self._landed_in.get(view.id, "")))
        elif self.section != "Cost" and (how := landed_untried(view)):
            self.show([text(how, "muted")])
        elif self.section == "Plan":
            self.show(plan_lines(view, cells))
        elif self.section == "Verdict":
            self.show(verdict_lines(view, self._shown(view), cells))
        elif self.section == "Lessons":
            self.show(lesson_lines(self._shown(view), cells, view.taught))
        elif self.section == "Cost":
            self.show(cost_lines(view, cells, self._lookups.prices()))
        elif self.section == "Diff":
            self._load_diff(view, frame.snapshot.run.repository)
        elif self.section == "Prompt":
            self._load_record(view, cells)
        else:
            self._choose_log(view)

    def _load(self, what: object, read: Callable[[], Awaitable[Sequence[Line]]]) -> None:
        """Read in the background what the section shows, once for each `what`."""
        if what == self._loaded:
            return
        self._loaded = what

        async def work() -> None:
            lines = await read()
            if what == self._loaded:
                self.show(lines)
                self.post_message(self.Changed())

        self.run_worker(work(), exclusive=True, group="body")

    def _find_landing(self, view: TaskView, frame: Frame, cells: int) -> None:
        """Look up, once for each task that this run found landed, which run it was."""
        if view.state is not TaskState.LANDED or view.attempt or view.id in self._landed_in:
            return
        self._landed_in[view.id] = ""
        run = frame.snapshot.run

        async def work() -> None:
            found = await self._lookups.landed_in(run.repository, run.target, view.id)
            self._landed_in[view.id] = found if found != run.run else ""
            if found and self.section == "Timeline" and self._view is view:
                self.show(timeline_lines(view, frame.until, cells, landed_in=self._landed_in[view.id]))

        self.run_worker(work(), group="landing")

    def _load_diff(self, view: TaskView, repository: str) -> None:
        shown = self._shown(view)
        change = shown.change if shown is not None else None
        newest = shown is not None and shown.attempt == view.attempt
        if change is None and not (newest and view.worktree):
            nothing = "no change yet" if newest or shown is None else "this attempt made no change"
            self.show([text(nothing, "muted")])
            return

        async def read() -> Sequence[Line]:
            try:
                self._diff = await self._lookups.diff(repository, view, change)
                self._diff_text = await asyncio.to_thread(diff_text, self._diff, self._limit)
            except (TaskyardError, OSError) as error:
                return [text(f"the diff cannot be read: {safe_text(str(error))}", "warn")]
            return self._diff_text.lines or [text("no change yet", "muted")]

        self._load((change or view.last, self._limit), read)

    def _load_record(self, view: TaskView, cells: int) -> None:
        if not view.calls:
            self.show([text(nobody_asked(view), "muted")])
            return
        call = view.calls[self._call_index(view)]
        self._load((call.id, call.record, call.ended, cells), lambda: _record(call, cells))

    def _choose_log(self, view: TaskView) -> None:
        logs = logs_of(view)
        if not logs:
            self.show([text("no log yet", "muted")])
            return
        log = logs[self._log_index(view)]
        if self._reader is None or self._reader.log.path != log.path:
            self._close_log()
            self._reader, self._flooded = LogReader(self, log, times=self._shows_times), False
            self._told = None
            self.run_worker(self._read_log(), group="log")

    def _close_log(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _look(self) -> bool:
        reader = self._reader
        if self.section == "Log" and reader is not None and self.screen.is_current and reader.tail.waiting:
            self.call_next(self._read_log)
        return False

    async def _read_log(self) -> None:
        reader = self._reader
        if self.section != "Log" or reader is None or not self.screen.is_current:
            return
        if self._flooded:
            # More than fits the screen came at once. Nobody reads that as it comes: it is drawn half as often.
            self._flooded = False
            return
        before = self.total
        if await reader.read():
            self._flooded = self.total - before > self.size.height
            told = (reader.tail.skipped, self.unseen, self.found)
            if told != self._told:
                self._told = told
                self.post_message(self.Changed())

    # Where the reader is

    def place(self) -> Line:
        """Which attempt, and which call, log or file of it."""
        view = self._view
        return joined([self._attempt_line(view), self._item_line(view)]) if view is not None else ()

    def _attempt_line(self, view: TaskView) -> Line:
        shown = self._shown(view)
        if self.section not in BY_ATTEMPT or shown is None:
            return ()
        more = " < >" if len(view.attempts) > 1 else ""
        return (
            (f"attempt {shown.attempt}", "text strong"),
            (f" of {view.attempts[-1].attempt}{more}", "faint"),
        )

    def _item_line(self, view: TaskView) -> Line:
        if self.section == "Prompt" and view.calls:
            at = self._call_index(view)
            call = view.calls[at]
            who = f"{call.role}, {source_of(call)}, {short_model(call.model)}"
            return ((f"call {at + 1} of {len(view.calls)} [ ]  ", "faint"), (who, "muted"))
        if self.section == "Diff" and self._diff_text.files:
            return text(f"{count(len(self._diff_text.files), 'file')} [ ]", "faint")
        reader = self._reader
        if self.section == "Log" and reader is not None:
            what = f"{reader.log.span.stage}, log {self._log_index(view) + 1} of {len(logs_of(view))} [ ]"
            grows = logs_of(view)[self._log_index(view)].span.ended is None or self.unseen
            following = self._follow_line() if grows else ()
            return joined([text(what, "faint"), text(reader.tail.skipped, "faint"), following])
        return ()

    def _follow_line(self) -> Line:
        if self.follow:
            return text("following (f)", "faint")
        if self.unseen:
            return text(f"{count(self.unseen, 'new line')}: f follows", "warn")
        return text("f follows", "faint")

    # Attempts, and what each has several of

    def _shown(self, view: TaskView) -> AttemptView | None:
        """The attempt to show: the chosen one, else the newest."""
        known = view.attempts
        return next((each for each in known if each.attempt == self._attempt), known[-1] if known else None)

    def step_attempt(self, step: int) -> bool:
        """Go to another attempt, in the same section; from one that is the same for all, to the verdict.

        Gives whether there was one.
        """
        view = self._view
        shown = self._shown(view) if view is not None else None
        if view is None or shown is None:
            return False
        attempts = [each.attempt for each in view.attempts]
        at = attempts.index(shown.attempt) + step
        if not 0 <= at < len(attempts):
            return False
        self._attempt = attempts[at] if at < len(attempts) - 1 else None
        self.open(self.section if self.section in BY_ATTEMPT else "Verdict")
        return True

    def step_item(self, step: int) -> None:
        """Go to another call, another log, or another file of the diff."""
        view = self._view
        if self.section == "Diff":
            further = [line for line in self._diff_text.files if (line - self.top) * step > 0]
            if further:
                self.jump(further[0] if step > 0 else further[-1])
        elif view is not None and self.section == "Prompt" and view.calls:
            self._go_to_item(view, self._call_index(view) + step, [call.attempt for call in view.calls])
        elif view is not None and self.section == "Log" and (logs := logs_of(view)):
            self._go_to_item(view, self._log_index(view) + step, [log.span.attempt for log in logs])

    def _go_to_item(self, view: TaskView, item: int, attempts: Sequence[int]) -> None:
        self._item = min(len(attempts) - 1, max(0, item))
        self._attempt = attempts[self._item] if attempts[self._item] != view.attempt else None

    def _call_index(self, view: TaskView) -> int:
        """The call to show: the newest with an answer (of the chosen attempt), until somebody turns to another."""
        last = len(view.calls) - 1
        if self._item is not None:
            return min(self._item, last)
        of_attempt = [n for n, call in enumerate(view.calls) if self._attempt in (None, call.attempt)]
        return next(
            (n for n in reversed(of_attempt) if view.calls[n].record), of_attempt[-1] if of_attempt else last
        )

    def _log_index(self, view: TaskView) -> int:
        logs = logs_of(view)
        if self._item is not None:
            return min(self._item, len(logs) - 1)
        of_attempt = [n for n, log in enumerate(logs) if self._attempt in (None, log.span.attempt)]
        return of_attempt[-1] if of_attempt else len(logs) - 1

    # What keys do

    @property
    def _shows_times(self) -> bool:
        return self.app.size.width >= TIMES_FROM if self._times is None else self._times

    def toggle_times(self) -> bool:
        """Show when the lines of the log arrived, or not; gives whether anybody wrote that down."""
        self._times = not self._shows_times
        if self._reader is None:
            return True
        self._reader.show_times(self._times)
        return self._reader.timed

    def show_all(self) -> None:
        """Show all of a long diff, the next time it is shown."""
        if self._diff_text.cut:
            self._limit = MOST_LINES

    def plain(self) -> str:
        """The section as text: a diff as git gave it, of a log what is kept of its end."""
        if self.section == "Diff" and self._diff:
            return self._diff
        if self.section == "Log" and self._reader is not None:
            return "\n".join(self._reader.tail.lines)
        return "\n".join(plain(line) for line in self.lines)

    def whole(self) -> Path | str:
        """The file behind the section, or its text."""
        view = self._view
        if self.section == "Log" and self._reader is not None:
            return self._reader.log.path
        if self.section == "Prompt" and view is not None and view.calls:
            record = view.calls[self._call_index(view)].record
            return Path(record) if record else self.plain()
        return self.plain()


async def _record(call: CallView, cells: int) -> Sequence[Line]:
    """The prompt and the answer of a call, or why they are not there."""
    if call.agent and call.record:
        lines = await asyncio.to_thread(prompt_lines, Path(call.record), cells)
        return [text(safe_text(call.error, 2000), "bad"), BLANK, *lines] if call.error else lines
    if call.record:
        return await asyncio.to_thread(record_lines, Path(call.record), cells)
    if call.error:
        return [text(safe_text(call.error, 2000), "bad")]
    if call.source is AnswerSource.CACHE:
        return [text("nobody was asked: an earlier answer was used again", "muted")]
    if call.agent:
        return [text("no record could be kept of this prompt", "muted")]
    if call.ended is not None:
        return [text("no record was kept of this call", "muted")]
    return [text("the answer is awaited; the record is written with it", "muted")]
