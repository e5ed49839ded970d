"""What programs that work in a worktree do to the repository beside it, put back or told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from engine.activities import Attempt
from engine.git.guarding import ConfigGuard, stashed
from engine.git.ref_guard import RefChange, RefGuard
from engine.git.words import count_of
from engine.local.context import RunContext


class Guarding:
    """Surrounds the programs that a run starts: agents and checks."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._config = ConfigGuard(context.repository)
        self._refs = RefGuard(context.repository)

    @asynccontextmanager
    async def repository(self, attempt: Attempt) -> AsyncIterator[None]:
        """Put back what the work inside changes in the repository's config, branches and tags, and tell it."""
        async with (
            self.refs(attempt),
            self.config(attempt.task.id),
        ):  # git has to work again before refs are read
            yield

    @asynccontextmanager
    async def refs(self, attempt: Attempt) -> AsyncIterator[None]:
        """Put back what the work inside changes of branches and tags that are not its own, and tell it."""
        work = await self._refs.begin(Path(attempt.worktree))
        try:
            yield
        finally:
            for change in await self._refs.end(work):
                self._context.bus.notice("warning", _told(change, attempt.task.id), attempt.task.id)

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


def _told(change: RefChange, task_id: str) -> str:
    kind, _, name = change.ref.removeprefix("refs/").partition("/")
    what = f"the {'tag' if kind == 'tags' else 'branch'} {name}"
    old, new = change.old[:10], change.new[:10]
    done = (
        f"moved from {old} to {new}"
        if old and new
        else f"made at {new}"
        if new
        else f"deleted, it was at {old}"
    )
    if change.put_back:
        end = "is put back" if old else "is removed"
        return f"{task_id} changed {what} ({done}): it {end}, and the commit stays under {change.kept}"
    back = f"git update-ref {change.ref} {old}" if old else f"git update-ref -d {change.ref}"
    return f"{what} was {done} while {task_id} was worked on; if that was not you: {back}"
