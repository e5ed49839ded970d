"""A line at the foot to type what to look for; it opens with a key, and goes when it is left."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from tui.widgets.typed_field import TypedField


class SearchField(TypedField):
    """One line. What is typed counts at once; `enter`, up and down leave it as it is, `esc` clears it."""

    DEFAULT_CSS = """
    SearchField {
        height: 1; border: none; padding: 0 1; background: $surface;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "enter,up,down",
            "leave",
            "keep",
            key_display="enter",
            tooltip="Leave the field; what is looked for stays",
        ),
        Binding("escape", "clear", "clear, leave", tooltip="Look for nothing any more, and leave the field"),
    ]

    class Left(Message):
        """Keys should go elsewhere."""

    def __init__(self, placeholder: str) -> None:
        super().__init__(placeholder)
        self.display = False

    def open(self) -> None:
        """Let somebody type. The very next key goes here: people type at once."""
        self.display = True
        self.screen.set_focus(self)

    def action_clear(self) -> None:
        """Look for nothing any more."""
        self.value = ""
        self.post_message(self.Left())

    def action_leave(self) -> None:
        """Leave it as it is."""
        self.post_message(self.Left())

    def on_blur(self, event: events.Blur) -> None:
        """Go."""
        self.display = False
