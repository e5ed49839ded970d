"""The list of tasks on the line API: ten thousand rows cost no more than those on the screen."""

from __future__ import annotations

from itertools import compress
from operator import is_not
from typing import ClassVar, TypeAlias

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message

from engine.blocked import blocked
from engine.figures import BatchView
from engine.task_view import TaskView
from tui.format import safe_text
from tui.frame import Frame
from tui.line import BLANK, Line, text
from tui.modes import ModeBound
from tui.order import Group, GroupHead, Listing, Order, Row, group_of
from tui.rows import Columns, group_row, last_of, longest_id, task_row
from tui.widgets.line_view import cursor_keys
from tui.widgets.row_view import RowView

Key: TypeAlias = tuple[bool, str]
"""What a row is known by: whether it is the head of a group, and its name."""


def key_of(row: Row) -> Key:
    """The key of a row."""
    return (True, row.group) if isinstance(row, GroupHead) else (False, row.id)


class TaskList(ModeBound, RowView):
    """Rows of tasks with a cursor that stays on its task, whatever moves around it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *cursor_keys("task"),
        Binding(
            "enter",
            "open",
            "open",
            tooltip="Open the task: its attempts, plan, prompts, diff, log, verdict, cost",
        ),
        Binding("right", "fold(False)", "Show the group under the cursor", show=False),
        Binding("left", "fold(True)", "Fold the group of the task under the cursor", show=False),
        Binding("space", "mark", "Mark the task for r and x", show=False),
        Binding("a", "mark_all", "Mark all tasks that are listed, or none", show=False),
    ]

    class Opened(Message):
        """Somebody wants to see the task."""

        def __init__(self, task_id: str) -> None:
            super().__init__()
            self.task_id = task_id

    class Moved(Message):
        """What is listed, or where the cursor is, has changed."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.order = Order.PROBLEMS
        self.filter_text = ""
        self.problems_only = False
        self.marked: frozenset[str] = frozenset()
        self._frame: Frame | None = None
        self._views: tuple[TaskView, ...] = ()
        self._listing = Listing()
        self._rows: tuple[Row, ...] = ()
        self._folded = frozenset({Group.LANDED})
        self._by_id: dict[str, TaskView] = {}
        self._batches: dict[str, BatchView] = {}
        self._stuck: frozenset[str] = frozenset()
        self._longest_id = 2
        self._columns = Columns.of(80, 2)
        self._cursor = 0
        # The cursor follows this row; until somebody moves it or acts on the row under it, it stays on top.
        self._chosen: Key | None = None
        self._clicked: Key | None = None  # the mouse put the cursor on it, and nothing has moved it since
        self._drawn: dict[int, Line] = {}

    # What is shown

    @property
    def shown(self) -> tuple[TaskView, ...]:
        """The tasks listed, in their order."""
        return tuple(row for row in self._rows if isinstance(row, TaskView))

    @property
    def cursor(self) -> int:
        """The row of the cursor."""
        return self._cursor

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows: tasks, and the heads of groups."""
        return self._rows

    @property
    def current(self) -> TaskView | None:
        """The task under the cursor; None on the head of a group."""
        row = self._row
        return row if isinstance(row, TaskView) else None

    @property
    def _row(self) -> Row | None:
        return self._rows[self._cursor] if self._cursor < len(self._rows) else None

    def acted_on(self) -> tuple[TaskView, ...]:
        """The tasks that a key is for: the marked ones, else the one under the cursor, which stays on it then."""
        marked = tuple(view for view in self._views if view.id in self.marked)
        current = self.current
        if marked or current is None:
            return marked
        self._chosen = key_of(current)
        return (current,)

    @property
    def columns(self) -> Columns:
        """The widths of the columns."""
        return self._columns

    def show(self, frame: Frame) -> None:
        """Show the tasks of this frame; rows that look as before are not drawn again."""
        self._frame = frame
        self._batches = {
            task: batch for batch in frame.snapshot.batches if batch.ended_at is None for task in batch.tasks
        }
        stuck, self._stuck = self._stuck, blocked(frame.snapshot)
        if frame.snapshot.tasks is not self._views:
            self._take(frame.snapshot.tasks)
        elif stuck != self._stuck and self.filter_text:
            self._sort()
        self._draw()

    def _take(self, views: tuple[TaskView, ...]) -> None:
        changed = list(compress(views, map(is_not, views, self._views)))
        known = len(views) == len(self._views) and all(view.id in self._by_id for view in changed)
        self._views = views
        if not known:
            self._by_id = {view.id: view for view in views}
            self._longest_id = longest_id(views)
        elif changed:
            self._by_id |= {view.id: view for view in changed}
        if changed or not known:
            self._sort()

    def relist(
        self, *, order: Order | None = None, filter_text: str | None = None, problems_only: bool | None = None
    ) -> None:
        """List other tasks, or in another order."""
        if order is not None:
            self.order = order
        if filter_text is not None:
            self.filter_text = filter_text
        if problems_only is not None:
            self.problems_only = problems_only
        self._sort()
        self._draw()

    def choose(self, task_id: str) -> None:
        """Put the cursor on this task, if it is listed."""
        for index, row in enumerate(self._rows):
            if isinstance(row, TaskView) and row.id == task_id:
                self._move_to(index)

    def unmark(self) -> None:
        """Choose no tasks any more."""
        self.marked = frozenset()
        self._draw()

    def _sort(self) -> None:
        # What is looked for must not hide in a folded group.
        searched = bool(self.filter_text) or self.problems_only
        rows = self._listing.rows(
            self._views,
            self.order,
            self._frame.until if self._frame is not None else 0.0,
            filter_text=self.filter_text,
            problems_only=self.problems_only,
            folded=() if searched else self._folded,
            stuck=self._stuck,
        )
        if len(rows) != len(self._rows):
            self.set_extent(Size(0, len(rows)))
        self._rows = rows
        if self._chosen is not None:
            index = self._row_of(*self._chosen)
            moved = index is not None and index != self._cursor
            self._cursor = index if index is not None else min(self._cursor, max(0, len(rows) - 1))
            if moved:
                self._keep_in_sight()
        else:
            head = rows[0] if rows else None
            self._cursor = int(isinstance(head, GroupHead) and not head.folded)
        self.post_message(self.Moved())

    def _row_of(self, is_head: bool, name: str) -> int | None:
        """The row with this key, if it is listed."""
        if is_head:
            return next((i for i, row in enumerate(self._rows) if key_of(row) == (True, name)), None)
        view = self._by_id.get(name)
        return self._rows.index(view) if view is not None and view in self._rows else None

    def _draw(self) -> None:
        """Draw the rows on the screen that do not look as they did."""
        width = self.scrollable_content_region.width
        columns = Columns.of(width, self._longest_id, reasons=self.problems_only)
        if columns != self._columns:
            self._columns = columns
            self._drawn.clear()
            self.refresh()
            self.post_message(self.Moved())
        top = self.scroll_offset.y
        before = self._drawn
        self._drawn = {y: self._line(y) for y in range(top, top + self.size.height)}
        self.redraw(y for y, line in self._drawn.items() if before.get(y) != line)

    def _line(self, y: int) -> Line:
        frame = self._frame
        if frame is None or y >= len(self._rows):
            if y == 1 and frame is not None and not self._rows:
                return self._nothing(frame)
            return BLANK
        view = self._rows[y]
        if isinstance(view, GroupHead):
            return group_row(view, self.scrollable_content_region.width, here=y == self._cursor)
        return task_row(
            view,
            self._columns,
            frame.until,
            self._by_id,
            self._batches,
            here=y == self._cursor,
            marked=view.id in self.marked,
            tell_problem=self.problems_only,
            stuck=self._stuck,
        )

    def whole(self) -> Line:
        """What the row under the cursor has no room for: the end of its last column, else what the task is."""
        view = self.current
        if view is None or self._frame is None:
            return BLANK
        content, tone = last_of(
            view, self._by_id, self._batches, self._stuck, tell_problem=self.problems_only
        )
        if cell_len(content) <= self._columns.last:
            content, tone = safe_text(view.task.scope), "faint"
        return text(content, tone)

    def _nothing(self, frame: Frame) -> Line:
        if self.filter_text:
            return text(
                f"  no task matches “{safe_text(self.filter_text, 40)}”: esc clears the filter", "muted"
            )
        if self.problems_only:
            return text("  no problems: e shows all tasks", "muted")
        if frame.snapshot.run.started is None:
            return text("  the run is starting", "muted")
        return text("  the board has no tasks: add rows to it, and run taskyard again", "muted")

    def row(self, y: int) -> tuple[Line, bool]:
        """The task or group, marked under the cursor while keys go here."""
        line = self._drawn.get(y)
        if line is None:
            line = self._drawn[y] = self._line(y)
        return line, y == self._cursor and bool(self._rows) and self.has_focus

    def watch_has_focus(self, value: bool) -> None:
        """The cursor's row is marked only while keys go here."""
        super().watch_has_focus(value)
        self.refresh_line(self._cursor)

    def on_resize(self) -> None:
        """The columns follow the width."""
        self._draw()
        self._keep_in_sight()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Other rows come into sight."""
        super().watch_scroll_y(old_value, new_value)
        self._drawn.clear()

    # Moving

    def _move_to(self, index: int) -> None:
        if not self._rows:
            return
        old, self._cursor = self._cursor, min(len(self._rows) - 1, max(0, index))
        self._clicked = None
        self._chosen = key_of(self._rows[self._cursor])
        self._keep_in_sight()
        for row in (old, self._cursor):
            self._drawn.pop(row, None)
            self.refresh_line(row)
        self.post_message(self.Moved())

    def _keep_in_sight(self) -> None:
        height = self.scrollable_content_region.height
        top = self.scroll_offset.y
        if self._cursor < top:
            self.scroll_to(y=self._cursor, animate=False)
        elif height and self._cursor >= top + height:
            self.scroll_to(y=self._cursor - height + 1, animate=False)

    def action_move(self, rows: int) -> None:
        """Move the cursor."""
        self._move_to(self._cursor + rows)

    def action_page(self, pages: int) -> None:
        """Move the cursor by a screen."""
        self._move_to(self._cursor + pages * max(1, self.scrollable_content_region.height - 1))

    def action_jump(self, row: int) -> None:
        """Move the cursor to the first task, or to the last (-1)."""
        self._move_to(row if row >= 0 else len(self._rows) - 1)

    def action_open(self) -> None:
        """Open the task under the cursor; show or fold a group."""
        row = self._row
        if isinstance(row, GroupHead):
            self._fold(row.group, not row.folded)
        elif row is not None:
            self._chosen = key_of(row)
            self.post_message(self.Opened(row.id))

    def action_fold(self, fold: bool) -> None:
        """Fold the group of the row under the cursor, or show it."""
        row = self._row
        if self.order is Order.GROUPS and row is not None:
            self._fold(row.group if isinstance(row, GroupHead) else group_of(row), fold)

    def _fold(self, group: Group, fold: bool) -> None:
        self._folded = self._folded | {group} if fold else self._folded - {group}
        self._chosen = (True, group)
        self._drawn.clear()
        self._sort()
        self._draw()
        self.refresh()

    def action_mark(self) -> None:
        """Mark the task under the cursor, or take its mark away, and go on to the next."""
        if self.current is not None:
            self.marked = self.marked ^ {self.current.id}
            self._drawn.pop(self._cursor, None)
            self._move_to(self._cursor + 1)

    def action_mark_all(self) -> None:
        """Mark all listed tasks; take the marks away where all are marked."""
        listed = frozenset(view.id for view in self.shown)
        self.marked = self.marked - listed if listed <= self.marked else self.marked | listed
        self._draw()
        self.post_message(self.Moved())

    def on_click(self, event: events.Click) -> None:
        """A click moves the cursor, a second one on the same task opens it, however long after."""
        row = event.y + self.scroll_offset.y
        if row < len(self._rows):
            key = key_of(self._rows[row])
            again = row == self._cursor and key == self._clicked
            self._move_to(row)
            self._clicked = None if again else key
            if again:
                self.action_open()
