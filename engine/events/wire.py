"""The wire form of events, which the journal, `run --json` and recorded files share.

An event is one JSON object whose `event` names its type. A new field needs a default, and a name that was written once
keeps its meaning: runs recorded by earlier versions are read by the same decoder.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from engine.events.base import Event
from engine.events.board import BoardEvent
from engine.events.calls import CallEvent
from engine.events.run import RunEvent
from engine.events.tasks import TaskEvent
from engine.events.trains import TrainEvent

AnyEvent = RunEvent | TaskEvent | CallEvent | TrainEvent | BoardEvent

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(AnyEvent)


def encode(event: Event) -> bytes:
    """Give the event as one line of JSON, without the line end."""
    return _encoder.encode(event)


def decode(data: bytes) -> AnyEvent:
    """Read an event back. Raises `msgspec.ValidationError` for anything that is not one."""
    event: AnyEvent = _decoder.decode(data)
    return event


_E = TypeVar("_E", bound=Event)


def storable(event: _E) -> _E:
    """Give the event as JSON can hold it: what is no text (a file name that is no UTF-8, say) is replaced in it."""
    try:
        _encoder.encode(event)
    except UnicodeEncodeError:
        return msgspec.convert(_without_surrogates(msgspec.to_builtins(event)), type(event))
    return event


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list | tuple):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    return value
