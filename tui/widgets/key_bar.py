"""The last line of a screen: the keys that work here, made from the bindings, and clickable."""

from __future__ import annotations

from textual import events
from textual.binding import Binding
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from tui.line import Line, width
from tui.modes import ModeBound
from tui.widgets.row_view import Brush

SHOWN_AS = {
    "question_mark": "?",
    "slash": "/",
    "plus": "+",
    "escape": "esc",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "comma": ",",
    "full_stop": ".",
    "minus": "-",
    "pageup": "pgup",
    "pagedown": "pgdn",
}


KEPT = frozenset({"help", "leave", "app.pop_screen", "open", "back"})


def key_name(binding: Binding) -> str:
    """The key as it is written on the screen."""
    return binding.key_display or SHOWN_AS.get(binding.key, binding.key)


class KeyBar(Widget):
    """Shows the bindings that say `show`, as many as fit."""

    DEFAULT_CSS = "KeyBar { height: 1; dock: bottom; }"

    def __init__(self) -> None:
        super().__init__()
        self._places: list[tuple[int, int, str]] = []

    def on_mount(self) -> None:
        """Follow the focus: other widgets have other keys."""
        self.screen.bindings_updated_signal.subscribe(self, self._changed)
        self.app.theme_changed_signal.subscribe(self, self._changed)

    def _changed(self, _: object) -> None:
        self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """One line."""
        return 1

    def render_line(self, y: int) -> Strip:
        """The keys."""
        dark = self.app.current_theme.dark
        return Brush(self.visual_style.rich_style, dark, self.size.width).draw(self._line())

    def _line(self) -> Line:
        self._places = []
        spans: list[tuple[str, str]] = []
        at = 0
        for binding, part in self._fitting():
            length = width(part)
            self._places.append((at, at + length, binding.key))
            spans.extend(part)
            at += length
        return tuple(spans)

    def _fitting(self) -> list[tuple[Binding, Line]]:
        """The keys there is room for; the way out and the help stay to the last."""
        parts: dict[str, tuple[Binding, Line]] = {}
        screen, focused = self.screen, self.screen.focused
        for active in self.screen.active_bindings.values():
            binding = active.binding
            # What a field takes as text does not do there what the bar says.
            name = SHOWN_AS.get(binding.key, binding.key)
            typed = len(name) == 1 and focused is not None and focused.check_consume_key(binding.key, name)
            in_bar = screen.in_bar(binding) if isinstance(screen, ModeBound) else binding.show
            if in_bar and active.enabled and not typed and binding.action not in parts:
                said = (screen.words_in_bar(binding) if isinstance(screen, ModeBound) else "") or (
                    binding.description.lower()
                )
                parts[binding.action] = (
                    binding,
                    ((" " + key_name(binding), "accent"), (f" {said} ", "muted")),
                )
        if "back" in parts:  # the way out stands where it is looked for first
            parts = {"back": parts["back"], **parts}
        for action in [*(each for each in reversed(list(parts)) if each not in KEPT), "open"]:
            if sum(width(part) for _, part in parts.values()) <= self.size.width:
                break
            parts.pop(action, None)
        return list(parts.values())

    def on_click(self, event: events.Click) -> None:
        """A click on a key presses it."""
        for start, end, key in self._places:
            if start <= event.x < end:
                self.app.simulate_key(key)
