"""Programs of the user's own choice that show or edit what the dashboard shows; it waits behind them."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
        self._hand_over(what, ("PAGER",), "less -R")

    def edit(self, what: Path | str) -> None:
        """Open a file, or a copy of a text, in $VISUAL or $EDITOR."""
        self._hand_over(what, ("VISUAL", "EDITOR"), "vi")

    def _hand_over(self, what: Path | str, variables: tuple[str, ...], usual: str) -> None:
        app = self._app
        if app.is_web:
            app.tell("that needs a terminal: it would run on the machine that serves this page", "warning")
            return
        variable = next((name for name in variables if os.environ.get(name, "").strip()), variables[-1])
        try:
            command = shlex.split(os.environ.get(variable, "")) or shlex.split(usual)
        except ValueError as error:
            app.tell(f"${variable} cannot be read ({str(error).lower()}): set it anew", "warning")
            return
        try:
            with _file_of(what) as path, app.suspend():
                number = _lend([*command, path], variables[-1])
                if number is not None:
                    raise _EndedError(number)
        except OSError as error:
            app.tell(f"no copy for {command[0]} could be written: {error.strerror}", "warning")
        except _NotRunError as error:
            app.tell(str(error), "warning")
        except _EndedError as ended:
            app.end(ended.number)
            return
        app.refresh()


@contextmanager
def _file_of(what: Path | str) -> Iterator[str]:
    """The path of the file, or of a copy of the text that goes afterwards. Raises OSError where none can be written."""
    if isinstance(what, Path):
        yield str(what)
        return
    # In the encoding of the terminal, which the program will take it to be in; what that lacks becomes a "?".
    with tempfile.NamedTemporaryFile("w", suffix=".txt", prefix="taskyard-", errors="replace") as file:
        file.write(what)
        file.flush()
        yield file.name


def _lend(command: Sequence[str], variable: str) -> int | None:
    try:
        return lend(command)
    except OSError:
        raise _NotRunError(f"{command[0]} cannot be run: set {variable}") from None


class _NotRunError(Exception):
    """There is no such program."""


class _EndedError(Exception):
    """A signal ended the program and ends the dashboard: raised, it does not take the terminal back first."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
