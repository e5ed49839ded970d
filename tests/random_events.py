"""Events out of nothing, for property tests: any type, any order, legal or not, over a few ids so that they meet."""

from __future__ import annotations

import enum
import types
import typing
from functools import cache
from typing import Any

import msgspec
from hypothesis import strategies as st

from engine import events as ev
from engine.model import Task

TASKS = ("A-1", "B-2", "C-3", "other")
_BY_NAME: dict[str, st.SearchStrategy[Any]] = {
    "task": st.sampled_from(TASKS),
    "id": st.sampled_from(TASKS),
    "after": st.lists(st.sampled_from(TASKS), max_size=2).map(tuple),
    "call": st.sampled_from([f"call{n}" for n in range(6)]),
    "batch": st.sampled_from(["batch1", "batch2"]),
    "token": st.sampled_from([f"token{n}" for n in range(15)]),
    "train": st.integers(0, 4),
    "attempt": st.integers(1, 4),
    "lesson": st.sampled_from(["lesson1", "lesson2"]),
    "tasks": st.deferred(
        lambda: st.lists(strategy(Task), max_size=3, unique_by=lambda task: task.id).map(tuple)
    ),
    "names": st.lists(st.sampled_from(TASKS), max_size=3, unique=True).map(tuple),
}
_BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    str: st.sampled_from(["", "a", "Grüße, 世界 🚂", "line\nline", '{"json": []}', "[red]x[/]", "\x1b[31m"]),
    int: st.integers(0, 3),
    float: st.floats(0, 100),
    bool: st.booleans(),
    bytes: st.binary(max_size=4),
    type(None): st.none(),
    msgspec.UnsetType: st.just(msgspec.UNSET),
}
# A cycle is the journal's own: its test makes real ones.
TYPES = tuple(kind for kind in typing.get_args(ev.AnyEvent) if kind is not ev.CycleStarted)


@cache
def strategy(kind: Any) -> st.SearchStrategy[Any]:
    """Values of any type that an event can hold."""
    if kind in _BY_TYPE:
        return _BY_TYPE[kind]
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return st.sampled_from(args)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([strategy(arg) for arg in args])
    if origin is tuple:
        return st.lists(strategy(args[0]), max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(strategy(args[0]), strategy(args[1]), max_size=2)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return st.sampled_from(list(kind))
    assert issubclass(kind, msgspec.Struct), kind
    hints = typing.get_type_hints(kind)
    return st.builds(kind, **{name: _field(name, hints[name]) for name in kind.__struct_fields__})


def _field(name: str, kind: Any) -> st.SearchStrategy[Any]:
    if name == "tasks" and Task not in typing.get_args(kind):
        return _BY_NAME["names"]
    return _BY_NAME[name] if name in _BY_NAME else strategy(kind)


events: st.SearchStrategy[ev.Event] = st.one_of([strategy(kind) for kind in TYPES])
