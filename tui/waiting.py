"""Who waits for whom, in the same words wherever it is told: "after T3 (failed), T4"."""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import lru_cache

from engine.model import TaskState
from engine.snapshot import Snapshot, TaskView
from tui.plain import one_line

BLOCKED = "blocked"
"""What a task is called that waits for one that will not land."""

MOST = 8
"""Names of tasks that are told, of all that one waits for."""

_NOT_LANDED = (TaskState.FAILED, TaskState.CANCELLED)


@lru_cache(maxsize=2)
def blocked(snapshot: Snapshot) -> frozenset[str]:
    """The tasks that wait in vain: for one that failed, was cancelled or is blocked itself.

    Once the run has finished, these are all that still wait, as its end counts them.
    """
    waiting = snapshot.count(TaskState.WAITING)
    if not waiting or not (
        snapshot.run.finished is not None or any(snapshot.count(each) for each in _NOT_LANDED)
    ):
        return frozenset()
    if snapshot.run.finished is not None:
        return frozenset(view.id for view in snapshot.tasks if view.state is TaskState.WAITING)
    in_vain = {view.task.id for view in snapshot.tasks if view.state in _NOT_LANDED}
    waits = [task for view in snapshot.tasks if view.state is TaskState.WAITING and (task := view.task).after]
    found: set[str] = set()
    while waits:
        rest = []
        for task in waits:
            if in_vain.isdisjoint(task.after):
                rest.append(task)
            else:
                in_vain.add(task.id)
                found.add(task.id)
        if len(rest) == len(waits):
            break
        waits = rest[::-1]  # now from below: some wait for one further down the board
    return frozenset(found)


def awaited(view: TaskView, find: Callable[[str], TaskView | None], stuck: Container[str] = ()) -> str:
    """What a task waits for, those first that will not land: "after T3 (failed), T4"; empty when it waits for nothing.

    `find` gives the other tasks by their id, `stuck` holds those that are blocked.
    """
    in_vain, to_come = [], []
    for name in view.task.after:
        other = find(name)
        if other is None:
            to_come.append(one_line(name))
        elif other.state in _NOT_LANDED:
            in_vain.append(f"{one_line(name)} ({other.state.value})")
        elif name in stuck:
            in_vain.append(f"{one_line(name)} ({BLOCKED})")
        elif other.state is not TaskState.LANDED:
            to_come.append(one_line(name))
    names = [*in_vain, *to_come]
    more = [f"{len(names) - MOST} more"] if len(names) > MOST else []
    return f"after {', '.join([*names[:MOST], *more])}" if names else ""
