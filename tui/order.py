"""Which tasks a list shows, and in which order."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from engine.model import TaskState
from engine.snapshot import TaskView


class Order(StrEnum):
    """The orders of the task list; what it is called on the screen."""

    PROBLEMS = "problems first"
    GROUPS = "by state"
    BOARD = "board order"
    ELAPSED = "longest first"
    COST = "dearest first"

    @property
    def next(self) -> Order:
        """The order after this one."""
        orders = tuple(Order)
        return orders[(orders.index(self) + 1) % len(orders)]


class Group(StrEnum):
    """What the tasks are parted into by state; what a group is called on the screen."""

    PERSON = "need a person"
    RUNNING = "running"
    TO_LAND = "to land"
    ELSEWHERE = "elsewhere"
    WAITING = "waiting"
    LANDED = "landed"


@dataclass(frozen=True, slots=True)
class GroupHead:
    """The line over a group."""

    group: Group
    count: int
    folded: bool


Row: TypeAlias = TaskView | GroupHead

_GROUPS = {
    TaskState.FAILED: Group.PERSON,
    TaskState.CANCELLED: Group.PERSON,
    TaskState.RUNNING: Group.RUNNING,
    TaskState.TO_LAND: Group.TO_LAND,
    TaskState.ELSEWHERE: Group.ELSEWHERE,
    TaskState.QUEUED: Group.WAITING,
    TaskState.WAITING: Group.WAITING,
    TaskState.LANDED: Group.LANDED,
}


def group_of(view: TaskView) -> Group:
    """The group that the task belongs to."""
    return _GROUPS[view.state]


def grouped(tasks: Sequence[TaskView], folded: Container[Group]) -> tuple[Row, ...]:
    """The tasks under the heads of their groups, those that went wrong first in each; folded ones show their heads."""
    members: dict[Group, list[TaskView]] = {group: [] for group in Group}
    for view in tasks:
        members[_GROUPS[view.state]].append(view)
    rows: list[Row] = []
    for group, views in members.items():
        if views:
            rows.append(GroupHead(group, len(views), group in folded))
            if group not in folded:
                views.sort(key=rank)
                rows += views
    return tuple(rows)


_RANKS = {
    TaskState.FAILED: 0,
    TaskState.CANCELLED: 2,
    TaskState.TO_LAND: 6,
    TaskState.ELSEWHERE: 7,
    TaskState.QUEUED: 8,
    TaskState.WAITING: 9,
    TaskState.LANDED: 10,
}


def rank(view: TaskView) -> int:
    """How early a task stands when problems come first: what went wrong, what moves, what waits, what is done."""
    if view.sent_back and not view.state.ended:
        return 1
    if view.state is TaskState.RUNNING:
        if view.failures or view.returns:
            return 3
        return 5 if view.batched else 4
    return _RANKS[view.state]


def is_problem(view: TaskView) -> bool:
    """Whether something went wrong with the task, also when a later try mended it."""
    return view.state in (TaskState.FAILED, TaskState.CANCELLED) or view.sent_back or bool(view.ended_badly)


def matches(view: TaskView, words: Sequence[str]) -> bool:
    """Whether every word (in lower case) stands in the task's id, scope, state, type, lane, branch or last line."""
    if not words:
        return True
    stage = view.stage.value if view.stage is not None else ""
    task = view.task
    text = "\n".join(
        (
            task.id,
            task.scope,
            view.state.value.replace("_", " "),
            stage,
            task.type,
            task.lane,
            view.last,
            view.problem,
        )
    ).lower()
    return all(word in text for word in words)


def ordered(
    tasks: Sequence[TaskView], order: Order, now: float, *, filter_text: str = "", problems_only: bool = False
) -> tuple[TaskView, ...]:
    """The tasks to show, in their order. Equal ones keep the order of the board."""
    shown = list(tasks)
    if problems_only:
        shown = [view for view in shown if is_problem(view)]
    if words := filter_text.lower().split():
        shown = [view for view in shown if matches(view, words)]
    if order is Order.PROBLEMS:
        shown.sort(key=rank)
    elif order is Order.ELAPSED:
        shown.sort(key=lambda view: -view.elapsed(now))
    elif order is Order.COST:
        shown.sort(key=lambda view: -view.usd)
    return tuple(shown)
