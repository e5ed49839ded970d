"""A box over the dashboard: as high as the lines in it, as far as there is room."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Size

from tui.widgets.line_view import LineView

BORDERS = 2
"""Lines that the border takes."""


class Sheet(Vertical):
    """Shows the view in a border that names it, and says which keys work here."""

    DEFAULT_CSS = """
    Sheet {
        width: 86; max-width: 96%; max-height: 85%; padding: 0 1;
        border: round $tone-accent; background: $surface;
        border-title-color: $tone-text; border-subtitle-color: $tone-muted; border-subtitle-align: right;
    }
    """

    def __init__(self, view: LineView, name: str, keys: str) -> None:
        super().__init__()
        self._view = view
        self.border_title = Content(name)
        self.tell_keys(keys)

    def tell_keys(self, keys: str) -> None:
        """Say these keys in the border from now on."""
        self.border_subtitle = Content(keys)

    def compose(self) -> ComposeResult:
        """The view."""
        yield self._view

    def on_mount(self) -> None:
        """Follow the number of lines."""
        self.styles.height = BORDERS + 1
        self.watch(self._view, "virtual_size", self._fit, init=False)

    def _fit(self, size: Size) -> None:
        self.styles.height = BORDERS + max(1, size.height)
