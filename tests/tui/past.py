"""A journal with runs of the past, for the screens that list and replay them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from engine import events as ev
from engine.events import Event
from engine.store.journal import Journal
from engine.store.owner import Owner
from engine.store.state_db import open_state
from tests.tui import sample_run
from tui.source import Lookups, Runs

BEGIN = sample_run.BEGIN


def events_of(run: str, begin: float, seconds: float) -> list[Event]:
    """The sample run under another name, at another time."""
    moved: list[Event] = []
    for event in sample_run.events_until(seconds):
        event = replace(event, at=event.at - BEGIN + begin)
        moved.append(replace(event, run=run) if isinstance(event, ev.RunStarted) else event)
    return moved


def record(
    folder: Path,
    run: str,
    *,
    started: float,
    seconds: float = 170,
    status: str = "",
    owner: Owner | None = None,
    events: Sequence[Event] | None = None,
) -> None:
    """Write a run into the journal of a folder; with a `status` it has ended."""
    database = open_state(folder / "state.db")
    try:
        journal = Journal(database, folder / "archive", clock=lambda: started)
        gone = Owner("elsewhere", 4242)
        journal.begin_run(run, "tasks/board.md", owner=owner or gone, started=started)
        journal.append(
            run, events_of(run, started, seconds) if events is None else events, durable=True
        ).result()
        if status:
            journal.end_run(run, started + seconds, status).result()
    finally:
        database.close()


def runs_of(folder: Path, now: float = BEGIN) -> Runs:
    """What lists them, at a fixed time."""
    return Runs(folder / "state.db", folder / "archive", clock=lambda: now)


def lookups(folder: Path, now: float = BEGIN) -> Lookups:
    """What the screens look up there."""
    return Lookups(runs=runs_of(folder, now))


def three_runs(folder: Path) -> Lookups:
    """One that landed, one that some tasks of failed, and one whose process died."""
    record(folder, "r-oldest", started=BEGIN - 7200, seconds=330, status="failed")
    record(folder, "r-middle", started=BEGIN - 3600, seconds=290, status="landed")
    record(folder, "r-newest", started=BEGIN - 600, seconds=95)
    return lookups(folder)
