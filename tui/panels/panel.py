"""What all panels share: a frame with a number and a title, and figures that are drawn only when they change."""

from __future__ import annotations

from typing import ClassVar, Self

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Region
from textual.message import Message

from tui.frame import Frame
from tui.line import Line, cut_line
from tui.widgets.line_view import LineView


class Panel(Vertical):
    """A numbered part of the dashboard. Subclasses say what its lines are."""

    DEFAULT_CSS = """
    Panel {
        border: round $tone-line;
        border-title-color: $tone-muted;
        border-subtitle-color: $tone-faint;
        border-title-align: left;
        border-subtitle-align: right;
        padding: 0 0 0 1;
        &:focus-within {
            border: round $tone-accent;
            border-title-color: $tone-text;
            border-subtitle-color: $tone-muted;
        }
    }
    """
    NUMBER: ClassVar[int] = 0
    NAME: ClassVar[str] = ""

    class Wanted(Message):
        """Somebody wants this panel in full."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.frame: Frame | None = None
        self._titles = ("", "")
        self._heading = False

    def compose(self) -> ComposeResult:
        """The figures."""
        yield LineView()

    def on_mount(self) -> None:
        """Carry the number and the name."""
        self.head()

    def head(self, title: str = "", foot: str = "") -> None:
        """Write beside the name, and at the foot on the right. Both are plain text."""
        if self._titles != (title, foot) or not self.border_title:
            self._titles = (title, foot)
            self._heading = True
            self.border_title = Content(f"{self.NUMBER} {self.NAME}" + (f"  {title}" if title else ""))
            self.border_subtitle = Content(foot) if foot else None
            self._heading = False

    def refresh(
        self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False
    ) -> Self:
        """Draw anew. Other words in the border change only its upper and lower edge, not all that is inside."""
        if self._heading and not regions:
            (width, height), gutter = self.outer_size, self.styles.gutter
            edges = (-gutter.top, height - gutter.top - 1)
            regions = tuple(Region(-gutter.left, y, width, 1) for y in edges)
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def show(self, frame: Frame) -> None:
        """Show the figures of this frame."""
        self.frame = frame
        if self.display and self.size.width:
            self.draw(frame)

    def draw(self, frame: Frame) -> None:
        """Write the figures anew."""
        view = self.query_one(LineView)
        width = view.scrollable_content_region.width
        view.show([cut_line(line, width) for line in self.lines(frame, width, view.size.height)])

    def lines(self, frame: Frame, width: int, height: int) -> list[Line]:
        """The figures for a place of this size."""
        raise NotImplementedError

    def summary(self, frame: Frame) -> Line:
        """The panel on one line."""
        raise NotImplementedError

    def on_resize(self) -> None:
        """Lay the figures out for the new size."""
        if self.frame is not None:
            self.show(self.frame)

    def focus_inside(self) -> None:
        """Let keys go here, the very next one already: people type at once."""
        self.screen.set_focus(self.query_one(LineView))

    def on_click(self, event: events.Click) -> None:
        """A double click on a panel opens it in full, or closes it."""
        if event.chain == 2 and not isinstance(event.widget, LineView):
            self.post_message(self.Wanted(self.NUMBER))
