"""How the figures went over the run: samples of them, evenly spread over all of it, never more than a few dozen."""

from __future__ import annotations

from engine.figures import Sample
from engine.reducing.facts import Facts

MOST = 64  # samples of one run
CLOSEST = 5.0
"""Seconds between two samples at the beginning; the longer the run, the further apart they are."""


def sample(state: Facts, at: float) -> None:
    """Note the figures of this moment. The newest sample is always that of the newest figures."""
    results, history = state.gauges["results"], state.gauges["history"]
    now = Sample(
        at=at,
        hits=results.hits,
        misses=results.misses,
        usd_saved=state.totals.usd_saved,
        history_entries=history.entries,
        history_bytes=history.bytes,
    )
    kept = state.samples
    apart = max(CLOSEST, (at - kept[0].at) / (MOST / 2)) if kept else CLOSEST
    if len(kept) > 1 and at - kept[-2].at < apart:
        kept = kept[:-1]
    elif len(kept) >= MOST:
        kept = kept[::2]
    state.samples = (*kept, now)
