"""Reading the history: what is live, and the figures, also where nothing may be written.

reader = HistoryReader(ReadOnlyDatabase(state / "state.db"), PrunePolicy(archive_dir=state / "archive"))
reader.recent(20), reader.stats()
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.model import TaskState
from engine.store import history_table as table
from engine.store.database import Database, ReadOnlyDatabase
from engine.store.history_archive import TaskHistory
from engine.store.history_figures import HistoryStats, MemoryInfo, read_memory, read_stats


@dataclass(frozen=True, slots=True)
class PrunePolicy:
    """The limits of the live table: bytes of its entries, age in seconds since their end, and their number.

    Pruning starts at the share `start` of any limit and goes on to the share `stop`.
    """

    archive_dir: Path
    max_bytes: int = 100 * 10**6
    max_age: float = 24 * 3600.0
    max_entries: int = 1000
    start: float = 0.9
    stop: float = 0.8


class HistoryReader:
    """The live entries and the figures. Every method may be called from any thread, and sees what is committed."""

    def __init__(self, source: Database | ReadOnlyDatabase, policy: PrunePolicy) -> None:
        self.policy = policy
        self._source = source
        self._problem = ""

    def get(self, id: str) -> TaskHistory | None:
        """A live entry, or None."""
        return self._source.read(lambda c: table.find(c, id))

    def recent(self, limit: int = 50) -> tuple[TaskHistory, ...]:
        """Live entries, started last first."""
        return self.find(limit=limit)

    def by_status(self, status: TaskState, limit: int = 50) -> tuple[TaskHistory, ...]:
        """Live entries of a status, started last first."""
        return self.find(status=status, limit=limit)

    def between(self, start: float, end: float, limit: int = 50) -> tuple[TaskHistory, ...]:
        """Live entries that started at `start` or later and before `end`, started last first."""
        return self.find(since=start, until=end, limit=limit)

    def find(
        self,
        *,
        status: TaskState | None = None,
        run: str | None = None,
        task: str | None = None,
        since: float | None = None,
        until: float | None = None,
        limit: int = 50,
    ) -> tuple[TaskHistory, ...]:
        """Live entries that match all that is given, started last first."""
        given = {
            "status = ?": status,
            "run = ?": run,
            "task = ?": task,
            "started >= ?": since,
            "started < ?": until,
        }
        clauses = {clause: value for clause, value in given.items() if value is not None}
        where = " AND ".join(clauses) or "true"
        return self._source.read(lambda c: table.select(c, where, tuple(clauses.values()), limit))

    def stats(self) -> HistoryStats:
        """The figures of the table and the archive."""
        policy = self.policy
        return self._source.read_consistent(
            lambda c: read_stats(c, policy.max_entries, policy.max_bytes, policy.max_age, self._problem)
        )

    def memory_info(self) -> MemoryInfo:
        """What the history takes now, in bytes."""
        return self._source.read_consistent(lambda c: read_memory(c, self._source.path))
