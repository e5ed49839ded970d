"""Requests that can wait, sent many at a time at half the price.

    batcher = LLMBatcher(client, hooks, max_size=1000, max_age=5.0)
    batcher.resume(manifests_of_the_journal)
    answer = await batcher.submit(request)          # its own answer, or its own error
    ...                                             # keep it
    batcher.stored(request)
    await batcher.close(cancel=False)               # leave what is on its way for the next process

Requests of one (role, model) group become one Message Batches call. A request's custom id is the digest of everything
that can change its answer, so a restarted process that asks the same thing again finds the batch that an earlier one
paid for. What a batch leaves open (expired, errored, missing) is asked for singly, once. Where the endpoint has no
batches, every request goes singly, and that is said once.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Callable, Coroutine, Iterable, Sequence

import msgspec

from engine.batching import Batcher
from engine.errors import BatchItemError, LLMError, TaskyardError
from engine.figures import QueueFigures
from engine.llm.batch_calls import MAX_ITEMS, BatchCalls, ItemFailure, ItemResult
from engine.llm.batch_ends import BatchEnds
from engine.llm.batch_flights import BatchHooks, Flights, Manifest, PollPolicy, surely_not_created
from engine.llm.batch_items import BatchStats, Item, custom_id_of, loads_of
from engine.llm.batch_table import ItemTable
from engine.llm.client import ModelClient, OnFailure
from engine.llm.messages import ModelAnswer, ModelRequest
from engine.llm.retries import RetryPolicy

_NO_BATCHES = (404, 405, 501)
"""What an endpoint that has no batches says to the attempt to make one."""
_GRACE = 3.0  # seconds that a creation on its way may take when we close


class LLMBatcher:
    """Sends requests in batches, and gives each its own answer. Everything happens on one event loop."""

    def __init__(
        self,
        client: ModelClient,
        hooks: BatchHooks,
        *,
        max_size: int = 1_000,
        max_age: float = 5.0,
        poll: PollPolicy | None = None,
        retry: RetryPolicy | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
        new_token: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        self._client = client
        self._hooks = hooks
        self._clock = clock
        self._new_token = new_token
        self._flights = Flights(
            BatchCalls(client.sdk),
            hooks,
            self._deliver,
            poll=poll or PollPolicy(),
            retry=retry or RetryPolicy(attempts=12, patience=3600.0, longest_wait=60.0),
            clock=clock,
            monotonic=monotonic,
            jitter=jitter,
        )
        self._max_size = min(max_size, MAX_ITEMS)
        self._max_age = max_age
        self._queue: Batcher[Item] = Batcher(
            self._depart, max_size=self._max_size, max_age=max_age, clock=clock
        )
        self._items = ItemTable(client.money)
        self._sending: set[asyncio.Task[None]] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._ends = BatchEnds(hooks.ended)
        self._no_batches = False
        self._stats = BatchStats()

    async def submit(self, request: ModelRequest, *, on_failure: OnFailure | None = None) -> ModelAnswer:
        """Wait for the answer to this request, however it comes.

        Raises BatchItemError when the service refuses the request itself, the LLMError with which its batch could not
        be made, or BudgetReachedError before anything was sent.
        """
        if self._no_batches:
            return await self._client.call(request, on_failure=on_failure)
        item = await self._item_for(request)
        outcome = await self._wait(item)
        money = self._client.money
        match outcome:
            case ModelAnswer():
                answer = msgspec.structs.replace(outcome, model=request.model)
                if item.hold is None:
                    money.budget.book(item.task_id, money.usd_of(answer))
                return answer
            case ItemFailure(kind, text, lasting):
                # Who asks again after a restart did not mean it to stay cancelled.
                if lasting or (kind == "canceled" and not item.earlier):
                    raise BatchItemError(f"{request.model}: {text}", kind=kind)
                self._count(singles=1)
                return await self._client.call(request, on_failure=on_failure)
            case error:
                raise error

    def stored(self, request: ModelRequest) -> None:
        """Tell that the answer to this request is kept on disk.

        A batch is ended, and no restart asks for it again, once all of its answers are.
        """
        custom_id = custom_id_of(request)
        item = self._items.get(custom_id)
        if item is not None:  # its batch of an earlier process is not read yet
            item.stored = True
        self._ends.stored(custom_id)

    async def flush(self) -> None:
        """Send what is queued now, and wait until the service has taken it."""
        await self._queue.flush()

    def depart(self) -> None:
        """Send what is queued now: when nothing else is running, nobody can join it."""
        self._queue.depart()

    def resume(self, manifests: Iterable[Manifest]) -> None:
        """Take up the batches of an earlier process, those that had ended too: results can be read for 29 days.

        Requests submitted afterwards find their answers in them, and nothing is sent twice.
        """
        for manifest in manifests:
            self._take_up(manifest)

    async def cancel(self, batch: str) -> None:
        """Cancel one batch at the service; requests it had not begun end in BatchItemError. Raises LLMError."""
        await self._flights.cancel(batch)

    def withdraw(self, task_id: str) -> int:
        """Send the queued requests of a task singly after all; gives how many. What is on its way stays there."""
        withdrawn = [item for item in self._items if item.queued and item.task_id == task_id]
        for item in withdrawn:
            self._items.resolve(item, ItemFailure("missing", "moved to the fast lane"))
        return len(withdrawn)

    @property
    def stats(self) -> BatchStats:
        """The figures so far."""
        return self._stats

    @property
    def figures(self) -> QueueFigures:
        """The queue as the dashboard shows it."""
        waiting = [item for item in self._queue.queued if item.queued]
        return QueueFigures(
            name="model requests",
            queued=len(waiting),
            oldest_at=self._queue.oldest_at if waiting else None,
            max_size=self._max_size,
            max_age=self._max_age,
        )

    @property
    def in_motion(self) -> tuple[str, ...]:
        """The ids of the batches the service is working on."""
        return self._flights.in_motion

    async def close(self, *, cancel: bool = False) -> None:
        """Stop. Batches on their way are cancelled at the service, or left for the next process to take up.

        Who still waits gets an error.
        """
        self._queue.clear()
        if self._sending:  # a creation cut short leaves a batch that only the next process can find
            await asyncio.wait(self._sending, timeout=_GRACE)
        if cancel:
            for batch in self._flights.in_motion:
                try:
                    await self._flights.cancel(batch)
                except LLMError as error:
                    self._hooks.notice(f"batch {batch} could not be cancelled: {error}")
        for task in (*self._sending, *self._background):
            task.cancel()
        await asyncio.gather(*self._sending, *self._background, return_exceptions=True)
        await self._queue.close()
        for item in self._items:
            self._items.resolve(item, BatchItemError("the batch queue was closed", kind="canceled"))

    async def _item_for(self, request: ModelRequest) -> Item:
        """Give the item of this request: the one on its way already, or a new one in the queue."""
        custom_id = custom_id_of(request)
        request = request.with_cache_ttl("1h")  # a batch may take longer than five minutes
        while True:
            given_up = self._items.given_up(custom_id)
            if given_up is not None:
                self._take_up(given_up)
            item = self._items.get(custom_id)
            if item is not None:
                if item.request is None:
                    item.request = request
                    if not item.future.done():
                        item.hold = self._client.money.hold_anyway(request, batch=True)
                return item
            hold = await self._client.money.hold(request, batch=True)
            if self._items.get(custom_id) is not None:  # an equal request was quicker
                hold.release()
                continue
            item = self._items.add(custom_id, request.task_id, request)
            item.hold = hold
            self._enqueue(item)
            return item

    async def _wait(self, item: Item) -> ItemResult | TaskyardError:
        item.waiters += 1
        try:
            outcome = await asyncio.shield(item.future)
        except asyncio.CancelledError:
            item.waiters -= 1
            if item.waiters == 0 and item.queued:
                self._items.resolve(item, ItemFailure("canceled"))
                self._items.drop(item)
            raise
        self._items.drop(item)
        return outcome

    def _enqueue(self, item: Item) -> None:
        assert item.request is not None
        item.queued = True
        item.manifest = None
        self._queue.add(item, group=(item.request.role, item.request.model))

    async def _depart(self, items: Sequence[Item]) -> None:
        """Send one group of queued items, in as many batches as the service's limits need."""
        for load in loads_of([item for item in items if not item.future.done()]):
            # Some may have been withdrawn while an earlier load was on its way.
            going = [item for item in load if not item.future.done()]
            if not going:
                continue
            for item in going:
                item.queued = False
            sending = asyncio.get_running_loop().create_task(self._send(going))
            self._sending.add(sending)
            sending.add_done_callback(self._sending.discard)
            await sending

    async def _send(self, items: Sequence[Item]) -> None:
        requests = {item.custom_id: item.request for item in items if item.request is not None}
        first = next(iter(requests.values()))
        manifest = Manifest(
            token=self._new_token(),
            role=first.role,
            model=first.model,
            custom_ids=tuple(requests),
            tasks=tuple(item.task_id for item in items),
            created_at=self._clock(),
        )
        for item in items:
            item.manifest = manifest
        try:
            manifest = await self._flights.create(manifest, requests)
        except LLMError as error:
            if error.status in _NO_BATCHES:
                self._without_batches()
                for item in items:
                    self._items.resolve(item, ItemFailure("missing", "the endpoint has no batches"))
            elif error.status == 413 and len(items) > 1:
                await self._send(items[: len(items) // 2])
                await self._send(items[len(items) // 2 :])
            else:
                self._items.fail(manifest, error, unknown=not surely_not_created(error))
            return
        except Exception as error:  # a full disk under the journal, say: who waits must hear of it
            self._items.fail(manifest, error, unknown=True)
            raise
        self._items.found(manifest)
        self._count(requests=len(items), batches=1)
        self._spawn(self._follow(manifest))

    async def _follow(self, manifest: Manifest) -> None:
        try:
            succeeded = await self._flights.follow(manifest)
        except Exception as error:
            self._items.fail(manifest, error, unknown=True)
            return
        if succeeded is None:
            await self._search(manifest)
            return
        self._count(seconds=self._clock() - manifest.created_at)
        self._ends.read(manifest.batch, succeeded, len(manifest.custom_ids) - succeeded)

    async def _search(self, manifest: Manifest) -> None:
        """Find the batch of an unanswered creation; when there is none, let its requests be sent anew."""
        try:
            found = await self._flights.adopt(manifest)
        except Exception as error:
            if getattr(error, "status", 0) not in _NO_BATCHES:
                self._hooks.notice(f"an earlier batch cannot be looked for: {error}")
                self._items.fail(manifest, error, unknown=True)
                return
            found = None
        if found is not None:
            self._items.found(found)
            await self._follow(found)
            return
        for item in self._items.open_of(manifest):
            if item.request is not None:
                self._enqueue(item)
            else:
                self._items.drop(item)  # nobody asked for it again yet

    def _take_up(self, manifest: Manifest) -> None:
        """Follow a batch that may exist already; requests that are in it wait for it instead of being sent."""
        self._items.expect(manifest)
        self._spawn(self._follow(manifest) if manifest.batch else self._search(manifest))

    def _deliver(self, batch: str, custom_id: str, result: ItemResult) -> None:
        item = self._items.get(custom_id)
        if item is None or item.future.done():
            return
        own = item.manifest is not None and item.manifest.batch == batch
        if isinstance(result, ItemFailure) and not own:
            return  # It was sent again since, and that batch may answer it.
        self._items.resolve(item, result)
        if item.stored:
            self._items.drop(item)
        elif isinstance(result, ModelAnswer):
            self._ends.answered(batch, custom_id)
            self._count(answered=1, tokens=result.usage.total)
        else:
            self._count(failed=1)

    def _without_batches(self) -> None:
        if not self._no_batches:
            self._no_batches = True
            self._hooks.notice(
                f"{self._client.endpoint} has no batches: the economy lane asks singly, at full price"
            )

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _count(self, **more: float) -> None:
        self._stats = msgspec.structs.replace(
            self._stats, **{name: getattr(self._stats, name) + value for name, value in more.items()}
        )
