"""What joins the others who work on the same board, where the settings share it."""

from __future__ import annotations

import os
import socket

from engine.bus import Bus
from engine.errors import LockStoreAwayError, PreflightError
from engine.figures import PeerFigures
from engine.locks import open_locks
from engine.paths import StatePaths
from engine.project import Project, shared_name
from engine.sharing import Share


async def join(project: Project, bus: Bus, run: str, paths: StatePaths) -> Share:
    """Take part in what others do on the same board. Raises PreflightError while the locks are away."""
    locks = project.settings.locks

    def figures(working: int) -> PeerFigures:
        totals = bus.state.totals
        return PeerFigures(
            host=socket.gethostname(),
            pid=os.getpid(),
            run=run,
            started=bus.state.run.started or 0.0,
            seen_at=bus.clock(),
            finished=bus.state.run.finished is not None,
            working=working,
            landed=totals.landed,
            pushes=totals.pushes,
            model_calls=totals.model_calls,
            batch_calls=totals.batch_calls,
            cache_hits=totals.cache_hits,
            usd=totals.usd,
            usd_saved=totals.usd_saved,
        )

    store = open_locks(locks.url, paths.locks_db)
    try:
        return await Share.join(store, await shared_name(project), figures, lease=locks.lease)
    except LockStoreAwayError as error:
        await store.close()
        raise PreflightError(error.message, error.hint) from error
    except BaseException:
        await store.close()
        raise


async def alone(task_id: str) -> None:
    """Confirm a claim where one orchestrator works alone: every task is its own."""
