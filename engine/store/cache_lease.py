"""One computes a result for all processes: who holds the lease on a key, and how it is kept or handed on."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from functools import partial

from engine.store import cache_table as table
from engine.store.cache_file import CacheFile
from engine.store.database import DatabaseError
from engine.store.owner import Owner


class ComputeLease:
    """The right to compute the result named by a digest. `seconds` is how long its holder may be silent.

    Where the file cannot be used it is always granted: nobody else could see what we compute.
    """

    def __init__(
        self, file: CacheFile, name: bytes, *, owner: Owner, seconds: float, clock: Callable[[], float]
    ) -> None:
        self._file = file
        self._name = name
        self._owner = owner
        self._seconds = seconds
        self._clock = clock
        self._holder = uuid.uuid4().hex

    async def take(self) -> bool:
        """Take the lease, or renew it; False while somebody else who may be alive holds it."""
        database = self._file.writable()
        if database is None:
            return True
        now = self._clock()
        take = partial(
            table.take_lease,
            key=self._name,
            holder=self._holder,
            owner=self._owner,
            now=now,
            until=now + self._seconds,
        )
        try:
            return await database.write(take)
        except DatabaseError as error:
            self._file.note_failure(error, database)
            return True

    async def keep(self) -> None:
        """Renew the lease until cancelled."""
        while True:
            await asyncio.sleep(self._seconds / 3)
            await self.take()

    def drop(self) -> None:
        """Let the next one have it."""
        database = self._file.writable()
        if database is not None:
            database.submit(lambda c: table.drop_lease(c, self._name, self._holder))
