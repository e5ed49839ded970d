"""The logs of a task, one for each stage of each attempt, and reading the chosen one where it grew."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.task_view import StageSpan, TaskView
from tui.line import Line, text
from tui.log_tail import LogTail
from tui.widgets.pager import Pager

AT_ONCE = 100_000
"""Bytes that are read where they are asked for: they were just written, and a thread would cost more than they do."""


@dataclass(frozen=True, slots=True)
class TaskLog:
    """One log."""

    span: StageSpan
    path: Path


def logs_of(view: TaskView) -> list[TaskLog]:
    """The logs of the task, oldest first."""
    found = ((span, _path_of(view, span)) for span in view.spans)
    return [TaskLog(span, Path(path)) for span, path in found if path]


def _path_of(view: TaskView, span: StageSpan) -> str:
    """The path of a stage's log; while it runs, where it is being written."""
    if span.ended is None and view.logs and span.attempt == view.attempt:
        return str(Path(view.logs) / f"{span.stage}.log")
    return span.log


class LogReader:
    """Reads one log into a pager, a piece at a time. `times` shows when each line arrived, in local time."""

    def __init__(self, pager: Pager, log: TaskLog, *, times: bool) -> None:
        self.log = log
        self.tail = LogTail(log.path)
        self.times = times
        self._pager = pager
        self._reading = False
        self._closed = False
        pager.show([text("nothing written yet", "muted")])
        pager.set_follow(True)

    @property
    def timed(self) -> bool:
        """Whether anybody wrote down when the lines arrived."""
        return any(at is not None for at in (self.tail.times[:1] + self.tail.times[-1:]))

    async def read(self) -> bool:
        """Show what was added since the last time, and give whether there was anything.

        Does nothing while another call still reads.
        """
        if self._reading:
            return False
        self._reading = True
        try:
            first, times = not self.tail.lines, self.times
            few = self.tail.waiting <= AT_ONCE
            grew = self.tail.read() if few else await asyncio.to_thread(self.tail.read)
        finally:
            self._reading = False
        if self._closed:
            return False
        if times != self.times:
            self.show_times(self.times)
        elif grew:
            # In the place of the first lines stood that there were none.
            changed = self.tail.first if first else max(self.tail.first, self.tail.changed)
            self._pager.splice(self.tail.first, changed, self._lines(changed - self.tail.first))
        return grew

    def close(self) -> None:
        """Show nothing more: the pager has something else to show, whatever is still being read."""
        self._closed = True

    def show_times(self, times: bool) -> None:
        """Show when each line arrived, or not; what is being read comes so in a moment."""
        self.times = times
        if self.tail.lines and not self._reading:
            self._pager.splice(self.tail.first, self.tail.first, self._lines(0))

    def _lines(self, start: int) -> Sequence[Line]:
        lines, times = self.tail.lines[start:], self.tail.times[start:]
        if not (self.times and self.timed):
            return [text(line) for line in lines]
        shown = []
        before = self.tail.times[start - 1] if start else None
        for line, at in zip(lines, times, strict=True):
            # The same second is told once: what stands out is where time passed.
            new = at is not None and (before is None or int(at) != int(before))
            stamp = time.strftime("%H:%M:%S ", time.localtime(at)) if new else " " * 9
            shown.append(((stamp, "faint"), (line, "text")))
            before = at
        return shown
