"""A board that several orchestrators work off together.

    crew = await Crew.join(store, board, figures, terms, lease=30.0)
    share = Share(store, crew, lease=30.0)
    claim = await share.claim("T1", on_lost)     # None: another has it, or it is done
    outcome = await share.settled("T1")          # wait for the other; None: the task is free again
    async with share.gate.hold(): ...            # land, one at a time

Everybody claims tasks by lease and tells what became of them; what was told counts in a session, which lasts as long as
somebody takes part. While the store of the locks is away nothing is claimed and nothing lands: the run waits.
Everything happens on one event loop.
"""

from __future__ import annotations

from engine.sharing.crew import Crew, Terms
from engine.sharing.gate import SharedGate
from engine.sharing.permits import Permits
from engine.sharing.share import Share, SharingEvents

__all__ = ["Crew", "Permits", "Share", "SharedGate", "SharingEvents", "Terms"]
