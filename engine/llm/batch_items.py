"""What a batcher keeps about each request on its way, and how many of them one batch may hold."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from engine.errors import TaskyardError
from engine.llm.batch_calls import MAX_BYTES, MAX_ITEMS, ItemResult
from engine.llm.batch_flights import Manifest
from engine.llm.budget import Hold
from engine.llm.messages import ModelRequest


class BatchStats(msgspec.Struct, frozen=True):
    """What batching did so far. `singles` are requests that had to go singly after all."""

    requests: int = 0
    batches: int = 0
    answered: int = 0
    failed: int = 0
    singles: int = 0
    tokens: int = 0
    seconds: float = 0.0
    """From each batch's creation to its last result, summed."""

    @property
    def average(self) -> float:
        """Requests in a batch."""
        return self.requests / self.batches if self.batches else 0.0

    @property
    def calls_saved(self) -> int:
        """Calls that were not needed because others carried their requests."""
        return max(0, self.requests - self.batches - self.singles)


@dataclass(slots=True, eq=False)
class Item:
    """One request on its way; `queued` until it leaves, `stored` once its answer is kept elsewhere.

    `request` is None as long as only the manifest of an earlier process tells of it. `earlier`: its batch was made by
    an earlier process, or given up by this one. `manifest` is that of the batch it waits for, the newest that it is in.
    """

    custom_id: str
    task_id: str
    request: ModelRequest | None
    future: asyncio.Future[ItemResult | TaskyardError]
    hold: Hold | None = None
    waiters: int = 0
    queued: bool = False
    stored: bool = False
    earlier: bool = False
    manifest: Manifest | None = None


def custom_id_of(request: ModelRequest) -> str:
    """Give the id a request travels under: its task, to be read, and the digest of all that changes its answer."""
    canonical = msgspec.json.encode(request.digest_input(), order="sorted")
    task = re.sub(r"[^a-zA-Z0-9_-]", "-", request.task_id)[:20]
    return f"{task}_{hashlib.sha256(canonical).hexdigest()[:40]}"


def loads_of(items: Sequence[Item]) -> list[list[Item]]:
    """Split items so that no load passes what one batch may hold."""
    loads: list[list[Item]] = []
    size = MAX_BYTES + 1
    for item in items:
        assert item.request is not None
        bytes_ = len(msgspec.json.encode(item.request.params()))
        if size + bytes_ > MAX_BYTES or len(loads[-1]) >= MAX_ITEMS:
            loads.append([])
            size = 0
        loads[-1].append(item)
        size += bytes_
    return loads
