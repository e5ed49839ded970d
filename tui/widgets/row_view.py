"""Rows on the screen, drawn straight from lines: what stood there before, in whichever row, is not drawn again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.strip import Strip

from tui.format import safe_text
from tui.line import BLANK, Line, cells_of
from tui.theme import style_of


@dataclass(frozen=True, slots=True)
class Brush:
    """All that a drawn row depends on beside its line. `cells` of a line are seen, from the cell `left` on.

    `before` and `after` are the blank cells around it.
    """

    base: Style
    dark: bool
    cells: int
    left: int = 0
    before: int = 0
    after: int = 0
    filters: Sequence[LineFilter] = ()
    _styles: dict[tuple[str, bool], Style | None] = field(default_factory=dict, compare=False)

    def draw(self, line: Line, here: bool = False) -> Strip:
        """The line as a strip; `here` marks it as the one of the cursor."""
        segments: list[Segment] = []
        length = 0
        for content, tone in line:
            # Whoever makes a line makes its text safe; a control byte that slipped through must still not get out.
            shown = content if content.isprintable() else safe_text(content, len(content))
            segments.append(Segment(shown, self._style(tone, here)))
            length += cells_of(shown)
        if self.left or length > self.cells:
            strip = Strip(segments, length).crop(self.left, self.left + self.cells)
            segments, length = list(strip), strip.cell_length
        if length < self.cells:
            blanks, style = " " * (self.cells - length), self._style("text", here)
            # A row of one style is one piece: the terminal is told of its colours once.
            if segments and segments[-1].style is style:
                blanks = segments.pop().text + blanks
            segments.append(Segment(blanks, style))
        if self.before:
            segments.insert(0, Segment(" " * self.before, self._style("", False)))
        if self.after:
            segments.append(Segment(" " * self.after, self._style("", False)))
        return Strip(segments, self.before + self.cells + self.after)

    def _style(self, tone: str, here: bool) -> Style | None:
        """The style of a tone on this ground; without a tone, that of the ground."""
        key = (tone, here)
        if key not in self._styles:
            ground = self.base.bgcolor
            style = self.base + style_of(tone, self.dark, here) if tone else Style(bgcolor=ground)
            drawn = [Segment("x", style)]
            for each in self.filters:
                drawn = each.apply(drawn, Color.from_rich_color(ground))
            self._styles[key] = drawn[0].style
        return self._styles[key]


class RowView(ScrollView, can_focus=True):
    """A scrolling view of rows without a border. Subclasses say what stands in each.

    Textual's own way to a strip makes five of each row, anew whenever it moves, and a screen full of rows takes
    ten times as long.
    """

    DEFAULT_CSS = """
    RowView {
        height: 1fr;
        scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 0;
        scrollbar-gutter: stable;
        overflow-x: hidden;
        overflow-y: auto;
    }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._brush: Brush | None = None
        self._strips: dict[tuple[Line, bool], Strip] = {}

    def on_mount(self) -> None:
        """Draw anew when the theme changes."""
        self.app.theme_changed_signal.subscribe(self, self._theme_changed)

    def _theme_changed(self, _: object) -> None:
        self.refresh()

    def row(self, y: int) -> tuple[Line, bool]:
        """What stands in row `y` of all rows, and whether the cursor is there."""
        raise NotImplementedError

    def render_lines(self, crop: Region) -> list[Strip]:
        """The rows of the screen in the region."""
        brush = self._new_brush()
        if self._brush is None or brush != self._brush:
            self._brush, self._strips = brush, {}
        brush = self._brush
        before, self._strips = self._strips, {}
        top, height, scrolled = self.styles.gutter.top, self.size.height, self.scroll_offset.y
        strips: list[Strip] = []
        for y in crop.line_range:
            key = self.row(y - top + scrolled) if 0 <= y - top < height else (BLANK, False)
            strip = self._strips.get(key) or before.get(key) or brush.draw(*key)
            self._strips[key] = strip
            strips.append(strip)
        start, end = crop.column_span
        return strips if (start, end) == (0, self.outer_size.width) else [s.crop(start, end) for s in strips]

    def _new_brush(self) -> Brush:
        gutter, cells = self.styles.gutter, self.scrollable_content_region.width
        return Brush(
            self.visual_style.rich_style,
            self.app.current_theme.dark,
            cells,
            self.scroll_offset.x,
            gutter.left,
            self.outer_size.width - gutter.left - cells,
            self.get_line_filters(),
        )

    def set_extent(self, size: Size, *, follow: bool = False) -> None:
        """Say how many rows there are (and how wide they are), without laying the whole screen out anew for it.

        With `follow` the last of them comes into sight.
        """
        appears = (size.height > self.size.height) != self.show_vertical_scrollbar
        if appears or self.styles.is_auto_height:
            self.virtual_size = size
        else:
            self.set_reactive(ScrollView.virtual_size, size)
        if follow:
            self.scroll_target_y = self.scroll_y = self.max_scroll_y
        self._move_bar()
        self.scroll_x = self.validate_scroll_x(self.scroll_x)
        self.scroll_y = self.validate_scroll_y(self.scroll_y)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Other rows come into sight."""
        self._move_bar()
        if round(old_value) != round(new_value):
            self._redraw(self.scroll_offset.y, self.size.height)

    def _move_bar(self) -> None:
        """Tell the scrollbar where the rows are; it is drawn again only when its thumb moves by what can be seen."""
        if not self.show_vertical_scrollbar:
            return
        bar = self.vertical_scrollbar
        before = _thumb(bar)
        bar.set_reactive(ScrollBar.window_virtual_size, self.virtual_size.height)
        bar.set_reactive(ScrollBar.position, bar.validate_position(self.scroll_y))
        if _thumb(bar) != before:
            bar.refresh()

    def redraw(self, rows: Iterable[int]) -> None:
        """Draw these rows anew, given in rising order."""
        first = count = 0
        for row in rows:
            if count and row == first + count:
                count += 1
                continue
            if count:
                self._redraw(first, count)
            first, count = row, 1
        if count:
            self._redraw(first, count)

    def _redraw(self, first: int, count: int) -> None:
        """Draw so many rows anew, but not the scrollbar beside them."""
        left = self.styles.gutter.left
        cells = self.scrollable_content_region.width
        self.refresh(Region(-left, first - self.scroll_offset.y, left + cells, count))


def _thumb(bar: ScrollBar) -> tuple[int, int]:
    """How long the thumb of a scrollbar is, and where it begins, in the eighths of a cell that can be seen."""
    length = max(1.0, bar.window_size**2 / max(1, bar.window_virtual_size))
    hidden = max(1, bar.window_virtual_size - bar.window_size)
    return ceil(length * 8), int((bar.window_size - length) * bar.position / hidden * 8)
