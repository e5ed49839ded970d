"""Who waits for whom, in the same words wherever it is told: "after T3 (failed), T4"."""

from __future__ import annotations

from collections.abc import Callable, Container

from engine.blocked import NOT_LANDED
from engine.model import TaskState
from engine.task_view import TaskView
from tui.plain import one_line

BLOCKED = "blocked"
"""What a task is called that waits for one that will not land."""

MOST = 8
"""Names of tasks that are told, of all that one waits for."""


def awaited(view: TaskView, find: Callable[[str], TaskView | None], stuck: Container[str] = ()) -> str:
    """What a task waits for, those first that will not land: "after T3 (failed), T4"; empty when it waits for nothing.

    `find` gives the other tasks by their id, `stuck` holds those that are blocked.
    """
    in_vain, to_come = [], []
    for name in view.task.after:
        other = find(name)
        if other is None:
            to_come.append(one_line(name))
        elif other.state in NOT_LANDED:
            in_vain.append(f"{one_line(name)} ({other.state.value})")
        elif name in stuck:
            in_vain.append(f"{one_line(name)} ({BLOCKED})")
        elif other.state is not TaskState.LANDED:
            to_come.append(one_line(name))
    names = [*in_vain, *to_come]
    more = [f"{len(names) - MOST} more"] if len(names) > MOST else []
    return f"after {', '.join([*names[:MOST], *more])}" if names else ""
