"""The wire form of events: what is written once can be read for ever."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import events as ev
from tests.random_events import TYPES, strategy

RECORDED = Path(__file__).parents[1] / "recorded" / "earlier.jsonl"


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_every_event_comes_back_from_its_wire_form(kind: type[ev.Event], data: st.DataObject) -> None:
    event = data.draw(strategy(kind))
    line = ev.encode(event)
    assert b"\n" not in line
    assert ev.decode(line) == event
    assert msgspec.json.decode(line)["event"] == kind.__struct_config__.tag


@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_the_last_line_of_a_run_has_every_field_also_those_that_are_nothing(data: st.DataObject) -> None:
    line = ev.encode(data.draw(strategy(ev.RunFinished)))
    assert msgspec.json.decode(line).keys() - {"event"} == set(ev.RunFinished.__struct_fields__)


def test_what_is_no_event_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        ev.decode(b'{"event": "no_such_thing", "at": 1.0}')
    with pytest.raises(msgspec.ValidationError):
        ev.decode(b'{"event": "task_queued", "at": 1.0}')


def test_a_run_that_an_earlier_version_recorded_is_read_and_written_as_it_was() -> None:
    lines = RECORDED.read_bytes().splitlines()
    events = [ev.decode(line) for line in lines]
    assert isinstance(events[0], ev.RunStarted)
    assert isinstance(events[-1], ev.RunFinished)
    for line, event in zip(lines[:-1], events[:-1], strict=True):
        if not isinstance(event, ev.Measured):  # its figures are gauges of the day: fields came and went
            assert ev.encode(event) == line
    was, now = msgspec.json.decode(lines[-1]), msgspec.json.decode(ev.encode(events[-1]))
    assert {name: now[name] for name in was} == was


def test_every_event_is_in_the_union_and_has_its_name_here() -> None:
    made: set[type[ev.Event]] = set(ev.Event.__subclasses__())
    assert made == {*TYPES, ev.CycleStarted}
    assert {kind.__name__ for kind in made} <= set(ev.__all__)
