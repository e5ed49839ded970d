"""Following runs from another process: `watch`, `replay`, `status`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import msgspec

from engine.errors import StoreError
from engine.events import AnyEvent, AttemptStarted, CycleStarted, TaskLanded, decode
from engine.store import run_log
from engine.store.database import ReadOnlyDatabase
from engine.store.run_log import RunRow

_DONE = tuple(
    b'{"event":"%s"' % str(kind.__struct_config__.tag).encode()
    for kind in (AttemptStarted, TaskLanded, CycleStarted)
)
"""What an event begins with that tells of work; a cycle is opened only after much of it."""


class JournalReader:
    """The reading side, for another process: `watch`, `replay`, `status`. Works where nothing can be written.

    Poll `changed()` (7 µs) about every 20 ms and call `poll` when it says so. Raises DatabaseError without a journal.
    """

    def __init__(self, path: Path, archive: Path) -> None:
        self._database = ReadOnlyDatabase(path)
        self._archive = archive
        self._version = -1
        self._did: dict[tuple[str, float], bool] = {}  # by run and end: it may be taken up again

    def changed(self) -> bool:
        """Whether anything was committed since the last call; True at first."""
        before, self._version = self._version, self._database.data_version()
        return self._version != before

    def poll(self, run: str, after_seq: int, *, limit: int = 10_000) -> list[tuple[int, AnyEvent]]:
        """The next events after one, at most `limit`; also those that have moved to the archive meanwhile."""
        payloads = run_log.read_payloads(self._database.read_consistent, self._archive, run, after_seq)
        return list(islice(decoded(payloads), limit))

    def runs(self, board: str | None = None) -> tuple[RunRow, ...]:
        """All runs, or those of a board, newest first."""
        return self._database.read(lambda c: run_log.find_runs(c, board))

    def run(self, run: str) -> RunRow | None:
        """One run, or None."""
        return self._database.read(lambda c: run_log.find_run(c, run))

    def settled(self, row: RunRow, now: float) -> RunRow:
        """The row, read once more where its process is gone: it may have told its end since the row was read."""
        if row.ended is None and not row.is_alive(now):
            return self.run(row.run) or row
        return row

    def latest_run(self, board: str | None = None) -> RunRow | None:
        """The run that was started last, or None."""
        return next(iter(self.runs(board)), None)

    def shown_run(self, now: float) -> RunRow | None:
        """The run that somebody wants to see who names none: the newest at work, else the newest that did anything.

        One that ended without an attempt, since nothing was left to do, shows less than the one before it.
        """
        runs = self.runs()
        at_work = next((row for row in runs if row.is_alive(now)), None)
        return at_work or next((row for row in runs if self.did_anything(row)), next(iter(runs), None))

    def did_anything(self, row: RunRow) -> bool:
        """Whether a task was worked on in the run, or it has not ended yet."""
        if row.ended is None:
            return True
        ended = row.run, row.ended
        if ended not in self._did:
            payloads = run_log.read_payloads(
                self._database.read_consistent, self._archive, row.run, row.resume_after
            )
            self._did[ended] = any(payload.startswith(_DONE) for _, payload in payloads)
        return self._did[ended]

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def decoded(payloads: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, AnyEvent]]:
    """The events themselves. Raises StoreError for one that this version does not know."""
    for seq, payload in payloads:
        try:
            yield seq, decode(payload)
        except msgspec.ValidationError as error:
            raise StoreError(
                f"event {seq} is of another version of Taskyard: {error}", "upgrade Taskyard"
            ) from error
