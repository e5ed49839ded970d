"""How figures went over a run: kept in bounded memory, shown as one value for each span."""

from __future__ import annotations

from itertools import pairwise

import pytest

from engine import events as ev
from engine.figures import HistoryFigures, ResultCacheFigures, Sample
from engine.reducing.samples import MOST
from engine.state import RunState
from tui.line import sparkline
from tui.trends import dollars_saved, history_fill, hit_rates


def measured(at: float, hits: int, misses: int) -> ev.Measured:
    return ev.Measured(
        at=at,
        results=ResultCacheFigures(hits=hits, misses=misses),
        history=HistoryFigures(entries=hits, max_entries=1000, bytes=10 * hits, max_bytes=1000),
    )


@pytest.mark.parametrize("count", [3, 100, 5_000, 40_000])
def test_samples_are_few_and_cover_all_of_the_run(count: int) -> None:
    state = RunState()
    most = 0
    for second in range(count):
        state.apply(measured(float(second), second, 0))
        most = max(most, len(state.samples))
    samples = state.snapshot().samples
    assert most <= MOST + 1
    assert samples[0].at == 0.0
    assert samples[-1] == Sample(
        at=count - 1, hits=count - 1, history_entries=count - 1, history_bytes=10 * (count - 1)
    )
    gaps = [b.at - a.at for a, b in pairwise(samples)]
    assert gaps == [] or max(gaps) <= max(6.0, count / 8)


def test_a_cycle_keeps_them_and_they_go_on() -> None:
    state = RunState()
    for second in range(1_000):
        state.apply(measured(float(second), second, 0))
    again = RunState(state.begin_cycle())
    assert again.samples == state.samples
    for each in (state, again):
        each.apply(measured(1_000.0, 1_000, 5))
    assert again.samples == state.samples


def test_each_span_tells_of_its_own_look_ups() -> None:
    samples = [
        Sample(at=5, hits=0, misses=10),
        Sample(at=15, hits=10, misses=10, usd_saved=1.0),
        Sample(at=25, hits=10, misses=10, usd_saved=1.0),
        Sample(at=35, hits=15, misses=15, usd_saved=3.0),
    ]
    assert hit_rates(samples, 0.0, 40.0, 4) == [0.0, 1.0, None, 0.5]
    assert dollars_saved(samples, 0.0, 40.0, 4) == [0.0, 1.0, 0.0, 2.0]
    assert hit_rates([], 0.0, 0.0, 3) == [None, None, None]


def test_a_run_that_was_taken_up_counts_anew() -> None:
    samples = [Sample(at=5, hits=9, misses=9, usd_saved=2.0), Sample(at=15, hits=1, misses=0, usd_saved=2.5)]
    assert hit_rates(samples, 0.0, 20.0, 2) == [0.5, None]
    assert dollars_saved(samples, 0.0, 20.0, 2) == [2.0, 0.5]


def test_the_history_is_shown_against_its_limits_and_pruning_is_seen() -> None:
    samples = [
        Sample(at=15, history_entries=900, history_bytes=50),
        Sample(at=25, history_entries=800, history_bytes=40),
    ]
    entries, sizes = history_fill(samples, 0.0, 30.0, 3, 1000, 100)
    assert entries == [None, 0.9, 0.8]
    assert sizes == [None, 0.5, 0.4]
    assert sparkline(entries, "warn", 1.0) == ((" ▇▇", "warn"),)
    assert history_fill(samples, 0.0, 30.0, 3, 0, 0) == ([None, None, None], [None, None, None])
