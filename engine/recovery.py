"""What a killed run had pushed, but could not tell its journal: the events that make up for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from engine import events as ev
from engine.figures import TrainView
from engine.git.cargo import Landed
from engine.model import TaskState
from engine.snapshot import Snapshot
from engine.task_view import TaskView


def waiting(snapshot: Snapshot) -> Mapping[str, str]:
    """The commits of the tasks that wait for a train, as far as the journal knows."""
    return {
        view.id: view.commit for view in snapshot.tasks if view.state is TaskState.TO_LAND and view.commit
    }


def made_up(
    snapshot: Snapshot, landed: Sequence[Landed], *, at: float, ref: str, tip: str
) -> Iterator[ev.Event]:
    """Tell the landings, and the ends and pushes of the trains that brought them.

    `ref` is the branch that is pushed to, empty where there is no remote, `tip` its newest commit.
    """
    trains = {train.number: train for train in snapshot.trains}
    views = {view.id: view for view in snapshot.tasks}
    brought: dict[int, list[str]] = defaultdict(list)
    for item in landed:
        train = _train_of(views.get(item.task_id), trains)
        yield ev.TaskLanded(
            at=at, task=item.task_id, commit=item.commit, train=train.number if train is not None else 0
        )
        if (
            train is not None and not train.landed
        ):  # Its end was told as that of a train that was interrupted.
            brought[train.number].append(item.task_id)
    for number, names in brought.items():
        if ref and not trains[number].tip:
            yield ev.Pushed(at=at, train=number, ref=ref, tip=tip)
        yield ev.TrainArrived(at=at, train=number, landed=tuple(names), sent_back=(), tip=tip)


def _train_of(view: TaskView | None, trains: Mapping[int, TrainView]) -> TrainView | None:
    """The train that took the task since it was last ready to land; None where the journal had not heard of it."""
    train = trains.get(view.train) if view is not None and view.train is not None else None
    if train is None or view is None:
        return None
    before = (
        train.ended_at is not None and view.stage_started is not None and train.ended_at < view.stage_started
    )
    return None if before else train
