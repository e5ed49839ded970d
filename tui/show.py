"""Show a source on the terminal until somebody quits, and give the terminal back whatever happens.

status = show(LiveSource(EngineThread(settings, environ)))
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import TaskyardError
from tui.app import DashboardApp
from tui.format import safe_text
from tui.hints import Hints
from tui.source import Source
from tui.terminal import ENDING, TerminalDriver, hear_endings

if TYPE_CHECKING:
    from engine.settings import NotifySettings


def show(
    source: Source,
    *,
    logs: Path | None = None,
    kept: bool = True,
    notify: NotifySettings | None = None,
    choose: bool = False,
    hints: Path | None = None,
) -> int:
    """Show the source until somebody quits; gives the exit status. The source is stopped, and an error of it told.

    `hints` is the file that remembers what a newcomer was told.

    An error of the dashboard itself is told in one line; how it came about goes to a file in `logs`, and with
    TASKYARD_DEBUG=1 to the terminal.
    """
    if "TEXTUAL_DRIVER" not in os.environ:
        # Exported by some shells and tools, they would hold the size of the terminal fixed; in a browser they are it.
        for name in ("COLUMNS", "LINES"):
            os.environ.pop(name, None)
    app = DashboardApp(source, kept=kept, notify=notify, choose=choose, hints=Hints(hints))
    crash: BaseException | None = None
    # What has been imported stays; the collector's passes through it would take a tenth of a second each.
    gc.freeze()
    # Until the source has stopped: a signal at any moment before would leave the terminal as it is, and children.
    hear_endings(app.hear)
    try:
        result = app.run()
        status = result if result is not None else app.return_code or 1
        crash = app.crash
    except Exception as raised:
        crash = raised
    finally:
        # It may take seconds; a second signal must not leave the engine's children behind.
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)
        asyncio.run(source.stop())
        if isinstance(app._driver, TerminalDriver):
            app._driver.release()
    _flush_terminal()
    error = source.error
    if error is not None:
        name = "" if isinstance(error, TaskyardError) else f"{type(error).__name__}: "
        print(f"taskyard: {name}{error}", file=sys.stderr)  # noqa: T201
    if crash is not None:
        status = 1
        print(f"taskyard: {_tell_crash(crash, logs, kept)}", file=sys.stderr)  # noqa: T201
    return status


def _flush_terminal() -> None:
    """Send nowhere what a terminal that has gone did not take: else the interpreter's last flush fails, and sets the
    exit status.
    """
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is None:
            continue
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _tell_crash(crash: BaseException, logs: Path | None, kept: bool) -> str:
    """One line about an error of the dashboard itself; the whole of it goes to a file."""
    if os.environ.get("TASKYARD_DEBUG") == "1":
        traceback.print_exception(crash)
    what = f"the dashboard failed ({type(crash).__name__}: {safe_text(str(crash), 200)})"
    then = "what was done is kept, and " * kept + "--headless needs no dashboard"
    if logs is None:
        return f"{what}: {then}; with TASKYARD_DEBUG=1 it says more"
    try:
        logs.mkdir(parents=True, exist_ok=True)
        file = logs / "dashboard-crash.log"
        file.write_text("".join(traceback.format_exception(crash)), "utf-8")
    except OSError:
        return f"{what}: {then}; with TASKYARD_DEBUG=1 it says more"
    return f"{what}: {then}; please report {file}"
