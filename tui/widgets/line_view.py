"""A scrolling view of lines that redraws only what changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual.app import App
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.format import safe_text
from tui.line import BLANK, Line, width
from tui.theme import style_of


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


class LineView(ScrollView, can_focus=True):
    """Shows lines as they are; what does not fit is reached by scrolling."""

    DEFAULT_CSS = """
    LineView {
        height: 1fr;
        scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 0;
        scrollbar-gutter: stable;
        overflow-x: hidden;
        overflow-y: auto;
    }
    """
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

    def on_mount(self) -> None:
        """Draw anew when the theme changes."""
        self.app.theme_changed_signal.subscribe(self, self._theme_changed)

    def _theme_changed(self, _: object) -> None:
        self.refresh()

    def show(self, lines: Sequence[Line]) -> None:
        """Show these lines from now on."""
        old, self._lines = self._lines, lines
        if len(lines) != len(old) or self._sideways:
            if self._sideways:
                self._widest = max(map(width, lines), default=0)
            self.virtual_size = Size(self._widest, len(lines))
        top = self.scroll_offset.y
        for y in range(top, top + self.size.height):
            if _line_at(old, y) != _line_at(lines, y):
                self.refresh_line(y)

    @property
    def lines(self) -> Sequence[Line]:
        """What is shown."""
        return self._lines

    def line_at(self, row: int) -> Line:
        """What stands in a row; nothing beyond the last."""
        return _line_at(self._lines, row)

    def render_line(self, y: int) -> Strip:
        """One row of the screen."""
        return self.strip(self.line_at(y + self.scroll_offset.y), here=False)

    def strip(self, line: Line, *, here: bool) -> Strip:
        """The line in its colours, as wide as the view."""
        cells = self.scrollable_content_region.width
        return draw(self.app, line, cells, self.scroll_offset.x, here=here).apply_style(self.rich_style)


def draw(app: App[object], line: Line, cells: int, left: int = 0, *, here: bool = False) -> Strip:
    """The line as a strip of `cells` cells, from the cell `left` on."""
    dark = app.current_theme.dark
    # Whoever makes a line makes its text safe; a control byte that slipped through must still not reach the terminal.
    strip = Strip(
        [
            Segment(
                content if content.isprintable() else safe_text(content, len(content)),
                style_of(tone, dark, here),
            )
            for content, tone in line
        ]
    )
    return strip.crop_extend(left, left + cells, style_of("text", dark, here))


def _line_at(lines: Sequence[Line], y: int) -> Line:
    return lines[y] if 0 <= y < len(lines) else BLANK
