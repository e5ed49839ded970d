"""Quitting: at once where nothing is lost by it, else after a question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.screen import Screen

from tui.screens.dialogs import ConfirmScreen, PendingBatchesScreen

if TYPE_CHECKING:
    from tui.app import DashboardApp


class Leaving:
    """Asks before a live run is left. `kept`: whether an interrupted run can be taken up again."""

    def __init__(self, app: DashboardApp, kept: bool) -> None:
        self._app = app
        self._kept = kept
        self._question: Screen[bool] | Screen[str] | None = None

    def ask(self) -> None:
        """Quit; in the middle of a live run after a question, to which asking again says yes."""
        app = self._app
        frame = app.look(app.behind)
        asked = self._question is not None and self._question in app.screen_stack
        if asked or frame.mode != "LIVE" or not frame.moving:
            app.exit(app.exit_status)
            return
        pending = sum(batch.ended_at is None for batch in frame.snapshot.batches)
        if pending:
            batches = PendingBatchesScreen(pending, settled=self._over)
            self._question = batches
            app.ask(batches, self._told)
            return
        question = ConfirmScreen(
            "Quit in the middle of the run?",
            "What was done is kept: taskyard takes the run up again."
            if self._kept
            else "This project is temporary, and goes with all that was done in it.",
            "Quit",
            "Stay",
            settled=self._over,
        )
        self._question = question
        app.ask(question, self._answered)

    def _over(self) -> bool:
        return not self._app.look(self._app.behind).moving

    def _answered(self, yes: bool | None) -> None:
        if yes:
            self._app.exit(self._app.exit_status)

    def _told(self, answer: str | None) -> None:
        control = self._app.behind.control
        if answer == "cancel" and control is not None:
            control.cancel_batches()
        if answer in ("leave", "cancel"):
            self._app.exit(self._app.exit_status)
