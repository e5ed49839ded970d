"""What joins the others who work on the same board, where the settings share it."""

from __future__ import annotations

import asyncio
import os
import socket

from msgspec.structs import replace

from engine.assembly.shared_terms import shared_terms
from engine.bus import Bus
from engine.errors import LockStoreAwayError, PreflightError, StoreError
from engine.figures import PeerFigures
from engine.locks import open_locks
from engine.paths import StatePaths
from engine.project import Project, shared_name
from engine.sharing import Crew, Share
from engine.state import RunState
from engine.store.journal import Journal
from engine.store.run_log import RunRow


async def join(project: Project, bus: Bus, run: str, paths: StatePaths, journal: Journal) -> Share:
    """Take part in what others do on the same board. Raises PreflightError while the locks are away."""
    locks = project.settings.locks
    host, pid = socket.gethostname(), os.getpid()

    def figures(working: int) -> PeerFigures:
        me = PeerFigures(host, pid, run, bus.state.run.started or 0.0, seen_at=bus.clock(), working=working)
        return _with_sums(me, bus.state)

    async def last_words(peer: PeerFigures) -> PeerFigures:
        return await asyncio.to_thread(_by_journal, journal, peer)

    store = open_locks(locks.url, paths.locks_db)
    try:
        name, terms = await shared_name(project), shared_terms(project)
        crew = await Crew.join(store, name, figures(0), terms, lease=locks.lease)
    except LockStoreAwayError as error:
        await store.close()
        raise PreflightError(error.message, error.hint) from error
    except BaseException:
        await store.close()
        raise
    crew.last_words = last_words
    share = Share(store, crew, figures, lease=locks.lease)
    try:
        crew.recall(await asyncio.to_thread(_left_by_the_dead, journal, project.board_path, bus.clock()))
    except BaseException:
        await share.close()
        raise
    return share


def _by_journal(journal: Journal, peer: PeerFigures) -> PeerFigures:
    """The figures of one that is gone, by its journal where it kept that in the same state folder."""
    row = next((row for row in journal.runs() if row.run == peer.run), None)
    try:
        return peer if row is None else _with_sums(peer, _state_of(journal, row))
    except StoreError:
        return peer


def _left_by_the_dead(journal: Journal, board: str, now: float) -> list[PeerFigures]:
    """The figures of runs of this state folder that died and were not taken up."""
    dead = [row for row in journal.runs(board) if row.ended is None and not row.is_alive(now)]
    return [
        _by_journal(journal, PeerFigures(row.owner.host, row.owner.pid, row.run, row.started)) for row in dead
    ]


def _state_of(journal: Journal, row: RunRow) -> RunState:
    return RunState().apply_all(event for _, event in journal.events(row.run, row.resume_after))


def _with_sums(peer: PeerFigures, state: RunState) -> PeerFigures:
    """The figures with what the run of this state has done itself."""
    totals = state.totals
    return replace(
        peer,
        finished=state.run.finished is not None,
        landed=totals.landed,
        pushes=totals.pushes,
        model_calls=totals.model_calls,
        batch_calls=totals.batch_calls,
        cache_hits=totals.cache_hits,
        usd=totals.usd,
        usd_saved=totals.usd_saved,
    )


async def alone(task_id: str) -> None:
    """Confirm a claim where one orchestrator works alone: every task is its own."""
