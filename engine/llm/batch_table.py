"""The requests on their way to the service, by custom id; each comes to one end, and its money is settled then."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec

from engine.errors import BatchItemError, TaskyardError
from engine.llm.batch_calls import ItemResult
from engine.llm.batch_flights import Manifest
from engine.llm.batch_items import Item
from engine.llm.messages import ModelAnswer, ModelRequest
from engine.llm.money import Money


class ItemTable:
    """Equal requests are one item. Everything happens on one event loop."""

    def __init__(self, money: Money) -> None:
        self._money = money
        self._items: dict[str, Item] = {}
        self._given_up: dict[str, Manifest] = {}

    def __iter__(self) -> Iterator[Item]:
        """All items, whether they have come to an end or not; the table may change meanwhile."""
        return iter(tuple(self._items.values()))

    def get(self, custom_id: str) -> Item | None:
        """The item of this id, or None."""
        return self._items.get(custom_id)

    def add(self, custom_id: str, task_id: str, request: ModelRequest | None = None) -> Item:
        """Make the item of a request; without one, of what only a manifest tells."""
        item = Item(custom_id, task_id, request, asyncio.get_running_loop().create_future())
        self._items[custom_id] = item
        return item

    def drop(self, item: Item) -> None:
        """Forget an item. Does nothing when another has taken its place."""
        if self._items.get(item.custom_id) is item:
            del self._items[item.custom_id]

    def expect(self, manifest: Manifest) -> None:
        """Let the requests of a batch that may exist already wait for it instead of being sent.

        One that was sent again since waits for the batch it was sent in last, and no longer for this one.
        """
        for custom_id, task_id in zip(manifest.custom_ids, manifest.tasks, strict=True):
            self._given_up.pop(custom_id, None)
            item = self._items.get(custom_id)
            if item is None:
                item = self.add(custom_id, task_id)
                item.earlier = True
            if item.manifest is None or manifest.batch or not item.manifest.batch:
                item.manifest = manifest

    def found(self, manifest: Manifest) -> None:
        """Tell the requests of a batch its id, once it is known."""
        for item in self.open_of(manifest):
            item.manifest = manifest

    def given_up(self, custom_id: str) -> Manifest | None:
        """The batch that was given up with this request in it, and may exist; None once somebody waits for it again."""
        return None if custom_id in self._items else self._given_up.get(custom_id)

    def open_of(self, manifest: Manifest) -> Iterator[Item]:
        """The items that wait for a batch, and have not come to an end."""
        for custom_id in manifest.custom_ids:
            item = self._items.get(custom_id)
            if item is None or item.future.done() or item.manifest is None:
                continue
            if item.manifest.token == manifest.token:
                yield item

    def fail(self, manifest: Manifest, error: Exception, *, unknown: bool) -> None:
        """End the requests of a batch with an error.

        `unknown`: the batch may exist, and be paid for. Who asks for one of its requests again takes it up first.
        """
        outcome = error if isinstance(error, TaskyardError) else _unexpected(error)
        for item in self.open_of(manifest):
            if unknown:
                self._given_up[item.custom_id] = manifest
            self.drop(item)
            self.resolve(item, outcome)

    def resolve(self, item: Item, outcome: ItemResult | TaskyardError) -> None:
        """Bring an item to its end, and settle what was held for it. Does nothing the second time."""
        if item.future.done():
            return
        item.queued = False
        if item.hold is not None and item.request is not None:
            usd = 0.0
            if isinstance(outcome, ModelAnswer):
                answer = msgspec.structs.replace(outcome, model=item.request.model)
                usd = self._money.usd_of(answer)
            item.hold.settle(usd)
        item.future.set_result(outcome)


def _unexpected(error: Exception) -> BatchItemError:
    return BatchItemError(f"the batch was given up ({type(error).__name__}: {error})", kind="missing")
