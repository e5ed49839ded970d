"""The command palette, as Textual has it, and safe from keys and clicks on what is not laid out."""

from __future__ import annotations

from contextlib import suppress

from textual.command import CommandPalette
from textual.errors import NoWidget
from textual.geometry import Region
from textual.widget import Widget
from textual.widgets import Input

from tui.screens.base import ClosedOnce

LONGEST_NAME = 200  # characters


class Palette(ClosedOnce, CommandPalette):
    """Finds commands and tasks by name."""

    def on_mount(self) -> None:
        """Take no more than a name: with a megabyte pasted into it, each further key would take a tenth of a second."""
        self.query_one(Input).max_length = LONGEST_NAME

    def _action_command_list(self, action: str) -> None:
        # Textual 8 moves by a page of lines that it looks up, and in a list without room there are none.
        with suppress(LookupError):
            super()._action_command_list(action)

    def get_widget_at(self, x: int, y: int) -> tuple[Widget, Region]:
        """What is shown there; where nothing is (the window has shrunk under the mouse), the palette itself."""
        try:
            return super().get_widget_at(x, y)
        except NoWidget:
            return self, self.region
