"""Lessons one below the other, each on as many rows as it takes, with a cursor that goes from one to the next."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from tui.line import Line
from tui.widgets.line_view import LineView, cursor_keys


@dataclass(frozen=True, slots=True)
class Entry:
    """A lesson in the list: its id and its rows."""

    id: str
    rows: tuple[Line, ...]


class LessonList(LineView):
    """The entries, and under the last of them what is to be said about all. `searchable`: there is a search."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *cursor_keys("lesson"),
        Binding("enter", "open", "open", tooltip="Open the lesson: what helped, what failed, when"),
        Binding("slash", "search", "search", tooltip="Type what to look for"),
    ]

    class Opened(Message):
        """Somebody wants to see the lesson."""

        def __init__(self, lesson_id: str) -> None:
            super().__init__()
            self.lesson_id = lesson_id

    class SearchWanted(Message):
        """Somebody wants to type what to look for."""

    def __init__(self, *, searchable: bool) -> None:
        super().__init__()
        self._searchable = searchable
        self._entries: Sequence[Entry] = ()
        self._starts: list[int] = [0]
        self._cursor = 0
        self._clicked = ""  # the mouse put the cursor on it, and nothing has moved it since

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Where nothing can be searched, the key is that of the dashboard."""
        return self._searchable or action != "search"

    @property
    def entries(self) -> Sequence[Entry]:
        """What is listed."""
        return self._entries

    @property
    def cursor(self) -> int:
        """The entry of the cursor."""
        return self._cursor

    def fill(self, entries: Sequence[Entry], after: Sequence[Line] = ()) -> None:
        """List these entries from now on, and `after` below them; the cursor stays on its lesson if it can."""
        current = self._entries[self._cursor].id if self._cursor < len(self._entries) else ""
        if self._cursor >= len(entries) or entries[self._cursor].id != current:
            ids = [entry.id for entry in entries]
            # Nobody has moved: the best stays chosen, whatever it is.
            self._cursor = ids.index(current) if self._cursor and current in ids else 0
        self._entries = entries
        self._starts = _starts_of(entries)
        self.show([*(row for entry in entries for row in entry.rows), *after])
        self.refresh()
        self._keep_in_sight()

    def row(self, y: int) -> tuple[Line, bool]:
        """The line; all rows of the chosen lesson stand out while keys go here."""
        return self.line_at(y), self.has_focus and self._entry_at(y) == self._cursor

    def watch_has_focus(self, value: bool) -> None:
        """The cursor is seen only while keys go here."""
        super().watch_has_focus(value)
        self.refresh()

    def on_resize(self) -> None:
        """The cursor stays in sight."""
        self._keep_in_sight()

    def _entry_at(self, row: int) -> int | None:
        return bisect_right(self._starts, row) - 1 if row < self._starts[-1] else None

    def _move_to(self, index: int) -> None:
        if self._entries:
            self._cursor = min(len(self._entries) - 1, max(0, index))
            self._clicked = ""
            self._keep_in_sight()
            self.refresh()

    def _keep_in_sight(self) -> None:
        height = self.scrollable_content_region.height
        if not self._entries or not height:
            return
        first, end = self._starts[self._cursor], self._starts[self._cursor + 1]
        if self._cursor == len(self._entries) - 1:
            end = len(self.lines)
        top = self.scroll_offset.y
        if first < top or end - first >= height:
            self.scroll_to(y=first, animate=False)
        elif end > top + height:
            self.scroll_to(y=end - height, animate=False)

    def action_move(self, entries: int) -> None:
        """Move the cursor."""
        self._move_to(self._cursor + entries)

    def action_page(self, pages: int) -> None:
        """Move the cursor by a screen."""
        row = self._starts[self._cursor] + pages * max(1, self.scrollable_content_region.height - 1)
        entry = self._entry_at(max(0, row))
        # A lesson of more rows than the screen has must not hold the cursor.
        moved = entry if entry is not None else len(self._entries) - 1
        self._move_to(moved if moved != self._cursor else self._cursor + pages)

    def action_jump(self, entry: int) -> None:
        """Move the cursor to the first lesson, or to the last (-1)."""
        self._move_to(entry if entry >= 0 else len(self._entries) - 1)

    def action_open(self) -> None:
        """Open the lesson under the cursor."""
        if self._entries:
            self.post_message(self.Opened(self._entries[self._cursor].id))

    def action_search(self) -> None:
        """Go to the search."""
        self.post_message(self.SearchWanted())

    def on_click(self, event: events.Click) -> None:
        """A click moves the cursor, a second one on the same lesson opens it, however long after."""
        entry = self._entry_at(event.y + self.scroll_offset.y)
        if entry is not None:
            id = self._entries[entry].id
            again = entry == self._cursor and id == self._clicked
            self._move_to(entry)
            self._clicked = "" if again else id
            if again:
                self.action_open()


def _starts_of(entries: Sequence[Entry]) -> list[int]:
    """The row on which each entry begins, and the one after the last."""
    return [0, *accumulate(len(entry.rows) for entry in entries)]
