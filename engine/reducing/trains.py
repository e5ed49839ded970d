"""Trains on their way, and what they brought."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from engine import events as ev
from engine.figures import TrainView
from engine.model import TaskState
from engine.reducing.facts import Facts, bound

MAX_TRAINS = 50  # shown; those on their way stay, however many


def _train_departed(state: Facts, e: ev.TrainDeparted) -> None:
    state.trains[e.train] = TrainView(e.train, "combine", e.tasks, e.at)
    bound(state.trains, MAX_TRAINS, lambda train: train.ended_at is not None)
    for task in e.tasks:
        state.change(task, train=e.train, last=f"train {e.train}, combine")


def _train_moved(state: Facts, e: ev.TrainMoved) -> None:
    train = state.trains.get(e.train)
    if train is None:
        return
    state.trains[e.train] = replace(train, stage=e.stage, detail=e.detail)
    for task in train.tasks:
        view = state.tasks.get(task)
        if view is not None and view.state is TaskState.TO_LAND and view.train == e.train:
            state.change(task, last=f"train {e.train}, {e.stage}")


def _pushed(state: Facts, e: ev.Pushed) -> None:
    state.add(pushes=1, marks=int(e.train == 0))
    train = state.trains.get(e.train)
    if train is not None:
        state.trains[e.train] = replace(train, tip=e.tip)


def _train_arrived(state: Facts, e: ev.TrainArrived) -> None:
    train = state.trains.get(e.train)
    if train is None:
        return
    state.add(trains=int(bool(e.landed)))
    state.trains[e.train] = replace(
        train,
        stage="failed" if e.problem else "landed",
        detail=e.problem,
        landed=len(e.landed),
        sent_back=len(e.sent_back),
        tip=train.tip if e.problem else e.tip,
        ended_at=max(train.started_at, e.at),
    )
    if e.problem:
        state.notice(e.at, "error", f"train {e.train}: {e.problem}")


HANDLERS: dict[type[ev.Event], Callable[[Facts, Any], None]] = {
    ev.TrainDeparted: _train_departed,
    ev.TrainMoved: _train_moved,
    ev.Pushed: _pushed,
    ev.TrainArrived: _train_arrived,
}
