"""Which tasks a list shows, and in which order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import compress
from operator import is_not
from typing import TypeAlias

from engine.model import TaskState
from engine.task_view import TaskView
from tui.waiting import BLOCKED


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


_PLACES = {group: place for place, group in enumerate(Group)}


def group_of(view: TaskView) -> Group:
    """The group that the task belongs to."""
    return _GROUPS[view.state]


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
    """Whether something went wrong with the task, also when a later attempt mended it."""
    return view.state in (TaskState.FAILED, TaskState.CANCELLED) or view.sent_back or bool(view.ended_badly)


def matches(view: TaskView, words: Sequence[str], stuck: Container[str] = ()) -> bool:
    """Whether every word (in lower case) stands in the task's id, scope, state, type, lane or last line."""
    if not words:
        return True
    stage = view.stage.value if view.stage is not None else ""
    task = view.task
    text = "\n".join(
        (
            task.id,
            task.scope,
            BLOCKED if view.id in stuck else view.state.value.replace("_", " "),
            "sent back" if view.sent_back else "",
            stage,
            task.type,
            task.lane,
            view.last,
            view.problem,
        )
    ).lower()
    return all(word in text for word in words)


class Listing:
    """The tasks of a list in their order. Of ten thousand, those that are as they were are not looked at again."""

    def __init__(self) -> None:
        self._how: tuple[object, ...] = ()
        self._views: Sequence[TaskView] = ()
        self._keys: list[float] = []
        self._order: list[int] = []

    def rows(
        self,
        views: Sequence[TaskView],
        order: Order,
        now: float,
        *,
        filter_text: str = "",
        problems_only: bool = False,
        folded: Container[Group] = (),
        stuck: frozenset[str] = frozenset(),
    ) -> tuple[Row, ...]:
        """The tasks to show. Equal ones keep the order of the board; groups have heads, and folded ones only these.

        `stuck` holds the tasks that are blocked.
        """
        words = tuple(filter_text.lower().split())
        self._sort(views, order, now, words, problems_only, stuck)
        if order is not Order.GROUPS:
            return tuple(map(views.__getitem__, self._order))
        rows: list[Row] = []
        begin = 0
        for number, group in enumerate(Group, 1):
            end = bisect_left(self._order, number * _GROUP, begin, key=self._keys.__getitem__)
            if end > begin:
                rows.append(GroupHead(group, end - begin, group in folded))
                if group not in folded:
                    rows += map(views.__getitem__, self._order[begin:end])
            begin = end
        return tuple(rows)

    def _sort(
        self,
        views: Sequence[TaskView],
        order: Order,
        now: float,
        words: Sequence[str],
        problems_only: bool,
        stuck: frozenset[str],
    ) -> None:
        # Who is blocked changes with other tasks than itself.
        how = (order, words, problems_only, len(views), stuck if words else None)
        moved = how != self._how or order is Order.ELAPSED
        if moved:
            self._how, self._keys = how, [_HIDDEN] * len(views)
            changed: Iterable[int] = range(len(views))
        else:
            changed = compress(range(len(views)), map(is_not, views, self._views))
        self._views = views
        for index in changed:
            view = views[index]
            seen = matches(view, words, stuck) and (not problems_only or is_problem(view))
            key = _key(view, order, now) if seen else _HIDDEN
            moved = moved or key != self._keys[index]
            self._keys[index] = key
        if moved:
            sorting = self._keys.__getitem__
            everything = sorted(range(len(views)), key=sorting)
            self._order = everything[: bisect_left(everything, _HIDDEN, key=sorting)]


_HIDDEN = float("inf")
_GROUP = 100.0  # more than any rank


def _key(view: TaskView, order: Order, now: float) -> float:
    """What the tasks are sorted by."""
    match order:
        case Order.PROBLEMS:
            return rank(view)
        case Order.GROUPS:
            return _PLACES[group_of(view)] * _GROUP + rank(view)
        case Order.BOARD:
            return 0.0
        case Order.ELAPSED:
            return -view.elapsed(now)
        case Order.COST:
            return -view.usd
