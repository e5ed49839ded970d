"""Which tasks a list shows, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from engine.model import TaskState
from engine.snapshot import TaskView


class Order(StrEnum):
    """The orders of the task list; what it is called on the screen."""

    PROBLEMS = "problems first"
    BOARD = "board order"
    ELAPSED = "longest first"
    COST = "dearest first"

    @property
    def next(self) -> Order:
        """The order after this one."""
        orders = tuple(Order)
        return orders[(orders.index(self) + 1) % len(orders)]


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
    """Whether something went wrong with the task that is not mended yet."""
    if view.state is TaskState.LANDED:
        return False
    return view.state in (TaskState.FAILED, TaskState.CANCELLED) or view.sent_back or view.failures > 0


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
