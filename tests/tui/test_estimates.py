"""What the header promises about the rest of a run, against how runs went."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from engine import events as ev
from engine.figures import StageTime
from engine.model import Stage, Task, TaskState
from engine.snapshot import RunView, Snapshot, Totals
from engine.state import RunState
from engine.task_view import TaskView
from tests import recorded_demo
from tests.samples import finished, started
from tui.estimates import Estimate, throughput, time_to_go
from tui.line import plain
from tui.widgets.header import eta_of

ONCE = tuple(StageTime(stage, 1, 2.0, 4.0) for stage in Stage)


def _running(stage: Stage | None, since: float, times: tuple[StageTime, ...]) -> Snapshot:
    view = TaskView(
        Task("T1", "scope"), TaskState.RUNNING, attempt=1, started=since, stage=stage, stage_started=since
    )
    return Snapshot(run=RunView(started=0.0, max_concurrency=4), tasks=(view,), stage_times=times)


def test_nothing_is_promised_before_each_stage_that_lies_ahead_has_ended_once() -> None:
    assert time_to_go(_running(Stage.PLAN, 0.0, ONCE[:-1]), 0.0) is None
    assert time_to_go(_running(Stage.PLAN, 0.0, ONCE), 0.0) is not None
    assert time_to_go(_running(Stage.JUDGE, 0.0, ONCE[3:]), 0.0) is not None


def test_a_stage_that_takes_longer_than_it_does_still_has_time_to_go() -> None:
    estimate = time_to_go(_running(Stage.LAND, 0.0, ONCE), 100.0)
    assert estimate is not None
    assert 0 < estimate.seconds < 2.0


def test_few_samples_make_it_uncertain() -> None:
    often = tuple(replace(time, count=50, total=100.0, squares=200.0) for time in ONCE)
    once, known = (time_to_go(_running(Stage.PLAN, 0.0, times), 0.0) for times in (ONCE, often))
    assert once is not None
    assert known is not None
    assert once.seconds == known.seconds
    assert once.give_or_take > 1.5 * known.give_or_take


def test_time_is_left_as_long_as_there_is_work() -> None:
    assert plain(eta_of(Estimate(0.2, 0.1))) == "00:01 left ±00:01"
    assert plain(eta_of(Estimate(600, 120))) == "10:00 left ±02:00"


def test_what_may_be_over_at_once_is_told_by_its_latest_end() -> None:
    assert plain(eta_of(Estimate(17, 24))) == "< 00:41 left"
    assert plain(eta_of(Estimate(0.1, 0.2))) == "< 00:01 left"
    assert plain(eta_of(Estimate(24, 23.9))) == "00:24 left ±00:23"


@pytest.mark.parametrize("recorded", [recorded_demo.events, recorded_demo.events_before])
def test_what_was_promised_over_the_demo_held(recorded: Callable[[], Sequence[ev.AnyEvent]]) -> None:
    """At each second of it: within what it was said to be wrong by, nine times of ten."""
    events = recorded()
    begin, end = events[0].at, events[-1].at
    state, coming = RunState(), iter(events)
    event = next(coming)
    held = []
    for second in range(int(end - begin)):
        while event.at <= begin + second:
            state.apply(event)
            event = next(coming)
        estimate = time_to_go(state.snapshot(), begin + second)
        if estimate is not None:
            off = abs(begin + second + estimate.seconds - end)
            held.append(off <= estimate.give_or_take)
    assert len(held) > 20
    assert sum(held) >= 0.9 * len(held)


@pytest.mark.parametrize(
    ("began", "landed_at", "words"),
    [
        (70.0, (72.0, 80.0, 99.0), "3 in 30 s"),
        (51.5, (72.0, 80.0, 99.0), "3 in 48 s"),
        (40.0, (41.0, 72.0, 100.0), "3.0/min"),
        (-500.0, (41.0,), "0.1/min"),
        (-900.0, (-600.0,), "0.0/min"),
        (100.0, (100.0,), "1 in 1 s"),
        (40.0, (), ""),
    ],
)
def test_the_pace_is_that_of_the_time_there_was(
    began: float, landed_at: tuple[float, ...], words: str
) -> None:
    snapshot = Snapshot(run=RunView(started=began), landings=landed_at)
    pace = throughput(snapshot, 100.0)
    assert (pace.in_words if pace is not None else "") == words


def test_the_pace_goes_by_the_clock_of_the_run_as_the_header_tells_it() -> None:
    state = RunState()

    def pace_at(now: float) -> str:
        pace = throughput(state.snapshot(), now)
        return pace.in_words if pace is not None else ""

    def landed(task: str, at: float) -> ev.TaskLanded:
        return ev.TaskLanded(at=at, task=task, commit=task[0] * 40, train=1)

    state.apply_all([started(at=0.0), landed("A-1", 20.0), finished(at=22.0)])
    assert pace_at(22.0) == pace_at(46.0) == "1 in 22 s", "a run that has ended has no time any more"
    state.apply(ev.RunResumed(at=1000.0, host="here", pid=1, rested=True))
    assert pace_at(1003.0) == "1 in 25 s"
    state.apply(landed("B-2", 1005.0))
    pace = throughput(state.snapshot(), 1008.0, cells=3)
    assert pace is not None
    assert (pace.counts, pace.in_words) == ((0, 1, 1), "2 in 30 s")


def test_the_pace_of_many_is_of_the_time_whose_landings_are_known() -> None:
    landings = tuple(40.0 + n * 0.25 for n in range(240))  # the newest of a thousand
    pace = throughput(
        Snapshot(run=RunView(started=-500.0), totals=Totals(landed=1000), landings=landings), 100.0
    )
    assert pace is not None
    assert pace.in_words == "240.0/min"
