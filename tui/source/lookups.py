"""What the screens look up beside the snapshot: diffs in git, lessons, and other runs.

All of it is awaited off the event loop.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from engine.errors import TaskyardError
from engine.events import Event
from engine.model import Change
from engine.task_view import TaskView
from tui.source.runs import Listing, Progress, Runs

if TYPE_CHECKING:
    from engine.llm.prices import PriceTable
    from engine.store.lessons.record import Lesson
    from engine.store.lessons.search import SearchResult


class LessonSearch(Protocol):
    """A store of lessons, as far as a screen needs it."""

    def search_typed(self, typed: str, limit: int) -> AsyncIterator[SearchResult]:
        """The lessons that match one typed line, best first; with an empty one the most frequent.

        What is found at once comes first, more of it after that, and last all of it. A later search ends an earlier
        one with CancelledError.
        """

    def get(self, id_: str) -> Lesson | None:
        """The lesson with this id. May block."""

    def close(self) -> None:
        """Close its files. May block."""


class Lookups:
    """Looks things up for one source.

    `open_lessons` opens the store when it is first needed, in a thread; `prices` is the user's own price file.
    """

    def __init__(
        self,
        open_lessons: Callable[[], LessonSearch] | None = None,
        runs: Runs | None = None,
        prices: Path | None = None,
    ) -> None:
        self._price_file = prices
        self._prices: PriceTable | None = None
        self._open_lessons = open_lessons
        self._runs = runs
        self._lessons: asyncio.Future[LessonSearch] | None = None

    def prices(self) -> PriceTable | None:
        """The table that calls are priced by today, read once; None where the user's own file cannot be read."""
        from engine.llm.prices import load_prices

        if self._prices is None:
            with suppress(TaskyardError):
                self._prices = load_prices(self._price_file)
        return self._prices

    @property
    def has_lessons(self) -> bool:
        """Whether lessons can be searched here."""
        return self._open_lessons is not None

    async def diff(self, repository: str, view: TaskView, change: Change | None) -> str:
        """The change as git tells it; without one, what the task's worktree differs by while it is being made.

        Raises GitError, or OSError, when the commit or the worktree is gone.
        """
        from engine.git.repository import Repository

        if change is not None:
            repo = await Repository.open(Path(repository), environ=os.environ)
            range_ = [change.base, change.commit]
        elif view.worktree and Path(view.worktree).is_dir():
            repo = await Repository.open(Path(view.worktree), environ=os.environ)
            range_ = [view.base] if view.base else ["HEAD"]
        else:
            return ""
        done = await repo.run("diff", "--no-color", "--no-ext-diff", "--find-renames", *range_, "--")
        return str(done.stdout)

    async def landed_in(self, repository: str, target: str, task_id: str) -> str:
        """The earlier run that landed the task, if it can be replayed here; else nothing."""
        from engine.git.landing_refs import landed_in
        from engine.git.repository import Repository

        if not self.has_runs or not Path(repository).is_dir():
            return ""
        with suppress(TaskyardError, OSError):
            repo = await Repository.open(Path(repository), environ=os.environ)
            run = await landed_in(repo, target, task_id)
            known = await self.list_runs() if run else Listing(0.0, ())
            return run if any(each.run == run for each in known.runs) else ""
        return ""

    async def search_lessons(self, typed: str, limit: int = 50) -> AsyncIterator[SearchResult]:
        """Search the lessons as typed: what is found at once, then more, and last all of it.

        The search that was begun last is the one that counts; it ends all others with CancelledError. Raises StoreError
        when the lessons cannot be read.
        """
        # What was typed first asks first: a thread for each keystroke would let the last one be overtaken.
        async for found in (await self._opened()).search_typed(typed, limit):
            yield found

    async def lesson(self, id_: str) -> Lesson | None:
        """The lesson with this id; None where there is none, or no store. Raises StoreError."""
        if not self.has_lessons:
            return None
        return await asyncio.to_thread((await self._opened()).get, id_)

    async def _opened(self) -> LessonSearch:
        opening = self._lessons
        if opening is None or (opening.done() and opening.exception() is not None):
            assert self._open_lessons is not None, "ask has_lessons first"
            opening = self._lessons = asyncio.ensure_future(asyncio.to_thread(self._open_lessons))
        return await asyncio.shield(opening)  # the next keystroke waits for the same store

    @property
    def has_runs(self) -> bool:
        """Whether the runs of a repository can be listed here."""
        return self._runs is not None

    async def list_runs(self) -> Listing:
        """All runs. Raises StoreError when the journal cannot be read."""
        return await asyncio.to_thread(self._known_runs.list)

    async def run_progress(self, run: str) -> Progress:
        """How far a run is. Raises StoreError when its events cannot be read."""
        return await asyncio.to_thread(self._known_runs.progress, run)

    async def run_events(self, run: str) -> tuple[Event, ...]:
        """All that happened in a run so far. Raises StoreError when it cannot be read."""
        return await asyncio.to_thread(self._known_runs.events, run)

    @property
    def _known_runs(self) -> Runs:
        assert self._runs is not None, "ask has_runs first"
        return self._runs

    async def close(self) -> None:
        """Close what was opened."""
        if self._runs is not None:
            await asyncio.to_thread(self._runs.close)
        opening, self._lessons = self._lessons, None
        # Where the dashboard ended while it was being opened, its loop has taken it back.
        if opening is not None and not opening.cancelled():
            with suppress(TaskyardError):
                await asyncio.to_thread((await opening).close)
