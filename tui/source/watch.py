"""A run of another process, followed through its journal. It is looked at, and never touched."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from engine.snapshot import Snapshot
from engine.state import RunState
from tui.source.lookups import Lookups
from tui.source.protocol import STALE_AFTER, Health, Mode

if TYPE_CHECKING:
    from engine.store.journal_reader import JournalReader
    from engine.store.run_log import RunRow

POLL_EVERY = 0.02
"""Seconds between two looks at the journal; each costs 7 µs."""

LOOK_EVERY = 0.5
"""Seconds between two looks at whether the run's process lives."""

RETRY_EVERY = 1.0
"""Seconds between two tries to open a journal that cannot be read."""

PUBLISH_EVERY = 0.05  # seconds between two pictures, as on the engine's own bus


class WatchSource:
    """Follows `run`, or the newest one when it is None, in a thread of its own.

    When the journal cannot be read it says so and tries again, and goes on from where it was.
    """

    mode: Mode = "WATCH"
    control = None
    playback = None
    error: BaseException | None = None

    def __init__(
        self,
        state_db: Path,
        archive: Path,
        run: str | None = None,
        *,
        lookups: Lookups | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._state_db = state_db
        self._archive = archive
        self._wanted = run
        self._clock = clock
        self._state = RunState()
        self._run = ""
        self._seq = 0
        self._snapshot = self._state.snapshot()
        self._beat = clock()
        self._row: RunRow | None = None
        self._problem = "opening the journal"
        self._alive = True
        self._alive_until = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="watch", daemon=True)
        self.lookups = lookups or Lookups()

    @property
    def choice(self) -> WatchSource:
        """Itself: it goes from run to run."""
        return self

    def choose(self, run: str) -> None:
        """Follow this run from now on."""
        self._wanted = run

    def start(self) -> None:
        """Start to follow."""
        self._thread.start()

    async def stop(self) -> None:
        """Stop following, and close the journal."""
        self._stop.set()
        if self._thread.ident is not None:
            await asyncio.to_thread(self._thread.join, 5.0)
        await self.lookups.close()

    def latest(self) -> Snapshot:
        """The newest state that was read."""
        return self._snapshot

    def now(self) -> float:
        """The time."""
        return self._clock()

    def health(self) -> Health:
        """Whether the run's process lives, and how long it has been silent."""
        if self._problem:
            return Health(True, self._silence(), self._problem)
        if not self._alive:
            words = "the run has died; take it up with: taskyard run"
            return Health(False, self._silence(), words, self._alive_until)
        silence = self._silence()
        return Health(True, silence, f"stale {silence:.0f} s" if silence >= STALE_AFTER else "")

    def _silence(self) -> float:
        if self._snapshot.run.finished is not None:
            return 0.0
        return max(0.0, self._clock() - self._beat)

    def _follow(self) -> None:
        from engine.errors import TaskyardError
        from engine.store.connection import identity_of
        from engine.store.journal_reader import JournalReader

        while not self._stop.is_set():
            try:
                born = identity_of(self._state_db)
                reader = JournalReader(self._state_db, self._archive)
                try:
                    self._read(reader, lambda: identity_of(self._state_db) != born)  # noqa: B023
                finally:
                    reader.close()
            except (TaskyardError, OSError) as error:
                self._problem = f"the journal cannot be read ({error}); trying again"
                self._stop.wait(RETRY_EVERY)

    def _read(self, reader: JournalReader, replaced: Callable[[], bool]) -> None:
        """Follow until somebody stops that, or the journal is another file: the one that is open tells of no more."""
        looked = published = float("-inf")
        wanted, pending = self._wanted, False
        while not self._stop.is_set():
            now = time.monotonic()
            changed = reader.changed()
            if changed or self._wanted != wanted or now - looked >= LOOK_EVERY:
                looked, wanted = now, self._wanted
                if replaced():
                    self._row = None  # the runs of another journal have numbers of their own
                    return
                changed = self._look(reader, wanted) or changed
            if changed:
                pending = self._take(reader) or pending
            if pending and now - published >= PUBLISH_EVERY:
                self._snapshot, pending, published = self._state.snapshot(), False, now
            self._stop.wait(POLL_EVERY)

    def _look(self, reader: JournalReader, wanted: str | None) -> bool:
        """See how the run is that is to be followed; gives whether it is another one than before."""
        row = reader.run(wanted) if wanted else self._newest(reader)
        if row is None:
            self._problem = f"waiting for {f'run {wanted}' if wanted else 'a run'} to begin"
            return False
        self._problem = ""
        now = self._clock()
        row = reader.settled(row, now)
        another = row.run != self._run
        if another:
            self._run, self._seq, self._state = row.run, row.resume_after, RunState()
        self._row = row
        self._beat = max(row.beat, self._state.at)
        alive = row.ended is not None or row.is_alive(now)
        if another or alive or self._alive:
            # One that dies while it is watched stands still as it was shown last: its clock does not go back.
            self._alive_until = self._beat if another else now
        self._alive = alive
        return another

    def _newest(self, reader: JournalReader) -> RunRow | None:
        """The run to follow where nobody named one: not an older one than before, whatever is still at work."""
        row = reader.shown_run(self._clock())
        before = self._row
        if row is not None and before is not None and row.number < before.number:
            return reader.run(before.run)
        return row

    def _take(self, reader: JournalReader) -> bool:
        """Apply what is new; gives whether there was anything."""
        took = False
        while self._run and (page := reader.poll(self._run, self._seq)):
            for seq, event in page:
                self._state.apply(event)
                self._seq = seq
            took = True
        return took
