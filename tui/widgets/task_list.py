"""The list of tasks on the line API: ten thousand rows cost no more than those on the screen."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from engine.figures import BatchView
from engine.snapshot import TaskView
from tui.format import safe_text
from tui.frame import Frame
from tui.line import BLANK, Line, text
from tui.modes import ModeBound
from tui.order import Group, GroupHead, Order, Row, group_of, grouped, ordered
from tui.rows import Columns, group_row, last_of, longest_id, task_row
from tui.widgets.line_view import cursor_keys, draw

Key: TypeAlias = tuple[bool, str]
"""What a row is known by: whether it is the head of a group, and its name."""


def key_of(row: Row) -> Key:
    """The key of a row."""
    return (True, row.group) if isinstance(row, GroupHead) else (False, row.id)


class TaskList(ModeBound, ScrollView, can_focus=True):
    """Rows of tasks with a cursor that stays on its task, whatever moves around it."""

    DEFAULT_CSS = """
    TaskList {
        height: 1fr;
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
        overflow-x: hidden;
        overflow-y: auto;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *cursor_keys("task"),
        Binding(
            "enter",
            "open",
            "open",
            tooltip="Open the task: its tries, plan, prompts, diff, log, verdict, cost",
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
        self._rows: tuple[Row, ...] = ()
        self._folded = frozenset({Group.LANDED})
        self._by_id: dict[str, TaskView] = {}
        self._batches: dict[str, BatchView] = {}
        self._longest_id = 2
        self._columns = Columns.of(80, 2)
        self._cursor = 0
        self._chosen: Key | None = (
            None  # the cursor follows this row; until somebody moves it, it stays on top
        )
        self._drawn: dict[int, Line] = {}

    def on_mount(self) -> None:
        """Draw anew when the theme changes."""
        self.app.theme_changed_signal.subscribe(self, self._theme_changed)

    def _theme_changed(self, _: object) -> None:
        self.refresh()

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

    @property
    def chosen(self) -> tuple[TaskView, ...]:
        """The marked tasks; the one under the cursor when none is marked."""
        marked = tuple(view for view in self._views if view.id in self.marked)
        current = self.current
        return marked or ((current,) if current is not None else ())

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
        views = frame.snapshot.tasks
        if views is not self._views:
            changed = len(views) != len(self._views) or any(
                a is not b for a, b in zip(views, self._views, strict=True)
            )
            self._views = views
            if changed:
                self._by_id = {view.id: view for view in views}
                self._longest_id = longest_id(views)
                self._sort()
        self._draw()

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
        now = self._frame.until if self._frame is not None else 0.0
        shown = ordered(
            self._views, self.order, now, filter_text=self.filter_text, problems_only=self.problems_only
        )
        rows: tuple[Row, ...] = shown
        if self.order is Order.GROUPS:
            # What is looked for must not hide in a folded group.
            rows = grouped(shown, () if self.filter_text or self.problems_only else self._folded)
        if len(rows) != len(self._rows):
            self.virtual_size = Size(0, len(rows))
        self._rows = rows
        if self._chosen is not None:
            index = next((i for i, row in enumerate(rows) if key_of(row) == self._chosen), None)
            moved = index is not None and index != self._cursor
            self._cursor = index if index is not None else min(self._cursor, max(0, len(rows) - 1))
            if moved:
                self._keep_in_sight()
        else:
            head = rows[0] if rows else None
            self._cursor = int(isinstance(head, GroupHead) and not head.folded)
        self.post_message(self.Moved())

    def _draw(self) -> None:
        """Draw the rows on the screen that do not look as they did."""
        width = self.scrollable_content_region.width
        columns = Columns.of(width, self._longest_id)
        if columns != self._columns:
            self._columns = columns
            self._drawn.clear()
            self.refresh()
            self.post_message(self.Moved())
        top = self.scroll_offset.y
        before, self._drawn = self._drawn, {}
        for y in range(top, top + self.size.height):
            line = self._drawn[y] = self._line(y)
            if before.get(y) != line:
                self.refresh_line(y)

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
        )

    def whole(self) -> Line:
        """What the row under the cursor has no room for: the end of its last column, else what the task is."""
        view = self.current
        if view is None or self._frame is None:
            return BLANK
        content, tone = last_of(view, self._by_id, self._batches, tell_problem=self.problems_only)
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

    def render_line(self, y: int) -> Strip:
        """One row of the screen."""
        row = y + self.scroll_offset.y
        line = self._drawn.get(row)
        if line is None:
            line = self._drawn[row] = self._line(row)
        here = row == self._cursor and bool(self._rows) and self.has_focus
        strip = draw(self.app, line, self.scrollable_content_region.width, here=here)
        return strip.apply_style(self.rich_style)

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
        """A click moves the cursor, a second one opens the task."""
        row = event.y + self.scroll_offset.y
        if row < len(self._rows):
            again = row == self._cursor and event.chain > 1
            self._move_to(row)
            if again:
                self.action_open()
