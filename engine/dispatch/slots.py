"""Who may run: a bounded number of slots, and the queue of those who wait for one.

    slots = Slots(10, type_limits={"docs": 2}, lane_limits={})
    slots.queue(task, order=0)
    slots.take(new=True)        # the id of who goes first now, or None
    slots.give_back(task)

Those who come back for a slot that they had released go before those who have not started; then the higher priority,
then who was added first.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

from engine.model import Lane, Task


class Slot:
    """A running task's right to run. Hold it while working, release it while only waiting."""

    def __init__(self, release: Callable[[], None], acquire: Callable[[], Awaitable[None]]) -> None:
        self._release = release
        self._acquire = acquire

    def release(self) -> None:
        """Let another task start. Does nothing when the slot is not held."""
        self._release()

    async def acquire(self) -> None:
        """Wait for a slot again; those who come back go before those who have not started."""
        await self._acquire()

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[None]:
        """Have the slot released inside. Who is cancelled there is to end, and waits for no slot to do so."""
        self.release()
        try:
            yield
        except asyncio.CancelledError:
            raise
        except BaseException:
            await self.acquire()
            raise
        await self.acquire()


class _Ticket(NamedTuple):
    """A place in the queue; the least goes first."""

    new: bool
    minus_priority: int
    order: int
    number: int
    task_id: str


class Slots:
    """`limit` slots in all, of which each type and lane may have no more than its own limit.

    `limit` may change at any time: slots that are taken stay so.
    """

    def __init__(
        self, limit: int, *, type_limits: Mapping[str, int], lane_limits: Mapping[Lane, int]
    ) -> None:
        self.limit = limit
        self.taken = 0
        self._type_limits = dict(type_limits)
        self._lane_limits = dict(lane_limits)
        self._by_type: Counter[str] = Counter()
        self._by_lane: Counter[Lane] = Counter()
        self._queues: dict[tuple[str, Lane], list[_Ticket]] = {}
        # A heap gives up only its first: who leaves the queue leaves a ticket behind whose number counts no more.
        self._numbers: dict[str, int] = {}
        self._last_number = 0

    def queue(self, task: Task, order: int, *, new: bool = True) -> None:
        """Put a task in the queue, or to another place in it. `order`: which one it is, of all that were added."""
        self._last_number += 1
        self._numbers[task.id] = self._last_number
        ticket = _Ticket(new, -task.priority, order, self._last_number, task.id)
        heapq.heappush(self._queues.setdefault((task.type, task.lane), []), ticket)

    def leave(self, task_id: str) -> None:
        """Take a task out of the queue. Does nothing when it is not in it."""
        self._numbers.pop(task_id, None)

    def take(self, *, new: bool) -> str | None:
        """Give a slot to the first in the queue who may have one; gives the task's id, or None when nobody may.

        `new`: whether those who have not started may have one too.
        """
        if self.taken >= self.limit:
            return None
        best: tuple[str, Lane] | None = None
        for (type_, lane), heap in self._queues.items():
            if self._by_type[type_] >= self._type_limits.get(type_, self.limit):
                continue
            if self._by_lane[lane] >= self._lane_limits.get(lane, self.limit):
                continue
            while heap and self._numbers.get(heap[0].task_id) != heap[0].number:
                heapq.heappop(heap)
            # Those who come back stand first, so a new one at the head means that nobody has come back.
            if not heap or (heap[0].new and not new):
                continue
            if best is None or heap[0] < self._queues[best][0]:
                best = type_, lane
        if best is None:
            return None
        task_id = heapq.heappop(self._queues[best]).task_id
        del self._numbers[task_id]
        type_, lane = best
        self._by_type[type_] += 1
        self._by_lane[lane] += 1
        self.taken += 1
        return task_id

    def give_back(self, task: Task) -> None:
        """Free the slot that the task took."""
        self.taken -= 1
        self._by_type[task.type] -= 1
        self._by_lane[task.lane] -= 1
