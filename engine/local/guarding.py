"""What programs that work in a worktree do to the repository beside it, put back or told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from engine.git.guarding import ConfigGuard, stashed
from engine.git.words import count_of
from engine.local.context import RunContext


class Guarding:
    """Surrounds the programs that a run starts: agents and checks."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._config = ConfigGuard(context.repository)

    @asynccontextmanager
    async def config(self, task_id: str) -> AsyncIterator[None]:
        """Put back what the work inside changes in the repository's config, and tell it."""
        await self._config.note()
        try:
            yield
        finally:
            changed = await self._config.restore()
            if changed:
                self._context.bus.notice(
                    "warning",
                    f".git/config was changed while {task_id} was worked on, and is put back: {', '.join(changed)}",
                    task_id,
                )

    @asynccontextmanager
    async def stashes(self, task_id: str) -> AsyncIterator[None]:
        """Tell what the work inside leaves in the stash, which is the user's too."""
        before = await stashed(self._context.repository, task_id)
        yield
        left = await stashed(self._context.repository, task_id) - before
        if left > 0:
            words = f"the agent left {count_of(left, 'stash')} among yours: see git stash list"
            self._context.bus.notice("warning", words, task_id)
