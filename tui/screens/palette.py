"""The command palette, as Textual has it, and safe from keys that come before its list is laid out."""

from __future__ import annotations

from contextlib import suppress

from textual.command import CommandPalette

from tui.screens.base import ClosedOnce


class Palette(ClosedOnce, CommandPalette):
    """Finds commands and tasks by name."""

    def _action_command_list(self, action: str) -> None:
        # Textual 8 moves by a page of lines that it looks up, and in a list without room there are none.
        with suppress(LookupError):
            super()._action_command_list(action)
