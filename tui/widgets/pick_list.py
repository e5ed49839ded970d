"""A list with a cursor on the line API: the lines are made when they come into sight, so ten thousand cost no more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from tui.line import Line
from tui.widgets.line_view import LineView, cursor_keys


class PickList(LineView):
    """Lines of which one can be picked. The cursor stays on its entry, whatever comes and goes around it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *cursor_keys("line"),
        Binding("enter", "pick", "open", tooltip="Open what the cursor is on"),
    ]

    class Picked(Message):
        """Somebody picked an entry."""

        def __init__(self, picker: PickList, key: str) -> None:
            super().__init__()
            self.picker = picker
            self.key = key

        @property
        def control(self) -> PickList:
            """The list."""
            return self.picker

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._keys: Sequence[str] = ()
        self._cursor = 0
        self._chosen = ""
        self._clicked = ""  # the mouse put the cursor on it, and nothing has moved it since

    @property
    def cursor(self) -> int:
        """The line of the cursor."""
        return self._cursor

    @property
    def in_sight(self) -> range:
        """The lines on the screen."""
        top = self.scroll_offset.y
        return range(top, min(len(self._keys), top + self.size.height))

    def offer(self, keys: Sequence[str], lines: Sequence[Line]) -> None:
        """Show these entries from now on, one line each; `keys` name them."""
        if keys is not self._keys:
            self._keys = keys
            if self._chosen in keys:
                self._cursor = keys.index(self._chosen)
            self._cursor = min(self._cursor, max(0, len(keys) - 1))
        self.show(lines)

    def row(self, y: int) -> tuple[Line, bool]:
        """The entry, marked under the cursor while keys go here."""
        return self.line_at(y), y == self._cursor and bool(self._keys) and self.has_focus

    def watch_has_focus(self, value: bool) -> None:
        """The cursor's line is marked only while keys go here."""
        super().watch_has_focus(value)
        self.refresh_line(self._cursor)

    def _move_to(self, index: int) -> None:
        if not self._keys:
            return
        old, self._cursor = self._cursor, min(len(self._keys) - 1, max(0, index))
        self._chosen, self._clicked = self._keys[self._cursor], ""
        for row in (old, self._cursor):
            self.refresh_line(row)
        height, top = self.size.height, self.scroll_offset.y
        if self._cursor < top:
            self.scroll_to(y=self._cursor, animate=False)
        elif height and self._cursor >= top + height:
            self.scroll_to(y=self._cursor - height + 1, animate=False)

    def action_move(self, lines: int) -> None:
        """Move the cursor."""
        self._move_to(self._cursor + lines)

    def action_page(self, pages: int) -> None:
        """Move the cursor by a screen."""
        self._move_to(self._cursor + pages * max(1, self.size.height - 1))

    def action_jump(self, line: int) -> None:
        """Move the cursor to the first line, or to the last (-1)."""
        self._move_to(line if line >= 0 else len(self._keys) - 1)

    def action_pick(self) -> None:
        """Pick the entry under the cursor."""
        if self._keys:
            self.post_message(self.Picked(self, self._keys[self._cursor]))

    def on_click(self, event: events.Click) -> None:
        """A click moves the cursor, a second one on the same entry picks it, however long after."""
        row = event.y + self.scroll_offset.y
        if row < len(self._keys):
            event.stop()
            key = self._keys[row]
            again = row == self._cursor and key == self._clicked
            self._move_to(row)
            self._clicked = "" if again else key
            if again:
                self.action_pick()
