"""Trains: which tasks a train took, how far it came, and what landed by it."""

from __future__ import annotations

from engine.events.base import Event


class TrainDeparted(Event, frozen=True, kw_only=True):
    """A train takes these tasks; told again with all of them when others came before it was let through."""

    train: int
    tasks: tuple[str, ...]


class TrainMoved(Event, frozen=True, kw_only=True):
    """A train reached a stage: combine, conflict, verify, bisect, board, push, landed."""

    train: int
    stage: str
    detail: str = ""


class Pushed(Event, frozen=True, kw_only=True):
    """The remote took one push. `train` is 0 when it brought nothing but the board's new states."""

    train: int
    ref: str
    tip: str


class TrainArrived(Event, frozen=True, kw_only=True):
    """A train ended. `problem` says what kept all of it from landing, if anything; its commits are kept."""

    train: int
    landed: tuple[str, ...]
    sent_back: tuple[str, ...]
    tip: str = ""
    problem: str = ""


TrainEvent = TrainDeparted | TrainMoved | Pushed | TrainArrived
