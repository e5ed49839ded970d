"""The first panel: every task of the run."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.widgets import Input

from engine.blocked import blocked
from engine.model import TaskState
from engine.snapshot import Snapshot
from tui.format import safe_text
from tui.frame import Frame
from tui.line import Line, cut_line, hard_wrapped, text
from tui.panels.panel import Panel
from tui.peers import crew_lines
from tui.sums import rows_not_run
from tui.waiting import BLOCKED
from tui.widgets.line_view import LineView
from tui.widgets.search_field import SearchField
from tui.widgets.task_list import TaskList

CREW_SHARE = 3  # one line in so many of the panel's is the most for who shares the board


class DispatchPanel(Panel):
    """The list of tasks, its filter, and how many are where."""

    DEFAULT_CSS = """
    DispatchPanel {
        padding: 0;
        & > #columns { height: 1; }
        & > #whole { height: 1; }
        & > #crew { height: 0; }
    }
    """
    NUMBER = 1
    NAME = "Dispatch"

    def compose(self) -> ComposeResult:
        """The columns' titles, the rows and the filter."""
        columns = LineView(id="columns")
        columns.can_focus = False
        yield columns
        yield TaskList(id="tasks")
        whole = LineView(id="whole")
        whole.can_focus = False
        yield whole
        crew = LineView(id="crew")
        crew.can_focus = False
        yield crew
        yield SearchField("filter: words in id, scope, state, last line")

    @property
    def tasks(self) -> TaskList:
        """The rows."""
        return self.query_one(TaskList)

    def draw(self, frame: Frame) -> None:
        """Show the tasks."""
        self.tasks.show(frame)
        self._show_crew(frame)
        self._head()

    def _show_crew(self, frame: Frame) -> None:
        """Which rows cannot run and who shares the board, under the tasks, in at most a third of the panel."""
        left = rows_not_run(len(frame.snapshot.refused))
        lines = [text(f"  ! {left}: n says why", "warn")] if left else []
        room = self.size.height // CREW_SHARE - len(lines)
        lines += crew_lines(frame.snapshot, self.size.width - 1, room)
        crew = self.query_one("#crew", LineView)
        if len(crew.lines) != len(lines):
            crew.styles.height = len(lines)
        crew.show(lines)

    @on(TaskList.Moved)
    def _head(self) -> None:
        frame = self.frame
        if frame is None:
            return
        tasks = self.tasks
        self.query_one("#columns", LineView).show([tasks.columns.header()])
        whole = self.query_one("#whole", LineView)
        whole.display = not self.screen.has_class("-narrow")
        whole.show(_whole_lines(tasks.whole(), self.size.width - 3, whole.size.height))
        chips = []
        if tasks.marked:
            chips.append(f"◆ {len(tasks.marked)} marked")
        if tasks.problems_only:
            chips.append("problems only (e)")
        if tasks.filter_text:
            chips.append(f"filter “{safe_text(tasks.filter_text, 40)}” (/)")
        if self.screen.has_class("-narrow"):
            # There is no foot to hang the chips on; what hides tasks must be seen all the same.
            self.head(" · ".join(chips or counts_of(frame.snapshot)))
            return
        chips.append(f"{tasks.order} (s)")
        if tasks.rows:
            chips.append(f"{tasks.cursor + 1} of {len(tasks.rows)}")
        self.head(" · ".join(counts_of(frame.snapshot)), " · ".join(chips))

    def open_filter(self) -> None:
        """Let somebody type what to look for."""
        self.query_one(SearchField).open()

    @on(Input.Changed)
    def _filter_typed(self, event: Input.Changed) -> None:
        event.stop()
        self.tasks.relist(filter_text=event.value.strip()[:200])

    @on(SearchField.Left)
    def _filter_done(self) -> None:
        self.screen.set_focus(self.tasks)

    def clear_filter(self) -> bool:
        """Show all tasks again; gives whether anything was hidden."""
        tasks = self.tasks
        hidden = bool(tasks.filter_text or tasks.problems_only)
        self.query_one(SearchField).value = ""
        tasks.relist(filter_text="", problems_only=False)
        return hidden

    def focus_inside(self) -> None:
        """Let keys go to the rows."""
        self.screen.set_focus(self.tasks)

    def lines(self, frame: Frame, width: int, height: int) -> list[Line]:
        """Not used: the rows draw themselves."""
        return []

    def summary(self, frame: Frame) -> Line:
        """How many tasks are where."""
        return text(" · ".join(counts_of(frame.snapshot)), "muted")


def _whole_lines(line: Line, cells: int, height: int) -> list[Line]:
    rows = hard_wrapped(line, cells)
    if len(rows) > height > 0:
        rows[height - 1 :] = [cut_line((*rows[height - 1], ("…", "faint")), cells)]
    return (
        [(("› " if number == 0 else "  ", "faint"), *row) for number, row in enumerate(rows)] if line else []
    )


def counts_of(snapshot: Snapshot) -> list[str]:
    """How many tasks are in each state, those that matter most first; rows that are gone count as that."""
    names = (
        (TaskState.RUNNING, "running"),
        (TaskState.ELSEWHERE, "elsewhere"),
        (TaskState.TO_LAND, "to land"),
        (TaskState.FAILED, "failed"),
        (TaskState.CANCELLED, "cancelled"),
        (TaskState.QUEUED, "queued"),
        (TaskState.WAITING, "waiting"),
        (TaskState.LANDED, "landed"),
    )
    counts = {state: snapshot.count(state) for state, _ in names}
    counts[TaskState.CANCELLED] -= snapshot.removed
    stuck = len(blocked(snapshot))
    counts[TaskState.WAITING] -= stuck
    parts = [f"{counts[state]:,} {word}" for state, word in names if counts[state]]
    if stuck:
        # Behind what failed or was cancelled: that is why.
        gone = sum(bool(counts[state]) for state, _ in names[:5])
        parts.insert(gone, f"{stuck:,} {BLOCKED}")
    return [*parts, f"{snapshot.removed:,} removed"] if snapshot.removed else parts
