"""Which run to watch, where there are several."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from tui.screens.base import Guarded
from tui.widgets.pick_list import PickList
from tui.widgets.run_list import RunList
from tui.widgets.sheet import Sheet

if TYPE_CHECKING:
    from tui.app import DashboardApp


class RunsScreen(Guarded, ModalScreen[str]):
    """All runs of the repository, newest first; gives the id of the one that was picked, or nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,w", "leave", "Stay with this run", show=False)]

    def compose(self) -> ComposeResult:
        """The list in a box."""
        dashboard = cast("DashboardApp", self.app)
        runs = RunList(dashboard.behind.lookups, process=True)
        yield Sheet(runs, "Watch which run?", "enter watches it · esc stays")

    def on_mount(self) -> None:
        """Read the list once its size is known."""
        runs = self.query_one(RunList)
        runs.focus()
        self.call_after_refresh(runs.follow, cast("DashboardApp", self.app).frame.snapshot.run.run)

    @on(PickList.Picked)
    def _picked(self, event: PickList.Picked) -> None:
        self.dismiss(event.key)

    def action_leave(self) -> None:
        """Stay with the run on the screen."""
        self.dismiss("")
