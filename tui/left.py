"""What is left to do once a run is over: what may be offered then."""

from __future__ import annotations

from dataclasses import dataclass

from engine.model import TaskState
from tui.frame import Frame


@dataclass(frozen=True, slots=True)
class Left:
    """What a run that is over leaves to do: tasks to try again, tasks that have not begun."""

    over: bool = False
    to_retry: bool = False
    to_start: bool = False

    @classmethod
    def of(cls, frame: Frame) -> Left:
        """What this run leaves; nothing is asked of one that goes on."""
        snapshot = frame.snapshot
        if snapshot.run.finished is None:
            return cls()
        unsuccessful = snapshot.count(TaskState.FAILED) + snapshot.count(TaskState.CANCELLED)
        return cls(True, unsuccessful > 0, snapshot.count(TaskState.QUEUED) > 0)
