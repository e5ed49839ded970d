"""Text to read: wrapped or scrolled sideways, searched, and followed where it grows at its end.

It costs what is on the screen and what was added, however long the text is.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence
from itertools import accumulate

from textual.geometry import Size
from textual.message import Message
from textual.scrollbar import ScrollTo

from tui.line import BLANK, Line, hard_wrapped, marked, plain, width
from tui.widgets.line_view import LineView


class Pager(LineView):
    """Shows lines that are numbered from the first that was ever there; the oldest may go.

    `follow` keeps the end in sight; scrolling up ends it.
    """

    class Changed(Message):
        """Where the reader is, or what was found, has changed."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, sideways=True)
        self.wrap = True
        self.follow = False
        self._text: list[Line] = []
        self._gone = 0
        self._ends: list[
            int
        ] = []  # for each line, how many rows there were up to its end since the first line
        self._rows_gone = 0
        self._cells = 0
        self._drawn: dict[int, Line] = {}
        self._held = 0
        self._pattern: re.Pattern[str] | None = None
        self._hits: list[int] = []
        self._hit: int | None = None

    # What is shown

    @property
    def lines(self) -> Sequence[Line]:
        """All lines that are kept, before wrapping."""
        return self._text

    @property
    def total(self) -> int:
        """How many lines there were ever."""
        return self._gone + len(self._text)

    @property
    def unseen(self) -> int:
        """How many lines were added since the end was let go."""
        return 0 if self.follow else max(0, self.total - self._held)

    def show(self, lines: Sequence[Line]) -> None:
        """Show these lines instead of what was there."""
        if lines != self._text:
            self._gone = self._rows_gone = 0
            self.splice(0, 0, lines)
        self._held = self.total

    def splice(self, gone: int, changed: int, lines: Sequence[Line]) -> None:
        """Let go of lines so that `gone` are gone in all, and put `lines` where line number `changed` was."""
        dropped = self._drop(gone - self._gone)
        at = max(0, changed - self._gone)
        del self._text[at:], self._ends[at:]
        self._hits = [hit for hit in self._hits if self._gone <= hit < self._gone + at]
        self._text += lines
        self._measure(at)
        self._search_from(at)
        self._settle(dropped)

    def set_wrap(self, wrap: bool) -> None:
        """Wrap long lines, or let them be scrolled sideways."""
        first = self._line_of(self.scroll_offset.y)
        self.wrap = wrap
        self._lay_out()
        if self.follow:
            self.scroll_end(animate=False, force=True, immediate=True)
        else:
            self._go_to_line(first)

    def set_follow(self, follow: bool) -> None:
        """Go with the end, or stay."""
        if self.follow and not follow:
            self._held = self.total
        self.follow = follow
        if follow:
            self.scroll_end(animate=False, force=True, immediate=True)
        self.post_message(self.Changed())

    def _drop(self, count: int) -> int:
        """Let go of so many lines at the start; gives the rows they took."""
        count = min(max(0, count), len(self._text))
        if not count:
            return 0
        rows = self._ends[count - 1] - self._rows_gone
        del self._text[:count], self._ends[:count]
        self._gone += count
        self._rows_gone += rows
        return rows

    def _measure(self, at: int) -> None:
        """Count the rows of the lines from index `at` on."""
        new = self._text[at:]
        wrap = self.wrap and self._cells
        rows = [len(hard_wrapped(line, self._cells)) if wrap else 1 for line in new]
        begin = self._ends[-1] if self._ends else self._rows_gone
        self._ends += [begin + end for end in accumulate(rows)]
        widest = 0 if self.wrap else max(map(width, new), default=0)
        self._widest = max(widest, self._widest if at and not self.wrap else 0)

    def _settle(self, dropped: int) -> None:
        """Draw what looks different, and keep what was read where it was."""
        self.set_extent(Size(self._widest, self._height), follow=self.follow)
        if dropped and not self.follow:
            self.scroll_to(y=max(0, self.scroll_offset.y - dropped), animate=False)
        before, top = self._drawn, self.scroll_offset.y
        self._drawn = {y: self._row(y) for y in range(top, top + self.size.height)}
        self.redraw(y for y, line in self._drawn.items() if before.get(y) != line)

    def _lay_out(self) -> None:
        self._ends.clear()
        self._rows_gone = 0
        self._measure(0)
        self._drawn.clear()
        self.set_extent(Size(self._widest, self._height))
        self.refresh()

    @property
    def _height(self) -> int:
        return self._ends[-1] - self._rows_gone if self._ends else 0

    def on_resize(self) -> None:
        """Another width wraps otherwise."""
        cells = self.scrollable_content_region.width
        if cells != self._cells:
            first = self._line_of(self.scroll_offset.y)
            self._cells = cells
            self._lay_out()
            self._go_to_line(first)
        if self.follow:
            self.scroll_end(animate=False, force=True, immediate=True)

    # Rows

    def _line_of(self, row: int) -> int:
        """The index of the line that the row is of."""
        return bisect.bisect_right(self._ends, row + self._rows_gone)

    def _first_row(self, index: int) -> int:
        return (self._ends[index - 1] if index else self._rows_gone) - self._rows_gone

    def _row(self, row: int) -> Line:
        index = self._line_of(row)
        if index >= len(self._text):
            return BLANK
        line = self._text[index]
        if self._pattern is not None:
            line = marked(line, self._pattern)
        if not self.wrap or not self._cells:
            return line
        rows = hard_wrapped(line, self._cells)
        return rows[min(row - self._first_row(index), len(rows) - 1)]

    def row(self, y: int) -> tuple[Line, bool]:
        """The row, as it was when the text last changed; there is no cursor."""
        line = self._drawn.get(y)
        if line is None:
            line = self._drawn[y] = self._row(y)
        return line, False

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Other rows come into sight."""
        super().watch_scroll_y(old_value, new_value)
        self._drawn.clear()

    def _go_to_line(self, index: int) -> None:
        if 0 <= index < len(self._text):
            self.scroll_to(y=self._first_row(index), animate=False)

    def jump(self, index: int) -> None:
        """Put this line on top, as far as can be."""
        self.follow = False
        self._go_to_line(index)

    @property
    def top(self) -> int:
        """The index of the line on top."""
        return self._line_of(self.scroll_offset.y)

    # Searching

    @property
    def searching(self) -> bool:
        """Whether anything is looked for."""
        return self._pattern is not None

    @property
    def found(self) -> tuple[int, int]:
        """Which of the lines with a match the reader is at (from 1; 0 for none), and how many there are."""
        if self._hit is None or self._hit not in self._hits:
            return 0, len(self._hits)
        return bisect.bisect_right(self._hits, self._hit), len(self._hits)

    def search(self, words: str) -> None:
        """Mark what contains the words, and go to the first from the top on. Capitals count once one is typed."""
        flags = 0 if words != words.lower() else re.IGNORECASE
        self._pattern = re.compile(re.escape(words), flags) if words else None
        self._hits, self._hit = [], None
        self._search_from(0)
        self._drawn.clear()
        self.refresh()
        if self._hits:
            top = self._gone + self.top
            self._go_to_hit(bisect.bisect_left(self._hits, top) % len(self._hits))
        self.post_message(self.Changed())

    def next_match(self, step: int) -> None:
        """Go to the next line with a match, or the one before; after the last comes the first."""
        if not self._hits:
            return
        if self._hit is None:
            at = bisect.bisect_left(self._hits, self._gone + self.top) - (step < 0)
        elif step > 0:
            at = bisect.bisect_right(self._hits, self._hit)
        else:
            at = bisect.bisect_left(self._hits, self._hit) - 1
        self._go_to_hit(at % len(self._hits))
        self.post_message(self.Changed())

    def _search_from(self, at: int) -> None:
        pattern = self._pattern
        if pattern is not None:
            found = (n for n, line in enumerate(self._text[at:], at) if pattern.search(plain(line)))
            self._hits += [self._gone + n for n in found]

    def _go_to_hit(self, at: int) -> None:
        self._hit = self._hits[at]
        row = self._first_row(self._hit - self._gone)
        height = self.scrollable_content_region.height
        if not self.scroll_offset.y <= row < self.scroll_offset.y + height:
            self.set_follow(False)
            self.scroll_to(y=max(0, row - height // 3), animate=False)

    # Keys and mouse

    def _let_go(self) -> None:
        if self.follow:
            self.set_follow(False)

    def action_scroll_up(self) -> None:
        """Up; the end is not followed any more."""
        self._let_go()
        super().action_scroll_up()

    def action_page_up(self) -> None:
        """Up by a screen; the end is not followed any more."""
        self._let_go()
        super().action_page_up()

    def action_scroll_home(self) -> None:
        """To the start; the end is not followed any more."""
        self._let_go()
        super().action_scroll_home()

    def on_mouse_scroll_up(self) -> None:
        """The wheel lets go of the end too."""
        self._let_go()

    def on_scroll_to(self, message: ScrollTo) -> None:
        """So does the scrollbar."""
        self._let_go()
