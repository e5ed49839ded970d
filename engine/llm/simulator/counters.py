"""What reached the server and what came of it, counted where nobody can argue with it."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter, deque
from typing import Any

import msgspec

from engine.llm.simulator.wire import Json

LOGGED = 100_000
"""How many model calls the log keeps, the newest; the counts have all."""

_NOT_IN_DIGEST = frozenset({"stream", "metadata"})


class Stats(msgspec.Struct, frozen=True):
    """The counts at one moment.

    requests       by method and path (ids replaced by `{id}`)
    statuses       by HTTP status of the answer; `0` for connections closed without one
    calls          model calls by "role task attempt", batch items included, refused and faulty ones too
    answered       whole answers by digest of the call; more than 1 is a call that was paid for twice
    faults         by kind
    tokens         by the names of `usage`, over all whole answers
    batches        ids, oldest first
    batch_items    how many calls came in batches
    in_flight      model calls being answered now; `peak` the most there ever were
    abandoned      answers the client hung up on
    """

    requests: dict[str, int] = {}
    statuses: dict[str, int] = {}
    calls: dict[str, int] = {}
    answered: dict[str, int] = {}
    faults: dict[str, int] = {}
    tokens: dict[str, int] = {}
    batches: tuple[str, ...] = ()
    batch_items: int = 0
    in_flight: int = 0
    peak: int = 0
    abandoned: int = 0


class Logged(msgspec.Struct, frozen=True):
    """One model call as it arrived.

    `at` is by the simulator's clock; `arrival` counts earlier ones of the same digest; `fault` is empty when all went
    well. `paused` is how many seconds of the last `retry-after` of this model were still to run: a client that keeps
    the pause never sends such a call, but for those already under way when it was told. `request` is the id that the
    answer carries, empty for an item of a batch.
    """

    at: float
    model: str
    caller: str
    step: int
    digest: str
    arrival: int
    fault: str
    paused: float = 0.0
    request: str = ""


def digest_of(params: Json) -> str:
    """Name a call by everything that can change its answer; how it travels and where the cache cuts are left out."""
    kept = {name: value for name, value in params.items() if name not in _NOT_IN_DIGEST}
    return hashlib.sha256(msgspec.json.encode(_unmarked(kept), order="sorted")).hexdigest()


class Counters:
    """All counts of a server. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, Counter[str]] = {
            name: Counter() for name in ("requests", "statuses", "calls", "answered", "faults", "tokens")
        }
        self._arrivals: Counter[str] = Counter()
        self._batches: list[str] = []
        self._log: deque[Logged] = deque(maxlen=LOGGED)
        self._batch_items = self._in_flight = self._peak = self._abandoned = 0

    def count(self, what: str, name: str) -> None:
        """Add one to a named count (`what` is a field of `Stats`)."""
        with self._lock:
            self._counts[what][name] += 1

    def arrival(self, name: str) -> int:
        """Say how often this very thing has arrived before, and remember that it did again."""
        with self._lock:
            self._arrivals[name] += 1
            return self._arrivals[name] - 1

    def answered(self, digest: str, usage: Json, *, times: int = 1) -> None:
        """Note a whole answer; with -1, that it did not arrive after all."""
        with self._lock:
            self._counts["answered"][digest] += times
            for name, value in usage.items():
                if isinstance(value, int):
                    self._counts["tokens"][name] += times * value

    def logged(self, entry: Logged) -> None:
        """Note a model call."""
        with self._lock:
            self._log.append(entry)
            self._counts["calls"][entry.caller] += 1

    def batch(self, id: str, items: int) -> None:
        """Note a batch that exists from now on."""
        with self._lock:
            self._batches.append(id)
            self._batch_items += items

    def enter(self) -> int:
        """Begin to answer a model call; gives how many are being answered with it."""
        with self._lock:
            self._in_flight += 1
            self._peak = max(self._peak, self._in_flight)
            return self._in_flight

    def leave(self, *, abandoned: bool) -> None:
        """End a model call."""
        with self._lock:
            self._in_flight -= 1
            self._abandoned += abandoned

    @property
    def log(self) -> tuple[Logged, ...]:
        """Model calls in the order of their arrival, the newest `LOGGED` of them."""
        with self._lock:
            return tuple(self._log)

    def stats(self) -> Stats:
        """Give all counts."""
        with self._lock:
            counts: dict[str, Any] = {name: dict(+counter) for name, counter in self._counts.items()}
            return Stats(
                **counts,
                batches=tuple(self._batches),
                batch_items=self._batch_items,
                in_flight=self._in_flight,
                peak=self._peak,
                abandoned=self._abandoned,
            )


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _unmarked(item) for name, item in value.items() if name != "cache_control"}
    if isinstance(value, list):
        return [_unmarked(item) for item in value]
    return value
