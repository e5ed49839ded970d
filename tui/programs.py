"""Programs of the user's own choice that show or edit what the dashboard shows; it waits behind them."""

from __future__ import annotations

import os
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tui.terminal import lend

if TYPE_CHECKING:
    from tui.app import DashboardApp


class Programs:
    """Hands the terminal over to one of them, and takes it back."""

    def __init__(self, app: DashboardApp) -> None:
        self._app = app

    def page(self, what: Path | str) -> None:
        """Show a file, or a text, in $PAGER."""
        self._hand_over(what, shlex.split(os.environ.get("PAGER") or "less -R"), "PAGER")

    def edit(self, what: Path | str) -> None:
        """Open a file, or a copy of a text, in $VISUAL or $EDITOR."""
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        self._hand_over(what, shlex.split(editor), "EDITOR")

    def _hand_over(self, what: Path | str, command: list[str], variable: str) -> None:
        app = self._app
        if app.is_web:
            app.tell("that needs a terminal: it would run on the machine that serves this page", "warning")
            return
        with tempfile.NamedTemporaryFile("w", suffix=".txt", prefix="taskyard-") as file:
            path = str(what)
            if isinstance(what, str):
                file.write(what)
                file.flush()
                path = file.name
            try:
                with app.suspend():
                    number = lend([*command, path])
                    if number is not None:
                        raise _EndedError(number)
            except OSError:
                app.tell(f"{command[0]} cannot be run: set {variable}", "warning")
            except _EndedError as ended:
                app.end(ended.number)
                return
        app.refresh()


class _EndedError(Exception):
    """A signal ended the program and ends the dashboard: raised, it does not take the terminal back first."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
