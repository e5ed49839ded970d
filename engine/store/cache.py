"""Results that were paid for once: answers and verifications, kept across runs and shared by processes.

    cache = ResultCache(folder / "cache.db", max_entries=100_000)
    async def compute() -> Computed: ...
    value, hit = await cache.get_or_compute(CacheKey("judge", "T1", digest(request), model), compute)

A cache must never stop a run: where the file cannot be used, every look-up is a miss, nothing is stored, and
`stats().disabled` says why. Only bytes that `compute` returned are stored; what it raises is passed on and forgotten.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from engine.figures import ResultCacheFigures
from engine.store import cache_table as table
from engine.store.cache_file import CacheFile
from engine.store.cache_key import CacheKey, Json, digest
from engine.store.cache_lease import ComputeLease
from engine.store.cache_table import CacheEntry, Counters
from engine.store.database import Connection, DatabaseError
from engine.store.owner import Owner

__all__ = ["CacheEntry", "CacheKey", "CacheStats", "Computed", "Json", "ResultCache", "digest"]

WAIT = 0.02
"""Seconds between looks at a result that another process computes."""


@dataclass(frozen=True, slots=True)
class Computed:
    """A fresh result and what it cost, which is what each later hit saves."""

    value: bytes
    tokens: int = 0
    usd: float = 0.0


class CacheStats(ResultCacheFigures, frozen=True):
    """The figures, with the limits. `damaged` counts entries that were not what was stored, and are gone."""

    max_entries: int = 0
    max_bytes: int = 0
    damaged: int = 0


class ResultCache:
    """The cache over one file. Close it when done.

    `ttl` is how long an entry may be used, in seconds (None: for ever); `max_bytes` counts values. The entry that was
    not used for longest goes first. `lease` is how long (seconds) a process that computes a result may be silent before
    another takes over. `clock` gives seconds since the epoch.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_entries: int = 100_000,
        max_bytes: int = 1 << 30,
        ttl: float | None = None,
        lease: float = 30.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._file = CacheFile(path, clock)
        self._limits = table.Limits(max_entries, max_bytes)
        self._ttl = ttl
        self._lease = lease
        self._clock = clock
        self._owner = Owner.of_this_process()
        self._last_miss = ""
        self._lock = threading.Lock()
        self._arriving: dict[bytes, Computed] = {}
        self._flights: dict[bytes, asyncio.Future[Computed]] = {}

    @property
    def set_aside(self) -> Path | None:
        """Where a damaged file went that this cache replaced, or None."""
        return self._file.set_aside

    # Looking up and storing

    def get(self, key: CacheKey) -> bytes | None:
        """The stored value, or None. Counts as a hit or a miss, and as a use."""
        found = self._find(key)
        if found is None:
            self._count_miss(key)
            return None
        self._count_hit(found)
        return found.value

    def set(self, key: CacheKey, value: bytes, *, tokens: int = 0, usd: float = 0.0) -> Future[bool]:
        """Store a value. It can be read at once; the future resolves when it is committed.

        The result is False when it could not be stored: too big for the cache, or the file cannot be written (then
        `stats().disabled` says why). `tokens` and `usd` are what a later hit saves.
        """
        if not isinstance(value, bytes):
            raise TypeError(f"only bytes can be cached, not {type(value).__name__}")
        done: Future[bool] = Future()
        database = self._file.writable()
        if database is None or len(value) > self._limits.max_bytes or self._limits.max_entries < 1:
            done.set_result(False)
            return done
        now = self._clock()
        name, arriving = key.digest, Computed(value, tokens, usd)
        expires = None if self._ttl is None else now + self._ttl
        with self._lock:
            self._arriving[name] = arriving
        new = table.NewEntry(key, value, now, expires, self._file.next_use(), tokens, usd)
        write = self._file.submit(database, lambda c: table.store(c, new, self._limits))

        def finish(written: Future[Counters]) -> None:
            with self._lock:
                if self._arriving.get(name) is arriving:
                    del self._arriving[name]
            done.set_result(written.exception() is None)

        write.add_done_callback(finish)
        return done

    async def put(self, key: CacheKey, value: bytes, *, tokens: int = 0, usd: float = 0.0) -> bool:
        """`set`, and wait until it is committed."""
        return await asyncio.wrap_future(self.set(key, value, tokens=tokens, usd=usd))

    async def get_or_compute(
        self, key: CacheKey, compute: Callable[[], Awaitable[Computed]]
    ) -> tuple[bytes, bool]:
        """The stored value, or the one that `compute` makes; and whether it was a hit.

        Those who ask for the same key meanwhile, in this process or another, wait for the one who computes, and count
        as hits. Its error is also theirs, and is not stored; when it is cancelled, or its process dies, the next of
        them computes. A value is committed before it is given back. Call it from one event loop.
        """
        name = key.digest
        while (flight := self._flights.get(name)) is not None:
            try:
                found = await asyncio.shield(flight)
            except asyncio.CancelledError:
                if not flight.cancelled() or _this_task_is_cancelled():
                    raise
                continue
            self._count_hit(found)
            return found.value, True
        flight = self._flights[name] = asyncio.get_running_loop().create_future()
        try:
            found, hit = await self._find_or_compute(key, compute)
            flight.set_result(found)
        except asyncio.CancelledError:
            flight.cancel()
            raise
        except BaseException as error:
            flight.set_exception(error)
            flight.exception()  # If nobody waits, asyncio must not complain that it was never retrieved.
            raise
        finally:
            del self._flights[name]
        return found.value, hit

    async def _find_or_compute(
        self, key: CacheKey, compute: Callable[[], Awaitable[Computed]]
    ) -> tuple[Computed, bool]:
        lease = ComputeLease(
            self._file, key.digest, owner=self._owner, seconds=self._lease, clock=self._clock
        )
        while True:
            found = self._find(key)
            if found is not None:
                self._count_hit(found)
                return found, True
            try:
                if await lease.take():
                    break
            except asyncio.CancelledError:
                lease.drop()  # it may be taken all the same
                raise
            await asyncio.sleep(WAIT)
        # Another process may have stored it between our look and our lease.
        found = self._find(key)
        if found is not None:
            lease.drop()
            self._count_hit(found)
            return found, True
        self._count_miss(key)
        renewing = asyncio.create_task(lease.keep())
        try:
            computed = await compute()
            stored = self.set(key, computed.value, tokens=computed.tokens, usd=computed.usd)
        finally:
            renewing.cancel()
            lease.drop()
        await asyncio.wrap_future(stored)
        return computed, False

    # What is in it

    def stats(self) -> CacheStats:
        """What is stored now, and what this process did with it."""
        return self._stats(lifetime=False)

    def lifetime_stats(self) -> CacheStats:
        """What is stored now, and what all processes did with it since the file was begun."""
        return self._stats(lifetime=True)

    def entries(
        self,
        *,
        activity: str | None = None,
        task: str | None = None,
        model: str | None = None,
        limit: int = 100,
    ) -> tuple[CacheEntry, ...]:
        """What matches all that is given, last used first."""
        return self._file.usable().read(
            lambda c: table.entries(c, activity=activity, task=task, model=model, limit=limit)
        )

    def invalidate(self, key: CacheKey) -> int:
        """Forget one result; gives how many there were. This and the next three block, and raise StoreError."""
        return self._remove(lambda c: table.remove(c, key=key.digest))

    def invalidate_activity(self, activity: str) -> int:
        """Forget all results of an activity; gives how many there were."""
        return self._remove(lambda c: table.remove(c, activity=activity))

    def invalidate_task(self, task: str) -> int:
        """Forget all results of a task; gives how many there were."""
        return self._remove(lambda c: table.remove(c, task=task))

    def clear(self) -> int:
        """Forget everything; gives how many there were."""
        return self._remove(table.remove)

    def close(self) -> None:
        """Write what is left and close the file. Safe to call twice."""
        self._file.close()

    def _find(self, key: CacheKey) -> Computed | None:
        name = key.digest
        with self._lock:
            arriving = self._arriving.get(name)
        if arriving is not None:
            return arriving
        try:
            database = self._file.usable()
        except DatabaseError:
            return None
        try:
            found = database.read(lambda c: table.find(c, name))
        except DatabaseError as error:
            self._file.note_failure(error, database)
            return None
        if found is None:
            return None
        now = self._clock()
        if not found.whole:
            self._file.submit(database, lambda c: table.remove_damaged(c, found.id))
            return None
        if found.expires is not None and found.expires <= now:
            self._file.submit(database, lambda c: table.remove_expired(c, found.id, now))
            return None
        self._file.note_use(found.id)
        return Computed(found.value, found.tokens, found.usd)

    def _remove(self, fn: Callable[[Connection], int]) -> int:
        return self._file.usable().submit(fn).result()

    def _count_hit(self, found: Computed) -> None:
        self._file.count(Counters(hits=1, tokens_saved=found.tokens, usd_saved=found.usd))

    def _count_miss(self, key: CacheKey) -> None:
        self._file.count(Counters(misses=1))
        why = self._file.read(lambda c: table.why_missing(c, key))
        if why is not None:
            self._last_miss = why

    def _stats(self, *, lifetime: bool) -> CacheStats:
        entries, size, counters = self._file.figures(lifetime=lifetime)
        return CacheStats(
            entries=entries,
            bytes=size,
            hits=counters.hits,
            misses=counters.misses,
            evictions=counters.evictions,
            expirations=counters.expirations,
            damaged=counters.damaged,
            tokens_saved=counters.tokens_saved,
            usd_saved=counters.usd_saved,
            last_miss=self._last_miss,
            disabled=self._file.disabled,
            max_entries=self._limits.max_entries,
            max_bytes=self._limits.max_bytes,
        )


def _this_task_is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
