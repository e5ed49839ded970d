"""How figures went over a run, as one value for each of a few equal spans of it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from engine.figures import Sample

_NOTHING = Sample(at=0.0)


def hit_rates(samples: Sequence[Sample], begin: float, now: float, spans: int) -> list[float | None]:
    """The share of look-ups that hit, of those in each span; None for a span without any."""
    rates: list[float | None] = []
    for before, after in _pairs(samples, begin, now, spans):
        # A run that was taken up counts its look-ups anew.
        hits, misses = max(0, after.hits - before.hits), max(0, after.misses - before.misses)
        rates.append(hits / (hits + misses) if hits + misses else None)
    return rates


def dollars_saved(samples: Sequence[Sample], begin: float, now: float, spans: int) -> list[float | None]:
    """The dollars that were saved in each span."""
    return [max(0.0, b.usd_saved - a.usd_saved) for a, b in _pairs(samples, begin, now, spans)]


def history_fill(
    samples: Sequence[Sample], begin: float, now: float, spans: int, max_entries: int, max_bytes: int
) -> tuple[list[float | None], list[float | None]]:
    """How full the history was at the end of each span: its entries and its bytes, as shares of their limits."""
    ends = [after for _, after in _pairs(samples, begin, now, spans)]
    known = [end for end in ends if end is not _NOTHING]
    blank: list[float | None] = [None] * (len(ends) - len(known))
    entries = [end.history_entries / max_entries if max_entries else None for end in known]
    sizes = [end.history_bytes / max_bytes if max_bytes else None for end in known]
    return blank + entries, blank + sizes


def _pairs(samples: Sequence[Sample], begin: float, now: float, spans: int) -> list[tuple[Sample, Sample]]:
    """The samples that were the newest at the two ends of each span."""
    times = [each.at for each in samples]
    step = max(0.0, now - begin) / spans
    marks = [begin + step * number for number in range(spans)] + [max(begin, now)]
    newest = [samples[index - 1] if (index := bisect_right(times, mark)) else _NOTHING for mark in marks]
    return list(pairwise(newest))
