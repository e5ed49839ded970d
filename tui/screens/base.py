"""What the screens share: they are shown frames, and know the app they are part of."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from textual.screen import ModalScreen, Screen

from tui.frame import Frame

if TYPE_CHECKING:
    from tui.app import DashboardApp

_T = TypeVar("_T")


class FrameScreen(Screen[None]):
    """A screen that follows the run: the app shows it a frame whenever something changed."""

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

    def on_resize(self) -> None:
        """Lay out for the new size."""
        self.call_after_refresh(self.catch_up)

    def catch_up(self) -> None:
        """Show the newest frame."""
        if self.is_current or isinstance(self.app.screen, ModalScreen):
            self.show(self.dashboard.frame)
