"""What an attempt changed, as one commit that says which task, in which words, and which run it is of."""

from __future__ import annotations

import re

from msgspec import UNSET
from msgspec.structs import replace

from engine.activities import Attempt
from engine.errors import GitError, StageFailedError
from engine.git.worktrees import Worktrees
from engine.local.attempts import Attempts
from engine.local.context import RunContext
from engine.model import MAX_SAID, Change
from engine.rows import words

LONGEST_TITLE = 100
"""Characters of a commit's title after the task's id; longer ones are cut off in every list of commits."""


class Committing:
    """Commits the worktrees of attempts."""

    def __init__(self, context: RunContext, worktrees: Worktrees, attempts: Attempts) -> None:
        self._context = context
        self._worktrees = worktrees
        self._attempts = attempts

    async def commit(self, attempt: Attempt, said: str, *, title: str = "", complaint: str = "") -> Change:
        """Commit all that is changed, with what the Implementer `said` of it, whose first line is the title if need be.

        Raises StageFailedError when git refuses, and when nothing is changed: `complaint` may say why.
        """
        task = attempt.task
        said = said.strip()
        summary = first_line(title) or first_line(said)
        title = f"{task.id}: {summary or first_line(task.scope)}"
        body = said if said != summary else ""
        try:
            change = await self._worktrees.commit(
                await self._attempts.worktree(attempt),
                f"{title}\n\n{body}" if body else title,
                {"Taskyard-Task": task.id, "Taskyard-Run": self._context.run, "Taskyard-Row": words(task)},
            )
        except GitError as error:
            raise StageFailedError(
                f"the change could not be committed: {error.message}",
                error.hint,
                failure_type="commit_refused",
                feedback=f"git refused the commit:\n{error.stderr or error.message}",
            ) from error
        if change is None:
            raise StageFailedError(
                complaint or "the attempt changed nothing",
                failure_type="command_failed" if complaint else "no_change",
                feedback=complaint or "The last attempt changed no file. The task needs a change.",
            )
        return replace(change, summary=summary, said=said[:MAX_SAID] or UNSET)


def first_line(text: str) -> str:
    """The first line that says something, fit for a title."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = re.sub(r"[\x00-\x1f\x7f]", "", line)
    return line if len(line) <= LONGEST_TITLE else f"{line[: LONGEST_TITLE - 3]}…"
