"""Past runs opened over the one at hand, which goes on behind them; and the choice of the run to watch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import TaskyardError
from tui.format import safe_text
from tui.screens.runs import RunsScreen
from tui.source.replay import ReplaySource

if TYPE_CHECKING:
    from tui.app import DashboardApp


class Replays:
    """Opens one past run at a time over the app's own source."""

    def __init__(self, app: DashboardApp) -> None:
        self._app = app
        self._dismissed = 0

    @property
    def showing(self) -> bool:
        """Whether a past run covers the one that the dashboard was started for."""
        return self._app.source is not self._app.behind

    def open(self, run: str) -> None:
        """Play a run from its beginning; it is read in the background."""
        self._app.run_worker(self._open(run), exclusive=True, group="replay")

    async def _open(self, run: str) -> None:
        app = self._app
        try:
            events = await app.behind.lookups.run_events(run)
        except TaskyardError as error:
            app.tell(safe_text(str(error)), "warning")
            return
        if self.showing:
            self.close()
        # What is looked up beside it is looked up by the run behind, which also closes it.
        source = ReplaySource(events, lookups=app.behind.lookups)
        source.start()
        self._dismissed = app.dismissed
        app.turn_to(source, dismissed=0)
        app.push_main()

    def close(self) -> None:
        """Go back to the run behind."""
        app = self._app
        app.pop_main()
        app.turn_to(app.behind, dismissed=self._dismissed)
        app.show_frame()

    def choose(self) -> None:
        """Ask which run to watch, and watch it."""
        choice = self._app.source.choice
        if choice is None:
            return

        def chosen(run: str | None) -> None:
            if run:
                choice.choose(run)

        self._app.push_screen(RunsScreen(), chosen)
