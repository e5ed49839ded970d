"""The task screen: all that is known of one task, section by section."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from engine.errors import TaskyardError
from engine.model import Change
from engine.snapshot import CallView, StageSpan, TaskView
from tui.call_record import record_lines
from tui.diff import diff_lines
from tui.format import safe_text
from tui.frame import Frame
from tui.line import Line, hard_wrapped, text
from tui.log_tail import LogTail
from tui.screens.base import FrameScreen
from tui.sections import (
    cost_lines,
    head_lines,
    lesson_lines,
    plan_lines,
    source_of,
    timeline_lines,
    verdict_lines,
)
from tui.widgets.key_bar import KeyBar
from tui.widgets.line_view import LineView

SECTIONS = ("Timeline", "Plan", "Prompt", "Diff", "Log", "Verdict", "Lessons", "Cost")
READ_EVERY = 0.25
"""Seconds between two looks at a log that may grow."""


class TaskScreen(FrameScreen):
    """One task. Digits, or left and right, go from section to section."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace,q", "app.pop_screen", "back", tooltip="Back to the dashboard"),
        *[Binding(str(n), f"section({n - 1})", name, show=False) for n, name in enumerate(SECTIONS, 1)],
        Binding("right,tab", "turn(1)", "Next section", show=False, priority=True),
        Binding("left,shift+tab", "turn(-1)", "Previous section", show=False, priority=True),
        Binding("right_square_bracket", "item(1)", "Next call, or next log", show=False),
        Binding("left_square_bracket", "item(-1)", "Previous call, or previous log", show=False),
        Binding("f", "follow", "follow", tooltip="Follow the log as it grows, or stay"),
        Binding("w", "wrap", "wrap", tooltip="Wrap long lines, or scroll them with h and l"),
        Binding("y", "copy", "copy", tooltip="Copy the section to the clipboard"),
        Binding("o", "open", "pager", tooltip="Open all of the section in $PAGER"),
        Binding("E", "edit", "Open all of the section in $EDITOR", show=False),
        Binding("r", "retry", "retry", tooltip="Try the task again, once it failed or was cancelled"),
        Binding("x", "cancel", "cancel", tooltip="Cancel the task, after a question"),
        Binding("m", "lane", "Move to the other lane: economy (half price, in batches) or fast", show=False),
        Binding("p", "pause", "Start no more tasks, or start them again", show=False),
        Binding("p", "play", "Play or pause; from the end, play again", show=False),
        Binding("J", "neighbour(1)", "Next task of the list", show=False),
        Binding("K", "neighbour(-1)", "Previous task of the list", show=False),
    ]

    def __init__(self, task_id: str, section: int = 0) -> None:
        super().__init__()
        self.task_id = task_id
        self._section = section
        self._view: TaskView | None = None
        self._item: int | None = None
        self._wrap = True
        self._follow = True
        self._body: list[Line] = []
        self._diff_of: Change | str | None = None
        self._record_of: tuple[str, int] | None = None
        self._tail: LogTail | None = None
        self._reading = False

    def compose(self) -> ComposeResult:
        """Head, sections, body, keys."""
        for name in ("head", "sections"):
            view = LineView(id=name)
            view.can_focus = False
            yield view
        yield LineView(id="body", sideways=True)
        yield KeyBar()

    def on_mount(self) -> None:
        """Follow the log while it is on the screen."""
        self.query_one("#body").focus()
        self.set_interval(READ_EVERY, self._read_log)

    # Frames

    def show(self, frame: Frame) -> None:
        """Show the task as it is in this frame."""
        view = frame.snapshot.task(self.task_id)
        cells = self.app.size.width
        if view is None:
            self.query_one("#head", LineView).show(
                [text(f" {safe_text(self.task_id)} is not on this board", "warn")]
            )
            return
        self._view = view
        self.query_one("#head", LineView).show(head_lines(view, frame.until, cells))
        self.query_one("#sections", LineView).show([self._section_line(cells)])
        self._fill(frame)

    def _section_line(self, cells: int) -> Line:
        spans = [(" ", "text")]
        names = (
            SECTIONS
            if cells >= 80
            else [name if n == self._section else name[:3] for n, name in enumerate(SECTIONS)]
        )
        for number, name in enumerate(names):
            here = number == self._section
            if cells < 60 and not here:
                spans.append((f"{number + 1} ", "faint"))
            else:
                spans.append((f"{number + 1} {name}", "accent strong underlined" if here else "muted"))
                spans.append(("  " if cells >= 80 else " ", "text"))
        return tuple(spans)

    def _fill(self, frame: Frame) -> None:
        view, width = self._view, self._width
        if view is None:
            return
        name = SECTIONS[self._section]
        if name == "Timeline":
            self._write(timeline_lines(view, frame.until, width))
        elif name == "Plan":
            self._write(plan_lines(view, width))
        elif name == "Verdict":
            self._write(verdict_lines(view, width))
        elif name == "Lessons":
            self._write(lesson_lines(view, width))
        elif name == "Cost":
            self._write(cost_lines(view, width))
        elif name == "Diff":
            self._load_diff(view, frame.snapshot.run.repository)
        elif name == "Prompt":
            self._load_record(view)
        else:
            self._choose_log(view)

    @property
    def _width(self) -> int:
        return max(20, self.query_one("#body", LineView).scrollable_content_region.width)

    def _write(self, lines: Sequence[Line]) -> None:
        self._body = list(lines)
        if self._wrap:
            lines = [row for line in lines for row in hard_wrapped(line, self._width)]
        self.query_one("#body", LineView).show(lines)

    # Diff

    def _load_diff(self, view: TaskView, repository: str) -> None:
        wanted = view.change or view.last
        if wanted != self._diff_of or not self._body:
            if view.change is None and not view.worktree:
                self._write([text("no change yet", "muted")])
                return
            self._diff_of = wanted
            self.run_worker(self._read_diff(view, repository), exclusive=True, group="body")

    async def _read_diff(self, view: TaskView, repository: str) -> None:
        try:
            diff = await self.dashboard.source.lookups.diff(repository, view)
            lines = await asyncio.to_thread(diff_lines, diff)
        except (TaskyardError, OSError) as error:
            lines = [text(f"the diff cannot be read: {safe_text(str(error))}", "warn")]
        if SECTIONS[self._section] == "Diff":
            self._write(lines or [text("no change yet", "muted")])

    # Prompt and answer

    def _load_record(self, view: TaskView) -> None:
        if not view.calls:
            self._write([text("no model call yet", "muted")])
            return
        index = self._call_index(view)
        call = view.calls[index]
        wanted = (call.record or call.id, self._width)
        if wanted != self._record_of:
            self._record_of = wanted
            self.run_worker(self._read_record(call, index, len(view.calls)), exclusive=True, group="body")

    def _call_index(self, view: TaskView) -> int:
        """The call to show: the newest with an answer, until somebody turns to another."""
        last = len(view.calls) - 1
        if self._item is not None:
            return min(self._item, last)
        return next((n for n in range(last, -1, -1) if view.calls[n].record), last)

    async def _read_record(self, call: CallView, index: int, total: int) -> None:
        head = (
            (f"call {index + 1} of {total} ([ ] turn): ", "faint"),
            (f"{call.role}, try {call.attempt}, {source_of(call)}, {safe_text(call.model, 40)}", "muted"),
        )
        if call.record:
            lines = await asyncio.to_thread(record_lines, Path(call.record), self._width)
        elif call.error:
            lines = [text(safe_text(call.error, 2000), "bad")]
        elif call.ended is not None:
            lines = [text("no record was kept of this call", "muted")]
        else:
            lines = [text("the answer is awaited; the record is written with it", "muted")]
        if SECTIONS[self._section] == "Prompt":
            self._write([head, *lines])

    # Log

    def _logs(self) -> list[tuple[StageSpan, str]]:
        if self._view is None:
            return []
        return [(span, path) for span in self._view.spans if (path := log_of(self._view, span))]

    def _choose_log(self, view: TaskView) -> None:
        logs = self._logs()
        if not logs:
            self._write([text("no log yet", "muted")])
            return
        _, path = logs[self._log_index(len(logs))]
        if self._tail is None or str(self._tail.path) != path:
            self._tail = LogTail(Path(path))
            self._write([])
            self._read_log()

    def _log_index(self, total: int) -> int:
        return total - 1 if self._item is None else min(self._item, total - 1)

    def _read_log(self) -> None:
        if (
            SECTIONS[self._section] == "Log"
            and self._tail is not None
            and not self._reading
            and self.is_current
        ):
            self._reading = True
            self.run_worker(self._read_tail(self._tail), group="log")

    async def _read_tail(self, tail: LogTail) -> None:
        try:
            grew = await asyncio.to_thread(tail.read)
        finally:
            self._reading = False
        if SECTIONS[self._section] != "Log" or tail is not self._tail:
            return
        logs = self._logs()
        if logs and (grew or not self._body):
            index = self._log_index(len(logs))
            span = logs[index][0]
            head = f"{span.stage}, try {span.attempt}: log {index + 1} of {len(logs)} ([ ] turn)"
            skipped = f"  {tail.skipped}" if tail.skipped else ""
            following = "  following (f)" if self._follow else "  f follows"
            body = [text(line) for line in tail.lines] or [text("nothing written yet", "muted")]
            self._write([text(head + skipped + following, "faint"), *body])
            if self._follow:
                self.query_one("#body").scroll_end(animate=False)

    # Keys

    def action_section(self, number: int) -> None:
        """Go to a section."""
        self._section = number
        self._item = None
        self._body, self._diff_of, self._record_of, self._tail = [], None, None, None
        self.query_one("#body").scroll_home(animate=False)
        self.show(self.dashboard.frame)

    def action_turn(self, step: int) -> None:
        """Go to the next section, or the one before."""
        self.action_section((self._section + step) % len(SECTIONS))

    def action_item(self, step: int) -> None:
        """Another call, or another log."""
        if self._view is None:
            return
        prompt = SECTIONS[self._section] == "Prompt"
        total = len(self._view.calls) if prompt else len(self._logs())
        if total:
            now = self._call_index(self._view) if prompt else self._log_index(total)
            self._item = min(total - 1, max(0, now + step))
            self.show(self.dashboard.frame)

    def action_follow(self) -> None:
        """Go with the log as it grows, or stay."""
        self._follow = not self._follow
        self._body = []
        self._read_log()

    def action_wrap(self) -> None:
        """Wrap long lines or not."""
        self._wrap = not self._wrap
        self._write(self._body)

    def _plain(self) -> str:
        return "\n".join("".join(content for content, _ in line) for line in self._body)

    def action_copy(self) -> None:
        """Copy the section."""
        self.app.copy_to_clipboard(self._plain())
        self.dashboard.tell(f"copied {len(self._body):,} lines")

    def _whole(self) -> Path | str:
        """The file behind the section, or its text."""
        view, name = self._view, SECTIONS[self._section]
        if name == "Log" and self._tail is not None:
            return self._tail.path
        if name == "Prompt" and view is not None and view.calls:
            record = view.calls[self._call_index(view)].record
            return Path(record) if record else self._plain()
        return self._plain()

    def action_open(self) -> None:
        """Open all of the section in the pager."""
        self.dashboard.page(self._whole())

    def action_edit(self) -> None:
        """Open all of the section in the editor."""
        self.dashboard.edit(self._whole())

    def action_retry(self) -> None:
        """Try the task again."""
        if self._view is not None:
            self.dashboard.steering.retry([self._view])

    def action_cancel(self) -> None:
        """Cancel the task."""
        if self._view is not None:
            self.dashboard.steering.cancel([self._view])

    def action_lane(self) -> None:
        """Move the task to the other lane."""
        if self._view is not None:
            self.dashboard.steering.change_lane([self._view])

    def action_pause(self) -> None:
        """Pause or go on."""
        self.dashboard.steering.toggle_pause()

    def action_neighbour(self, step: int) -> None:
        """The next task of the list, in the same section."""
        ids = [view.id for view in self.dashboard.listed]
        if self.task_id in ids:
            self.task_id = ids[(ids.index(self.task_id) + step) % len(ids)]
            self.action_section(self._section)

    def on_click(self, event: events.Click) -> None:
        """A click on a section's name opens it."""
        if event.widget is self.query_one("#sections"):
            at = 0
            for content, _ in self._section_line(self.app.size.width):
                if at <= event.x < at + len(content) and content[:1].isdigit():
                    self.action_section(int(content[0]) - 1)
                    return
                at += len(content)


def log_of(view: TaskView, span: StageSpan) -> str:
    """The path of a stage's log; while it runs, where it is being written."""
    if span.ended is None and view.logs and span.attempt == view.attempt:
        return str(Path(view.logs) / f"{span.stage}.log")
    return span.log
