"""One queue policy for whatever is cheaper together: commits for one push, requests for one batch call.

    batcher = Batcher(execute, max_size=10, max_age=5.0)
    batcher.add(item, group="judge")
    batcher.depart()                 # or when a group is full, or its oldest item has waited for max_age
    await batcher.flush()

`execute(items)` does one batch of one group. What it raises is kept with the batch and disturbs no other. Everything
happens on one event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, Literal, TypeVar

import msgspec

T = TypeVar("T")

Reason = Literal["size", "age", "hand"]


class Batch(msgspec.Struct, frozen=True, eq=False):
    """One batch. `size` counts its items, `reason` says what made it leave; times are seconds since the epoch."""

    number: int
    group: Hashable
    size: int
    reason: Reason
    queued_at: float
    started_at: float
    ended_at: float | None = None
    error: BaseException | None = None


class BatcherStats(msgspec.Struct, frozen=True):
    """Sums over all batches that ended. `seconds` is the time spent executing."""

    operations: int = 0
    batches: int = 0
    failed: int = 0
    seconds: float = 0.0

    @property
    def average(self) -> float:
        """Operations in a batch."""
        return self.operations / self.batches if self.batches else 0.0

    @property
    def round_trips_saved(self) -> int:
        """Executions that were not needed because others carried their operations."""
        return self.operations - self.batches


class _Queue(Generic[T]):
    """The items of one group, with the times they came."""

    __slots__ = ("due", "items")

    def __init__(self) -> None:
        self.items: deque[tuple[T, float, float]] = deque()
        self.due: Reason | None = None


class Batcher(Generic[T]):
    """See the module's text. Sizes count items, ages are seconds.

    At most `max_executing` batches run at once (None: any number); meanwhile a queue grows, and the next batch takes up
    to `max_size` of it. The last `keep` ended batches are remembered.
    """

    def __init__(
        self,
        execute: Callable[[Sequence[T]], Awaitable[object]],
        *,
        max_size: int = 10,
        max_age: float = 5.0,
        max_executing: int | None = None,
        keep: int = 100,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if max_size < 1:
            raise ValueError(f"max_size must be at least 1, not {max_size}")
        self._execute = execute
        self._max_size = max_size
        self._max_age = max_age
        self._max_executing = max_executing
        self._clock = clock
        self._queues: dict[Hashable, _Queue[T]] = {}
        self._running: dict[asyncio.Task[None], Batch] = {}
        self._ended: deque[Batch] = deque(maxlen=keep)
        self._stats = BatcherStats()
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    # Putting in and sending off

    def add(self, item: T, group: Hashable = None) -> None:
        """Queue an item; its group leaves when it is full or old enough. Raises RuntimeError once closed."""
        if self._closed:
            raise RuntimeError("the batcher is closed")
        queue = self._queues.setdefault(group, _Queue())
        queue.items.append((item, self._clock(), asyncio.get_running_loop().time()))
        self._pump()

    def depart(self, *groups: Hashable) -> None:
        """Let what is queued leave as soon as it may: of these groups, or of all where none is named."""
        for name, queue in self._queues.items():
            if not groups or name in groups:
                queue.due = "hand"
        self._pump()

    async def flush(self) -> None:
        """Let everything queued leave, and wait until all batches have ended."""
        while self._running or (self._queues and not self._closed):
            self.depart()
            if self._running:
                await asyncio.wait(tuple(self._running))

    def take(self, count: int, group: Hashable = None) -> tuple[T, ...]:
        """Take up to `count` of a group's oldest items out of the queue, for a batch that is on its way already."""
        queue = self._queues.get(group)
        if queue is None:
            return ()
        items = tuple(queue.items.popleft()[0] for _ in range(min(count, len(queue.items))))
        if not queue.items:
            del self._queues[group]
        self._pump()
        return items

    def remove(self, item: T) -> bool:
        """Take this very item out of the queue; False when it has left already."""
        for name, queue in self._queues.items():
            for place, (queued, _, _) in enumerate(queue.items):
                if queued is item:
                    del queue.items[place]
                    if not queue.items:
                        del self._queues[name]
                    self._pump()
                    return True
        return False

    def clear(self) -> tuple[T, ...]:
        """Take everything out of the queues that has not left; gives it back."""
        items = tuple(item for queue in self._queues.values() for item, _, _ in queue.items)
        self._queues.clear()
        self._pump()
        return items

    async def close(self) -> None:
        """Take nothing more in, let nothing more leave, and wait for the batches that have left."""
        self._closed = True
        self._pump()
        if self._running:
            await asyncio.wait(tuple(self._running))

    async def cancel(self) -> None:
        """Close, and cancel the batches on their way instead of waiting for them."""
        for task in self._running:
            task.cancel()
        await self.close()

    # Questions

    @property
    def pending(self) -> int:
        """How many items are queued."""
        return sum(len(queue.items) for queue in self._queues.values())

    @property
    def queued(self) -> tuple[T, ...]:
        """The queued items, group by group, oldest first."""
        return tuple(item for queue in self._queues.values() for item, _, _ in queue.items)

    @property
    def oldest_at(self) -> float | None:
        """When the oldest queued item came (seconds since the epoch), or None."""
        return min((queue.items[0][1] for queue in self._queues.values()), default=None)

    @property
    def executing(self) -> tuple[Batch, ...]:
        """The batches on their way."""
        return tuple(self._running.values())

    @property
    def completed(self) -> tuple[Batch, ...]:
        """The last batches that ended well, oldest first."""
        return tuple(batch for batch in self._ended if batch.error is None)

    @property
    def failed(self) -> tuple[Batch, ...]:
        """The last batches that ended in an error, oldest first."""
        return tuple(batch for batch in self._ended if batch.error is not None)

    def stats(self) -> BatcherStats:
        """The sums so far."""
        return self._stats

    # The policy

    def _pump(self) -> None:
        """Send off what is due, and set the timer for what will be."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._closed:
            return
        loop = asyncio.get_running_loop()
        while self._max_executing is None or len(self._running) < self._max_executing:
            due = [
                (queue.items[0][2], name) for name, queue in self._queues.items() if self._reason(queue, loop)
            ]
            if not due:
                break
            self._depart(min(due, key=lambda pair: pair[0])[1], loop)
        waiting = [queue.items[0][2] for queue in self._queues.values() if not self._reason(queue, loop)]
        if waiting:
            self._timer = loop.call_at(min(waiting) + self._max_age, self._pump)

    def _reason(self, queue: _Queue[T], loop: asyncio.AbstractEventLoop) -> Reason | None:
        if len(queue.items) >= self._max_size:
            return "size"
        if queue.due is not None:
            return queue.due
        # The loop may call a timer a clock tick early.
        if loop.time() >= queue.items[0][2] + self._max_age - 1e-3:
            return "age"
        return None

    def _depart(self, name: Hashable, loop: asyncio.AbstractEventLoop) -> None:
        queue = self._queues[name]
        reason = self._reason(queue, loop) or "hand"
        queued_at = queue.items[0][1]
        items = [queue.items.popleft()[0] for _ in range(min(self._max_size, len(queue.items)))]
        if not queue.items:
            del self._queues[name]
        self._count += 1
        batch = Batch(self._count, name, len(items), reason, queued_at, self._clock())
        task = loop.create_task(self._run(batch, items))
        self._running[task] = batch
        task.add_done_callback(self._running.pop)
        task.add_done_callback(lambda _: self._pump())

    async def _run(self, batch: Batch, items: Sequence[T]) -> None:
        error: BaseException | None = None
        try:
            await self._execute(items)
        except Exception as failure:
            error = failure
        ended = msgspec.structs.replace(batch, ended_at=self._clock(), error=error)
        self._ended.append(ended)
        self._stats = BatcherStats(
            operations=self._stats.operations + batch.size,
            batches=self._stats.batches + 1,
            failed=self._stats.failed + int(error is not None),
            seconds=self._stats.seconds + max(0.0, (ended.ended_at or 0.0) - batch.started_at),
        )
