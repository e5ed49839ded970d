"""What has landed on the target meanwhile, told by the merges that are there.

Leases and tokens keep two orchestrators from working on one task; but git cannot check a token, and a push that was
held up may arrive late. So the target itself is asked: a task that was landed there, by a commit that ours does not
build on, has been done by somebody else. Or by a train of this very run, whose passenger had lost its claim meanwhile
and is at work on the task once more.
"""

from __future__ import annotations

from collections.abc import Collection

from engine.git.combine import trailers_of
from engine.git.repository import Repository

_FORMAT = f"--format=%P%x00{trailers_of('Taskyard-Task', 'Taskyard-Board')}"


class ForeignLandings:
    """Follows the target of one repository, for the tasks of one `board` (its path)."""

    def __init__(self, repository: Repository, board: str) -> None:
        self._repository = repository
        self._board = board
        self._seen: str | None = None
        self._commits: dict[str, str] = {}

    async def begin(
        self, upstream: str | None, *, since: str | None = None, anew: Collection[str] = ()
    ) -> None:
        """Take what is on the target now as given, or what the commit `since` holds.

        What has landed after that is known then, but for the tasks that are to be done `anew`.
        """
        self._seen = since or upstream
        await self.look(upstream)
        for task in anew:
            self._commits.pop(task, None)

    async def look(self, upstream: str | None) -> None:
        """Read what the target's new tip has brought."""
        if upstream is None or upstream == self._seen:
            return
        beyond = ("--not", self._seen) if self._seen is not None else ()
        log = await self._repository.run(
            "log", "--first-parent", "--merges", "--reverse", _FORMAT, upstream, *beyond
        )
        for line in log.stdout.splitlines():
            parents, task, board = line.split("\0")
            if task and board == self._board:
                self._commits[task] = parents.split(" ")[1]
        self._seen = upstream

    async def commit_of(self, task_id: str, *, ours: str | None = None) -> str | None:
        """Give the commit by which the task has landed; None when it has not, or `ours` builds on that."""
        commit = self._commits.get(task_id)
        if commit is None or ours is None:
            return commit
        if commit == ours or await self._repository.is_ancestor(commit, ours):
            return None
        return commit
