"""One task's place with the dispatcher, from when it is added to its outcome."""

from __future__ import annotations

import asyncio
from typing import Generic

from engine.dispatch.progress import Outcome, Progress, R
from engine.model import Task


class Entry(Generic[R]):
    """One task's place with the dispatcher.

    `order` says which one it is of all that were added. `runner` does its work; it `holds` a slot `since` a time, and
    has been `busy` for the seconds before that; `waker` is set while it waits to get one back. `again`: somebody asked
    for a retry before it ended. `skipped`: somebody else has done it. Times are `monotonic` seconds.
    """

    __slots__ = (
        "again", "busy", "holds", "order", "outcome", "progress", "queued_at", "runner", "since", "skipped",
        "started_at", "task", "waker",
    )  # fmt: skip

    def __init__(self, task: Task, order: int) -> None:
        self.task = task
        self.order = order
        self.progress = Progress.WAITING
        self.runner: asyncio.Task[R] | None = None
        self.waker: asyncio.Future[None] | None = None
        self.holds = False
        self.again = False
        self.skipped = False
        self.queued_at: float | None = None
        self.started_at: float | None = None
        self.since = 0.0
        self.busy = 0.0
        self.outcome: Outcome[R] | None = None
