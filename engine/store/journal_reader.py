"""Following runs from another process: `watch`, `replay`, `status`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import msgspec

from engine.errors import StoreError
from engine.events import AnyEvent, decode
from engine.store import run_log
from engine.store.database import ReadOnlyDatabase
from engine.store.run_log import RunRow


class JournalReader:
    """The reading side, for another process: `watch`, `replay`, `status`. Works where nothing can be written.

    Poll `changed()` (7 µs) about every 20 ms and call `poll` when it says so. Raises DatabaseError without a journal.
    """

    def __init__(self, path: Path, archive: Path) -> None:
        self._database = ReadOnlyDatabase(path)
        self._archive = archive
        self._version = -1

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

    def latest_run(self, board: str | None = None) -> RunRow | None:
        """The run that was started last, or None."""
        return next(iter(self.runs(board)), None)

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
