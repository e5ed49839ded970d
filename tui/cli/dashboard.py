"""The dashboard over a run of this process, of another one, or of the past."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.events import Event
    from engine.store.run_log import RunRow
    from tui.cli.place import Place


def show_run(place: Place, environ: Mapping[str, str]) -> int:
    """Run the board in a worker thread and show it; gives the exit status."""
    from engine.thread import EngineThread
    from tui.app import DashboardApp
    from tui.source import LiveSource

    return DashboardApp(LiveSource(EngineThread(place.settings, environ))).run() or 0


def show_watch(place: Place, row: RunRow) -> int:
    """Show a run of another process; gives the exit status."""
    raise NotImplementedError


def show_replay(events: Sequence[Event], speed: float) -> int:
    """Show a past run as it went; gives the exit status."""
    raise NotImplementedError
