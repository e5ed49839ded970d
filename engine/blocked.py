"""Which tasks wait in vain."""

from __future__ import annotations

from functools import lru_cache

from engine.model import TaskState
from engine.snapshot import Snapshot

NOT_LANDED = (TaskState.FAILED, TaskState.CANCELLED)
"""How a task stands that will not land before somebody tries it again."""


@lru_cache(maxsize=2)
def blocked(snapshot: Snapshot) -> frozenset[str]:
    """The tasks that wait in vain: for one that failed, was cancelled or is blocked itself."""
    if not snapshot.count(TaskState.WAITING) or not any(snapshot.count(each) for each in NOT_LANDED):
        return frozenset()
    in_vain = {view.task.id for view in snapshot.tasks if view.state in NOT_LANDED}
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
