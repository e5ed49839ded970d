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
from tests import recorded_demo
from tests.tui import sample_run
from tui.source import Lookups, Runs

BEGIN = sample_run.BEGIN


def events_of(run: str, begin: float, seconds: float, events: Sequence[Event] | None = None) -> list[Event]:
    """The first `seconds` of the events, or else of the sample run, under another name, at another time."""
    if events is None:
        events = sample_run.events_until(seconds)
    since = begin - events[0].at
    moved: list[Event] = []
    for event in events:
        event = replace(event, at=event.at + since)
        if event.at <= begin + seconds:
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
    beat: float | None = None,
) -> None:
    """Write a run into the journal of a folder; with a `status` it has ended. Its last sign of life was at `beat`."""
    database = open_state(folder / "state.db")
    try:
        journal = Journal(database, folder / "archive", clock=lambda: beat or started)
        gone = Owner("elsewhere", 4242)
        journal.begin_run(run, "tasks/board.md", owner=owner or gone, started=started)
        journal.append(
            run, events_of(run, started, seconds) if events is None else events, durable=True
        ).result()
        if beat is not None:
            journal.beat(run).result()
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


EARLIER = (
    ("5d0e3ab94c17", 93_600.0, 31.0, "interrupted"),
    ("b27f61c80de4", 7_500.0, 24.0, ""),
    ("e9114fd2a603", 5_400.0, 60.0, "landed"),
)
"""Runs of the demo before the recorded one: how many seconds before, how long each took at most, and how it ended."""


def of_the_demo(folder: Path, now: float, earlier: bool = False) -> Runs:
    """The recorded run of the demo as it is now, and `earlier` ones; of a host that is alive as long as it is heard."""
    events = recorded_demo.events()
    begin, end = events[0].at, events[-1].at
    runs = [(run, begin - before, seconds, status) for run, before, seconds, status in EARLIER if earlier]
    own = next(event.run for event in events if isinstance(event, ev.RunStarted))
    for run, started, seconds, status in (*runs, (own, begin, now - begin, "landed" if now >= end else "")):
        length = min(seconds, end - begin)
        record(
            folder,
            run,
            started=started,
            seconds=length,
            status=status,
            owner=Owner(recorded_demo.HOST, 4242),
            events=events_of(run, started, length, events),
            beat=started + length,
        )
    return runs_of(folder, now)
