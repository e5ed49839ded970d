"""The parts of one open run, and what they do as a whole: work in the background, recover, end, and close."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Coroutine
from dataclasses import dataclass

from engine.batch_events import manifests
from engine.bus import Bus
from engine.gauges import Gauges
from engine.git.cargo import Landed
from engine.git.train import Train
from engine.git.worktrees import Worktrees
from engine.landing import Lander
from engine.llm.batches import LLMBatcher
from engine.llm.client import ModelClient
from engine.local import LocalActivities
from engine.model import TaskState
from engine.outcomes import Outcomes
from engine.process import end_strays
from engine.recorder import HistoryRecorder, JournalSink
from engine.recovery import waiting
from engine.roles.prompt_library import PromptLibrary
from engine.sharing import Share
from engine.store.cache import ResultCache
from engine.store.database import Database
from engine.store.journal import Journal
from engine.store.lessons import LessonStore

BEAT_EVERY = 1.0
"""Seconds between two signs of life in the journal, by which others tell a run at work from a dead one."""

MEASURE_EVERY = 0.5
"""Seconds between two looks at the gauges, the prompt files and the queue of requests."""

RUNS_KEPT_WHOLE = 20
"""Ended runs, the newest, whose events are not moved to the archive."""


@dataclass(slots=True)
class Parts:
    """All parts of one open run. `close` takes them apart; whatever happened, call it."""

    run: str
    space: str
    resumed: bool
    host: str
    pid: int
    bus: Bus
    database: Database
    journal: Journal
    sink: JournalSink
    history: HistoryRecorder
    cache: ResultCache
    lessons: LessonStore
    prompts: PromptLibrary
    client: ModelClient | None
    batcher: LLMBatcher | None
    worktrees: Worktrees
    train: Train
    lander: Lander
    outcomes: Outcomes
    activities: LocalActivities
    gauges: Gauges
    share: Share | None

    def background(self) -> tuple[Coroutine[None, None, None], ...]:
        """The work that goes on beside the tasks; the run ends with the first error that one of them raises.

        Heartbeat, gauges, prompts edited live, whether the journal can still be written, the other orchestrators.
        """
        follow = () if self.share is None else (self.share.follow(),)
        lessons = self.lessons.follow(asyncio.Event())
        return (self._beat(), self._measure(), self.sink.until_broken(), lessons, *follow)

    async def _beat(self) -> None:
        while True:
            self.journal.beat(self.run)
            await asyncio.sleep(BEAT_EVERY)

    async def _measure(self) -> None:
        while True:
            refreshed = await asyncio.to_thread(self.prompts.refresh)
            for name in refreshed.changed:
                self.bus.notice("info", f"prompt {name} was edited and is in use")
            for problem in refreshed.problems:
                self.bus.notice("error", f"a prompt was edited but cannot be used: {problem}")
            self._send_batches()
            self.gauges.measure()
            await asyncio.sleep(MEASURE_EVERY)

    def _send_batches(self) -> None:
        """Let the queued requests leave when every task that runs is waiting among them: nobody else can join."""
        if self.batcher is None:
            return
        queued, state = self.batcher.figures.queued, self.bus.state
        if queued and state.count(TaskState.RUNNING) <= queued and not state.count(TaskState.QUEUED):
            self.batcher.depart()

    async def recover(self, since: str, anew: Collection[str]) -> tuple[Landed, ...]:
        """Mend what a crash left, and give what had landed although the journal does not know it.

        What the board's rows tell was read at the commit `since`. The tasks `anew` have landed, and are to be done once
        more.
        """
        if self.resumed:
            ended = await asyncio.to_thread(end_strays, self.run)
            if ended:
                self.bus.notice("info", f"{ended} processes that the interrupted run left behind were ended")
        for text in await self.worktrees.mend():
            self.bus.notice("warning", text)
        if self.batcher is not None:
            self.batcher.resume(manifests(self.bus.latest.open_batches))
        return await self.train.start(
            since=self.bus.state.run.base if self.resumed else since,
            anew=anew,
            waiting=waiting(self.bus.state.snapshot()),
        )

    async def end_run(self, status: str) -> None:
        """Note that the run is over and is not to be taken up again."""
        await asyncio.wrap_future(self.journal.end_run(self.run, self.bus.clock(), status))
        self.history.end_run()
        await asyncio.to_thread(self.journal.retire, keep=RUNS_KEPT_WHOLE)
        if self.space:
            await self.train.retire()

    async def claim_anew(self) -> None:
        """Take the run that was ended up again. Raises RunBusyError when another has worked on the board since."""
        await asyncio.to_thread(self.journal.reclaim, self.run)

    async def clear_up_after_the_dead(self, board: str) -> None:
        """End the runs that others of this host left when they died, now that their tasks have landed."""
        if self.space:
            # What this run made of tasks that others have landed.
            await self.worktrees.supersede_all()
        for run in await asyncio.to_thread(self.journal.abandon, board):
            await asyncio.to_thread(end_strays, run)
            await self.worktrees.in_space(run).supersede_all()
            await self.train.forget(run)

    async def close(self) -> None:
        """Close everything, the journal last; one part's failure does not keep the others open."""
        steps: list[Callable[[], Awaitable[object]]] = [lambda: self.lander.close(0.0)]
        if self.batcher is not None:
            steps.append(self.batcher.close)
        if self.client is not None:
            steps.append(self.client.close)
        steps += [
            lambda: asyncio.to_thread(self.lessons.close),
            lambda: asyncio.to_thread(self.cache.close),
            *((self.share.close,) if self.share is not None else ()),
            lambda: asyncio.to_thread(self.database.close),
        ]
        for step in steps:
            with contextlib.suppress(Exception):
                await step()
        self.bus.publish()
