"""A scrolling view of lines that redraws only what changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.geometry import Size

from tui.line import BLANK, Line, width
from tui.widgets.row_view import RowView


def cursor_keys(what: str) -> tuple[Binding, ...]:
    """The keys of a list with a cursor, by the actions `move`, `page` and `jump`; `what` it goes to, in a word."""
    return (
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False),
        Binding("g,home", "jump(0)", f"First {what}", show=False),
        Binding("G,end", "jump(-1)", f"Last {what}", show=False),
    )


SIDEWAYS = 8  # cells that one key scrolls


class LineView(RowView):
    """Shows lines as they are; what does not fit is reached by scrolling."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_up", "Up", show=False),
        Binding("down,j", "scroll_down", "Down", show=False),
        Binding("left,h", "scroll_left", "Left", show=False),
        Binding("right,l", "scroll_right", "Right", show=False),
        Binding("pageup,ctrl+b", "page_up", "Page up", show=False),
        Binding("pagedown,ctrl+f", "page_down", "Page down", show=False),
        Binding("g,home", "scroll_home", "First line", show=False),
        Binding("G,end", "scroll_end", "Last line", show=False),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None, sideways: bool = False) -> None:
        super().__init__(id=id, classes=classes)
        self._lines: Sequence[Line] = ()
        self._sideways = sideways
        self._widest = 0

    def show(self, lines: Sequence[Line]) -> None:
        """Show these lines from now on."""
        old, self._lines = self._lines, lines
        if len(lines) != len(old) or self._sideways:
            if self._sideways:
                self._widest = max(map(width, lines), default=0)
            self.set_extent(Size(self._widest, len(lines)))
        top = self.scroll_offset.y
        self.redraw(y for y in range(top, top + self.size.height) if _line_at(old, y) != _line_at(lines, y))

    @property
    def allow_horizontal_scroll(self) -> bool:
        """Whether there is anything on the right or the left; no scrollbar takes a line to say so."""
        return self._sideways and self.max_scroll_x > 0

    def action_scroll_left(self) -> None:
        """To the left, by so much that a long line is soon read."""
        self.scroll_to(x=self.scroll_offset.x - SIDEWAYS, animate=False)

    def action_scroll_right(self) -> None:
        """To the right, likewise."""
        self.scroll_to(x=self.scroll_offset.x + SIDEWAYS, animate=False)

    @property
    def lines(self) -> Sequence[Line]:
        """What is shown."""
        return self._lines

    def line_at(self, row: int) -> Line:
        """What stands in a row; nothing beyond the last."""
        return _line_at(self._lines, row)

    def row(self, y: int) -> tuple[Line, bool]:
        """The line; there is no cursor."""
        return self.line_at(y), False


def _line_at(lines: Sequence[Line], y: int) -> Line:
    return lines[y] if 0 <= y < len(lines) else BLANK
