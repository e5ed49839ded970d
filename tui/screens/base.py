"""What the screens share: they follow the run, and say so when the terminal is too small to show anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from textual import events
from textual.await_complete import AwaitComplete
from textual.binding import Binding
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from tui.frame import Frame
from tui.modes import ModeBound, mode_of, works_in
from tui.room import ENOUGH, LEAST
from tui.source.protocol import Mode

if TYPE_CHECKING:
    from tui.app import DashboardApp

_T = TypeVar("_T")


class TooSmallNote(Static):
    """Covers the whole screen while nothing can be shown there."""

    DEFAULT_CSS = """
    TooSmallNote {
        layer: note;
        width: 100%;
        height: 100%;
        content-align: center middle;
        text-align: center;
        background: $background;
        display: none;
    }
    """


class ClosedOnce:
    """A screen that is closed once, by the first of the keys and clicks that ask for it.

    Textual 8 takes the topmost screen away at each, whichever that is by then, and answers the question again.
    """

    def dismiss(self, result: object = None) -> AwaitComplete:
        """Close the screen with this result, unless it is closed or covered."""
        screen = cast("Screen[object]", self)
        if screen.app.screen_stack[-1:] != [screen]:
            return AwaitComplete()
        closing: AwaitComplete = super().dismiss(result)  # type: ignore[misc]  # of the screen that this is mixed into
        return closing


class Guarded(ClosedOnce):
    """A screen that covers itself when the terminal is too small, and recovers by itself.

    A screen of its own for this, pushed and popped while sizes change, makes Textual 8 lay out in circles.
    """

    def on_mount(self) -> None:
        """Have the note ready."""
        screen = cast("Screen[object]", self)
        if screen.is_attached:  # a signal may end the app while the screen comes up
            screen.mount(TooSmallNote())
            screen.call_after_refresh(self.guard)

    def on_resize(self, event: events.Resize) -> None:
        """Look again."""
        screen = cast("Screen[object]", self)
        if event.size != screen.app.size:
            # Laying out for a size that has passed makes Textual 8 send another such event: two would chase for ever.
            event.prevent_default()
        self.guard()

    def show(self, frame: Frame) -> None:
        """Show this frame, where what the screen shows follows the run."""

    def guard(self) -> None:
        """Cover the screen, or not."""
        screen = cast("Screen[object]", self)
        width, height = screen.app.size
        small = width < LEAST[0] or height < LEAST[1]
        for note in screen.query(TooSmallNote):
            if small:  # other words lay the whole screen out anew, also where nobody sees them
                note.update(
                    Content(f"terminal too small: needs {ENOUGH[0]}×{ENOUGH[1]}, has {width}×{height}")
                )
            if note.display != small:
                note.display = small


class FrameScreen(Guarded, ModeBound, Screen[None]):
    """A screen that follows the run: the app shows it a frame whenever something changed."""

    def refused(self, key: str) -> Mode | None:
        """The mode that the key is for, when it does nothing in this one."""
        bound = [
            binding.action
            for binding in self.BINDINGS
            if isinstance(binding, Binding) and key in binding.key.split(",")
        ]
        mode = self.dashboard.source.mode
        if not bound or any(works_in(action, mode) for action in bound):
            return None
        return mode_of(bound[0])

    def action_play(self) -> None:
        """Play or pause."""
        self.dashboard.steering.toggle_play()

    @property
    def dashboard(self) -> DashboardApp:
        """The app, which holds the newest frame and the commands."""
        return cast("DashboardApp", self.app)

    def show(self, frame: Frame) -> None:
        """Show this frame."""
        raise NotImplementedError

    def on_screen_resume(self) -> None:
        """Catch up with what happened while another screen was on top."""
        self.call_after_refresh(self.catch_up)

    def on_resize(self, event: events.Resize) -> None:
        """Lay out for the new size."""
        self.call_after_refresh(self.catch_up)

    def catch_up(self) -> None:
        """Show the newest frame, unless the screen was closed or the app ends: then its parts may be gone."""
        if not self.app.is_running or self not in self.app.screen_stack:
            return
        if self.is_current or isinstance(self.app.screen, ModalScreen):
            self.show(self.dashboard.frame)
