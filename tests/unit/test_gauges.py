"""Gauges tell what changed, once; and what the batcher tells is what a restart needs."""

from __future__ import annotations

from engine import events as ev
from engine.batch_events import BatchEvents, manifests
from engine.bus import Bus
from engine.figures import (
    HistoryFigures,
    LessonFigures,
    LimiterFigures,
    QueueFigures,
    ResultCacheFigures,
    TemplateFigures,
)
from engine.gauges import Gauges
from engine.llm.batch_calls import BatchState
from engine.llm.batch_flights import Manifest
from engine.model import Role


class Dials:
    results = ResultCacheFigures(entries=1)
    templates = TemplateFigures()
    lessons = LessonFigures()
    history = HistoryFigures()
    limiters: tuple[LimiterFigures, ...] = ()
    queues = (QueueFigures("git"),)
    state_lost = ""


def gauges_of(bus: Bus, dials: Dials) -> Gauges:
    return Gauges(
        bus,
        results=lambda: dials.results,
        templates=lambda: dials.templates,
        lessons=lambda: dials.lessons,
        history=lambda: dials.history,
        limiters=lambda: dials.limiters,
        queues=lambda: dials.queues,
        state_lost=lambda: dials.state_lost,
    )


async def test_a_cache_that_goes_off_and_a_failing_archive_are_told_in_words_once() -> None:
    bus, dials = Bus(lambda: 7.0), Dials()
    gauges = gauges_of(bus, dials)
    gauges.measure()
    assert bus.state.snapshot().notices == ()
    for hits in range(3):
        dials.results = ResultCacheFigures(hits=hits, disabled="the disk is full")
        dials.history = HistoryFigures(entries=hits, problem="no room for the segment")
        gauges.measure()
    cache, history = bus.state.snapshot().notices
    assert (cache.level, cache.text) == (
        "warning",
        "the result cache is off, the run goes on without it: the disk is full",
    )
    assert history.text.endswith("no room for the segment")
    dials.results = ResultCacheFigures()
    gauges.measure()
    dials.results = ResultCacheFigures(disabled="the disk is full again")
    gauges.measure()
    assert len(bus.state.snapshot().notices) == 3


async def test_only_what_changed_is_told_and_nothing_when_nothing_did() -> None:
    bus, dials, heard = Bus(lambda: 7.0), Dials(), list[ev.Event]()
    bus.subscribe(heard.append)
    gauges = gauges_of(bus, dials)
    gauges.measure()
    gauges.measure()
    (first,) = heard
    assert isinstance(first, ev.Measured)
    assert (first.results, first.queues, first.limiters) == (dials.results, dials.queues, ())
    dials.lessons = LessonFigures(total=4)
    dials.limiters = (LimiterFigures("opus", 8),)
    gauges.measure()
    assert heard[1:] == [ev.Measured(at=7.0, lessons=dials.lessons, limiters=dials.limiters)]
    dials.limiters = ()
    gauges.measure()
    snapshot = bus.state.snapshot()
    assert (snapshot.limiters, snapshot.lessons.total, snapshot.results.entries) == ((), 4, 1)


async def test_a_restart_gets_the_manifests_of_open_batches_back() -> None:
    bus = Bus(lambda: 50.0)
    told = BatchEvents(bus)
    one = Manifest("t1", Role.JUDGE, "m", ("x", "y"), ("A", "B"), created_at=40.0)
    two = Manifest("t2", Role.PLANNER, "m", ("z",), ("C",), created_at=45.0)
    await told.creating(one)
    await told.creating(two)
    assert manifests(bus.state.snapshot().open_batches) == (one, two)
    submitted = Manifest("t1", Role.JUDGE, "m", ("x", "y"), ("A", "B"), created_at=40.0, batch="msgbatch_1")
    await told.submitted(submitted)
    found = {manifest.token: manifest for manifest in manifests(bus.state.snapshot().open_batches)}
    assert found["t1"].batch == "msgbatch_1"
    assert found["t1"].custom_ids == ("x", "y")
    assert found["t2"] == two
    told.ended("msgbatch_1", 2, 0)
    assert manifests(bus.state.snapshot().open_batches) == (two,)


async def test_a_poll_and_a_notice_are_seen_on_the_screen() -> None:
    bus = Bus(lambda: 50.0)
    told = BatchEvents(bus)
    await told.submitted(Manifest("t1", Role.JUDGE, "m", ("x",), ("A",), created_at=40.0, batch="b1"))
    state = BatchState(
        id="b1",
        status="in_progress",
        created_at=40.0,
        succeeded=1,
        errored=1,
        expired=1,
        canceled=1,
    )
    told.polled("b1", state, 60.0)
    (batch,) = bus.state.snapshot().batches
    assert (batch.status, batch.succeeded, batch.errored, batch.next_poll_at) == ("in_progress", 1, 3, 60.0)
    told.notice("the batch is late")
    assert bus.state.snapshot().notices[-1].text == "the batch is late"
