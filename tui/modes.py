"""Which commands work where: a live run is steered, a watched one looked at, and a past one is a tape.

The key bar, the help and the palette show what works in the mode at hand, and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.binding import Binding

from tui.source.protocol import Mode

if TYPE_CHECKING:
    from textual.widget import Widget

    from tui.app import DashboardApp

_WORKS_IN: dict[str, Mode] = {
    "retry": "LIVE",
    "cancel": "LIVE",
    "mark": "LIVE",
    "mark_all": "LIVE",
    "pause": "LIVE",
    "drain": "LIVE",
    "lane": "LIVE",
    "land_now": "LIVE",
    "more": "LIVE",
    "choose_run": "WATCH",
    "play": "REPLAY",
    "speed": "REPLAY",
    "seek": "REPLAY",
}


def mode_of(action: str) -> Mode | None:
    """The only mode in which the action, as a binding names it ("more(1)"), works; None where it always does."""
    return _WORKS_IN.get(action.partition("(")[0].rpartition(".")[2])


def works_in(action: str, mode: Mode) -> bool:
    """Whether the action, as a binding names it, does anything in this mode."""
    return mode_of(action) in (None, mode)


class ModeBound:
    """A screen or widget whose bindings are only there in the modes that they work in."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether the action works in the mode of what is shown."""
        app = cast("DashboardApp", cast("Widget", self).app)
        return works_in(action, app.source.mode)

    def in_bar(self, binding: Binding) -> bool:
        """Whether the key bar shows the key while this is the screen; it works all the same."""
        return binding.show

    def words_in_bar(self, binding: Binding) -> str:
        """What the key bar says of the key, where that is not what the binding says."""
        return ""
