"""A line to type in whose keys all count at once, in the order in which they were pressed."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.widgets import Input


class TypedField(Input):
    """An input that runs its own bindings as it takes letters: when the key arrives.

    Textual's own runs them only after the key has gone up through all its parents, while the letters typed after it
    are in the text already: three backspaces and a word in one go would delete the word's letters.
    """

    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(self, placeholder: str) -> None:
        # Textual selects on focus, which it tells later: by then the first letters may be there, and would go again.
        super().__init__(placeholder=placeholder, compact=True, select_on_focus=False)

    def on_blur(self, event: events.Blur) -> None:
        """Have all selected for the next time, unless it is the terminal that lost the focus."""
        if self.app.app_focus:
            self.action_select_all()

    def paste(self, event: events.Paste) -> None:
        """Take in what was pasted."""
        self._on_paste(event)

    async def take(self, event: events.Key) -> bool:
        """Do what the key does here; gives whether it does anything."""
        if event.is_printable and event.character is not None:
            self._restart_blink()
            self.replace(event.character, *self.selection)
            return True
        for key in event.aliases:
            for binding in self._bindings.key_to_bindings.get(key, ()):
                if await self.app.run_action(binding.action, self):
                    return True
        return False

    async def _on_key(self, event: events.Key) -> None:
        if await self.take(event):
            event.stop()
        # Also where it does nothing: the input's own handler would take a letter once more.
        event.prevent_default()
