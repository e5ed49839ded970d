"""The bus: order, listeners, and a published state that is new but not too often new."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from engine import bus as bus_module
from engine.bus import Bus
from engine.errors import StoreError
from engine.events import Event, Progressed, TaskQueued, TasksAdded
from engine.model import Task, TaskState
from engine.state import RunState

ADDED = TasksAdded(at=1.0, tasks=(Task("A", "one"), Task("B", "two")))


class Disk:
    """A sink whose writes end when the test says so."""

    def __init__(self) -> None:
        self.kept: list[Event] = []
        self.written: list[asyncio.Future[None]] = []

    def append(self, event: Event) -> None:
        self.kept.append(event)

    def commit(self, event: Event) -> Awaitable[None]:
        self.kept.append(event)
        self.written.append(asyncio.get_running_loop().create_future())
        return self.written[-1]


def line(n: int) -> Progressed:
    return Progressed(at=float(n), task="A", text=f"line {n}")


async def test_an_event_reaches_the_sink_the_state_and_the_listeners() -> None:
    bus, disk, heard = Bus(), Disk(), list[Event]()
    bus.attach(disk, RunState().apply_all([ADDED]))
    bus.subscribe(heard.append)
    bus.emit(line(1))
    assert disk.kept == heard == [line(1)]
    assert bus.state.view("A").last == "line 1"


async def test_a_commit_returns_only_when_the_event_is_kept() -> None:
    bus, disk = Bus(), Disk()
    bus.attach(disk, RunState().apply_all([ADDED]))
    committing = asyncio.ensure_future(bus.commit(TaskQueued(at=2.0, task="A")))
    await asyncio.sleep(0)
    assert not committing.done()
    disk.written[0].set_result(None)
    await committing
    assert bus.state.view("A").state is TaskState.QUEUED


async def test_the_state_takes_events_in_the_order_in_which_they_are_kept() -> None:
    bus, disk, heard = Bus(), Disk(), list[Event]()
    bus.attach(disk, RunState().apply_all([ADDED]))
    bus.subscribe(heard.append)
    committing = asyncio.ensure_future(bus.commit(line(1)))
    await asyncio.sleep(0)
    bus.emit(line(2))
    disk.written[0].set_result(None)
    await committing
    assert disk.kept == heard == [line(1), line(2)]
    assert bus.state.view("A").last == "line 2"


async def test_what_cannot_be_kept_is_raised_to_the_one_who_depends_on_it() -> None:
    bus, disk = Bus(), Disk()
    bus.attach(disk, RunState())
    committing = asyncio.ensure_future(bus.commit(ADDED))
    await asyncio.sleep(0)
    disk.written[0].set_exception(StoreError("the disk is full"))
    with pytest.raises(StoreError, match="full"):
        await committing


async def test_without_a_sink_events_only_make_the_state() -> None:
    bus = Bus()
    bus.emit(ADDED)
    await bus.commit(TaskQueued(at=2.0, task="A"))
    assert bus.state.view("A").state is TaskState.QUEUED


async def test_a_burst_is_published_soon_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus_module, "PUBLISH_HZ", 1.0)
    bus = Bus()
    bus.emit(ADDED)
    first = bus.latest
    async with asyncio.timeout(30):
        while bus.latest is first:
            await asyncio.sleep(0)
    published = bus.latest
    for n in range(1_000):
        bus.emit(line(n))
    await asyncio.sleep(0)
    assert bus.latest is published  # not again so soon
    async with asyncio.timeout(30):
        while bus.latest is published:
            await asyncio.sleep(0.001)
    view = bus.latest.task("A")
    assert view is not None
    assert view.last == "line 999"
    assert bus.latest.task("B") is published.task("B")


async def test_a_steady_stream_is_published_no_oftener_than_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bus_module, "PUBLISH_HZ", 50.0)
    bus, loop = Bus(), asyncio.get_running_loop()
    bus.emit(ADDED)
    seen = {id(bus.latest): bus.latest}
    start, n = loop.time(), 0
    while len(seen) < 10:
        bus.emit(line(n := n + 1))
        await asyncio.sleep(0)
        seen[id(bus.latest)] = bus.latest
    # The first of all comes at once, each of the others at least a period after the one before.
    assert loop.time() - start > (len(seen) - 2) / 50


async def test_publishing_by_hand_takes_the_place_of_the_next_time() -> None:
    bus = Bus()
    bus.emit(ADDED)
    bus.publish()
    by_hand = bus.latest
    assert len(by_hand.tasks) == 2
    bus.attach(Disk(), RunState())
    assert bus.latest.tasks == ()
