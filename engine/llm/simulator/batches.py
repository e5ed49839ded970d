"""Message Batches: made at once, ended after a while, answered in any order, some items not at all."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from engine.llm.simulator.batch_file import BatchFile, Cancelled, Deleted, Entry, Made
from engine.llm.simulator.scenario import Batches
from engine.llm.simulator.wire import Json, Refusal, encode, identifier, invalid

_DAY = 86_400.0  # seconds
_CANCELLING = 0.1  # of the usual duration

Answering = Callable[[Json], Json | None]
"""Turns the params of one item into its `result`; None means that the item is missing from the results."""


@dataclass(slots=True)
class _Batch:
    id: str
    requests: list[Json]
    created: float
    ends: float
    cancelled: float | None = None
    results: list[bytes] | None = None
    counts: dict[str, int] = field(default_factory=dict)


class BatchStore:
    """All batches of a server. Safe to use from several threads.

    `seconds` is how long a batch takes, `clock` gives seconds since the epoch, `file` keeps the batches.
    """

    def __init__(
        self,
        rules: Batches,
        seconds: float,
        answer: Answering,
        *,
        clock: Callable[[], float],
        seed: str,
        file: BatchFile,
    ) -> None:
        self._rules = rules
        self._seconds = seconds
        self._answer = answer
        self._clock = clock
        self._seed = seed
        self._file = file
        self._made = 0
        self._batches: dict[str, _Batch] = {}
        self._lock = threading.RLock()
        for entry in file.read():
            self._apply(entry)

    def create(self, requests: list[Json], results_base: str) -> Json:
        """Take a checked list of requests in; gives the batch."""
        with self._lock:
            now = self._clock()
            id = identifier("msgbatch", self._seed, self._made)
            self._record(Made(id, now, now + self._seconds, requests))
            return self._view(self._batches[id], results_base)

    def retrieve(self, id: str, results_base: str) -> Json:
        """Give a batch as it stands."""
        with self._lock:
            return self._view(self._get(id), results_base)

    def page(self, query: dict[str, str], results_base: str) -> Json:
        """Give a page of batches, newest first."""
        try:
            limit = int(query.get("limit", "20"))
        except ValueError:
            limit = 0
        if not 1 <= limit <= 1000:
            raise invalid("limit: Input should be a whole number from 1 to 1000")
        with self._lock:
            ids = list(reversed(self._batches))
            if "after_id" in query:
                ids = ids[_place(ids, query["after_id"]) + 1 :]
                page, more = ids[:limit], len(ids) > limit
            elif "before_id" in query:
                ids = ids[: _place(ids, query["before_id"])]
                page, more = ids[-limit:], len(ids) > limit
            else:
                page, more = ids[:limit], len(ids) > limit
            return {
                "data": [self._view(self._batches[id], results_base) for id in page],
                "has_more": more,
                "first_id": page[0] if page else None,
                "last_id": page[-1] if page else None,
            }

    def cancel(self, id: str, results_base: str) -> Json:
        """Ask for the end of a batch; what has not been answered by then is cancelled."""
        with self._lock:
            batch = self._get(id)
            now = self._clock()
            if batch.cancelled is None and now < batch.ends:
                self._record(Cancelled(id, now, min(batch.ends, now + self._seconds * _CANCELLING)))
            return self._view(batch, results_base)

    def delete(self, id: str) -> Json:
        """Forget a batch that has ended."""
        with self._lock:
            batch = self._get(id)
            if self._clock() < batch.ends:
                raise invalid(f"Message Batch {id} is still being processed: cancel it first")
            self._record(Deleted(id))
            return {"id": id, "type": "message_batch_deleted"}

    def results(self, id: str) -> bytes:
        """Give the results of an ended batch, one JSON object a line."""
        with self._lock:
            batch = self._get(id)
            if self._clock() < batch.ends:
                raise Refusal("not_found_error", f"Message Batch {id} has no available results")
            return b"".join(self._run(batch))

    def _record(self, entry: Entry) -> None:
        self._file.add(entry)
        self._apply(entry)

    def _apply(self, entry: Entry) -> None:
        match entry:
            case Made(id, at, ends, requests):
                self._batches[id] = _Batch(id, requests, at, ends)
                self._made += 1
            case Cancelled(id, at, ends):
                self._batches[id].cancelled, self._batches[id].ends = at, ends
            case Deleted(id):
                del self._batches[id]

    def _get(self, id: str) -> _Batch:
        try:
            return self._batches[id]
        except KeyError:
            raise Refusal("not_found_error", f"Message Batch {id} was not found") from None

    def _run(self, batch: _Batch) -> list[bytes]:
        """Answer all items, once."""
        if batch.results is not None:
            return batch.results
        lines: list[bytes] = []
        counts = dict.fromkeys(("succeeded", "errored", "canceled", "expired"), 0)
        for item in batch.requests:
            result = {"type": "canceled"} if batch.cancelled is not None else self._answer(item["params"])
            # An item that gets lost was processed all the same: the counts do not tell.
            counts[result["type"] if result is not None else "succeeded"] += 1
            if result is not None:
                lines.append(encode({"custom_id": item["custom_id"], "result": result}) + b"\n")
        if self._rules.results == "reversed":
            lines.reverse()
        elif self._rules.results == "shuffled":
            random.Random(batch.id).shuffle(lines)
        batch.results, batch.counts = lines, counts
        return lines

    def _view(self, batch: _Batch, results_base: str) -> Json:
        ended = self._clock() >= batch.ends
        if ended:
            self._run(batch)
        counts: dict[str, Any] = dict.fromkeys(("succeeded", "errored", "canceled", "expired"), 0)
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": "ended"
            if ended
            else "canceling"
            if batch.cancelled is not None
            else "in_progress",
            # All but `processing` stay 0 until the whole batch has ended; so it is upstream.
            "request_counts": counts | {"processing": 0 if ended else len(batch.requests)} | batch.counts,
            "created_at": _moment(batch.created),
            "expires_at": _moment(batch.created + _DAY),
            "ended_at": _moment(batch.ends) if ended else None,
            "cancel_initiated_at": None if batch.cancelled is None else _moment(batch.cancelled),
            "archived_at": None,
            "results_url": f"{results_base}/v1/messages/batches/{batch.id}/results" if ended else None,
        }


def _place(ids: list[str], id: str) -> int:
    try:
        return ids.index(id)
    except ValueError:
        raise Refusal("not_found_error", f"Message Batch {id} was not found") from None


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
