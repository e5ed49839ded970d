"""The history of executions: the newest in a live table of bounded size, the older ones in an archive.

    history = HistoryPruner(database, PrunePolicy(archive_dir=folder / "archive"))
    history.add(TaskHistory(id="r1/T1/1", run="r1", task="T1", status=TaskState.RUNNING, started=now))
    history.update("r1/T1/1", status=TaskState.LANDED, ended=later)
    history.recent(20), history.stats(), history.archive.search("timeout")

When the table reaches 90 % of a limit, what ended first is archived and leaves, down to 80 %. What still runs never
leaves, nor does what ended last. An entry is in the table or in the archive, never in both and never in neither,
whatever crashes.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import cast

import msgspec

from engine.errors import StoreError
from engine.model import TaskState
from engine.store import history_table as table
from engine.store.database import Connection, Database, DatabaseError
from engine.store.history_archive import HistoryArchive, HistorySegment, Taken, TaskHistory
from engine.store.history_figures import HistoryStats, MemoryInfo, file_size
from engine.store.history_reader import HistoryReader, PrunePolicy

__all__ = [
    "HistoryPruner",
    "HistoryReader",
    "HistorySegment",
    "HistoryStats",
    "MemoryInfo",
    "PrunePolicy",
    "PruneResult",
    "Taken",
    "TaskHistory",
]

MOST_IN_SEGMENT = 5000
"""Entries that one transaction archives."""

RETRY_AFTER = 60.0
"""Seconds after a failed archiving before adding an entry tries it again."""


class PruneResult(msgspec.Struct, frozen=True):
    """What one pruning did. `bytes` counts the entries as they were in the live table."""

    entries: int = 0
    bytes: int = 0
    segments: int = 0


class HistoryPruner(HistoryReader):
    """The history in `state.db`. Every method may be called from any thread; reading ones see what is committed.

    `clock` gives seconds since the epoch. Opening it settles what a crash in the middle of a pruning left behind.
    """

    def __init__(
        self, database: Database, policy: PrunePolicy, *, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(database, policy)
        self.archive = HistoryArchive(policy.archive_dir)
        self._database = database
        self._clock = clock
        self._retry_at = 0.0
        self._pruning = False
        database.submit(self._settle).result()

    def add(self, entry: TaskHistory) -> Future[None]:
        """Add an execution; the future resolves when it is committed. Prunes afterwards when a limit is near.

        Raises StoreError, through the future, when the table has an entry of this id.
        """
        added = self._database.submit(lambda c: table.insert(c, entry))
        added.add_done_callback(lambda _: self._prune_if_due())
        return added

    def update(self, id: str, /, **changes: object) -> Future[TaskHistory]:
        """Change fields of a live entry by name; gives the new entry once it is committed.

        Raises StoreError, through the future, for an unknown field, a value of the wrong type, or an entry that is not
        there (any more); nothing is changed then.
        """

        def change(connection: Connection) -> TaskHistory:
            old = table.find(connection, id)
            if old is None:
                raise StoreError(f"the history has no live entry {id}", "archived entries cannot be changed")
            entry = table.changed(old, changes)
            table.replace(connection, entry)
            return entry

        return self._database.submit(change)

    def end_run(self, run: str, at: float, reason: str) -> Future[int]:
        """End what a run left running as cancelled, so that it can leave the table some day; gives how many.

        Not for a run that will be taken up again: what it left running goes on then.
        """

        def end(connection: Connection) -> int:
            running = table.select(connection, "run = ? AND ended IS NULL", (run,), -1)
            for entry in running:
                ended = msgspec.structs.replace(entry, status=TaskState.CANCELLED, ended=at, reason=reason)
                table.replace(connection, ended)
            return len(running)

        return self._database.submit(end)

    def prune(self) -> PruneResult:
        """Archive what is due now, all of it; blocks. Raises StoreError when the archive cannot be written."""
        entries = size = segments = 0
        while True:
            try:
                done = self._database.submit(self._prune_once).result()
            except StoreError as error:
                self._note_problem(error)
                raise
            self._problem = ""
            if not done.entries:
                return PruneResult(entries, size, segments)
            entries += done.entries
            size += done.bytes
            segments += done.segments

    # Pruning

    def _prune_if_due(self) -> None:
        if self._pruning or self._clock() < self._retry_at:
            return
        self._pruning = True

        def finish(pruned: Future[PruneResult]) -> None:
            self._pruning = False
            error = pruned.exception()
            if error is None:
                self._problem = ""
            else:
                self._note_problem(error)

        with contextlib.suppress(DatabaseError):  # Closed meanwhile: the next process prunes.
            self._database.submit(self._prune_once).add_done_callback(finish)

    def _prune_once(self, connection: Connection) -> PruneResult:
        """Archive and delete what is due, at most one segment; the caller's transaction makes it one step."""
        victims = self._victims(connection)
        if not victims:
            return PruneResult()
        self._settle(connection)
        number = table.totals(connection).segment + 1
        # Written before the rows go. Should the COMMIT fail, `_settle` finds the segment, and all its rows alive.
        size = self.archive.write(
            number, [victim.entry for victim in victims], victims[0].ended, victims[-1].ended
        )
        table.remove(connection, victims, number, size)
        return PruneResult(len(victims), sum(victim.size for victim in victims), 1)

    def _victims(self, connection: Connection) -> list[table.Victim]:
        """What must go now, oldest first: all that is over the stop share once anything is over the start share."""
        policy, totals, now = self.policy, table.totals(connection), self._clock()
        oldest = connection.execute("SELECT min(ended) FROM history WHERE ended IS NOT NULL").get
        too_old = oldest is not None and cast("float", oldest) < now - policy.max_age
        start, stop = policy.start, policy.stop
        if (
            not too_old
            and totals.entries <= start * policy.max_entries
            and totals.bytes <= start * policy.max_bytes
        ):
            return []
        entries, size = totals.entries, totals.bytes
        victims: list[table.Victim] = []
        # Of those asked for, the last is left out: it ended after the others, and at the end it is the newest of all.
        for victim in table.oldest_ended(connection, MOST_IN_SEGMENT + 1)[:-1]:
            # By age, a little more than must go: else each entry would leave by itself, in a segment of its own.
            aged = too_old and victim.ended < now - start * policy.max_age
            if not aged and entries <= stop * policy.max_entries and size <= stop * policy.max_bytes:
                break
            victims.append(victim)
            entries -= 1
            size -= victim.size
        return victims

    def _settle(self, connection: Connection) -> None:
        """Bring the archive and the table together again after a crash, or after the database was lost.

        A segment that the database does not know of is removed when all its entries are live (its pruning never
        committed); otherwise it is the only place of some, and is adopted.
        """
        self.archive.remove_unfinished()
        known = table.totals(connection).segment
        for number in self.archive.numbers():
            if number <= known:
                continue
            lines = list(self.archive.lines(number))
            if all(table.is_live(connection, line) for line in lines):
                self.archive.remove(number)
            else:
                table.adopt(connection, lines, number, file_size(self.archive.path(number)))

    def _note_problem(self, error: BaseException) -> None:
        self._problem = str(error)
        self._retry_at = self._clock() + RETRY_AFTER
