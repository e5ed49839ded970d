"""The state of a repository, opened for one run: a new one, or one that was interrupted and goes on."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from engine.bus import Bus
from engine.errors import PreflightError, StoreError
from engine.paths import StatePaths
from engine.project import Project
from engine.recorder import HistoryRecorder, JournalSink
from engine.settings import Settings
from engine.state import RunState
from engine.store.database import Database, DatabaseError
from engine.store.history import HistoryPruner, PrunePolicy
from engine.store.journal import Journal
from engine.store.ownership import withdraw_run
from engine.store.state_db import open_state


@dataclass(frozen=True, slots=True)
class OpenedRun:
    """The claimed run. `space` keeps its refs and folders apart from those of others; empty: it works alone.

    `resumed` says that it goes on with what an interrupted process left.
    """

    run: str
    space: str
    resumed: bool
    database: Database
    journal: Journal
    sink: JournalSink
    history: HistoryRecorder

    async def undo(self) -> None:
        """Close the state because the run cannot begin: nobody is to hear of it, unless it had begun before."""
        try:
            if not self.resumed:
                await asyncio.to_thread(self.journal.withdraw, self.run)
        finally:
            await asyncio.to_thread(self.database.close)


async def open_run(project: Project, bus: Bus, paths: StatePaths, new_run: str) -> OpenedRun:
    """Open the state and claim a run, with the id `new_run` unless one is taken up; the bus goes on from its past.

    Raises PreflightError where the disk is full, StoreError, or RunBusyError when a live process works on the board and
    one of the two does not share it.
    """
    try:
        database = await asyncio.to_thread(open_state, paths.state_db)
        try:
            return await _claim(project, bus, paths, new_run, database)
        except BaseException:
            await asyncio.to_thread(_give_up, database, new_run)
            raise
    except DatabaseError as error:
        if error.kind == "full":
            raise PreflightError(error.message, error.hint) from error
        raise


def _give_up(database: Database, new_run: str) -> None:
    """Close the state; nobody is to hear of a run that was claimed while who wanted it was cancelled."""
    with suppress(StoreError):  # there is none
        database.submit(lambda c: withdraw_run(c, new_run)).result()
    database.close()


async def _claim(
    project: Project, bus: Bus, paths: StatePaths, new_run: str, database: Database
) -> OpenedRun:
    settings = project.settings
    journal = Journal(database, paths.archive, clock=bus.clock)
    claim = await asyncio.to_thread(
        lambda: journal.claim(project.board_path, new_run, shared=settings.locks.sharing)
    )
    run = claim.run.run
    past = await asyncio.to_thread(lambda: list(journal.events(run, claim.run.resume_after)))
    sink = JournalSink(journal, run, lambda: bus.state)
    bus.attach(sink, RunState().apply_all(event for _, event in past))
    pruner = HistoryPruner(database, _policy(settings, paths), clock=bus.clock)
    history = HistoryRecorder(pruner, run, lambda: bus.state)
    history.settle({row.run: row.ended for row in journal.runs() if row.ended is not None})
    bus.subscribe(history.hear)
    return OpenedRun(run, run if claim.spaced else "", bool(past), database, journal, sink, history)


def _policy(settings: Settings, paths: StatePaths) -> PrunePolicy:
    limits = settings.history
    return PrunePolicy(
        max_bytes=limits.max_bytes,
        max_age=limits.max_age,
        max_entries=limits.max_entries,
        archive_dir=paths.archive,
    )
