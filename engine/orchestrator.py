"""A run from board to landed work: the public face of the engine.

    orchestrator = await Orchestrator.open(settings, bus=Bus(), environ=os.environ)
    finished = await orchestrator.run()

A run that was interrupted, killed or stopped by its budget is taken up by the next `open` of the same board: what has
landed stays landed, what was verified goes to a train, what was being worked on goes on over the same base, and every
model answer it had is found in the cache. All methods belong to the engine's event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Coroutine, Mapping

from engine import events as ev
from engine.assembly import assemble
from engine.bus import Bus
from engine.closing import closing
from engine.commands import Commands
from engine.course import Course
from engine.departures import Departures
from engine.dispatch import Dispatcher
from engine.errors import RunBusyError
from engine.following import Follower
from engine.model import BoardStatus, Lane, Task, TaskState
from engine.moved import in_words, left_behind
from engine.opening import going_on, opening
from engine.parts import Parts
from engine.project import Project, open_project
from engine.recovery import made_up
from engine.rest import Rest
from engine.rows import BoardChange
from engine.schedule import Schedule
from engine.settings import Settings
from engine.shared_work import SharedTaskWork
from engine.task_view import TaskView
from engine.work import TaskWork

CANCEL_AGAIN = 0.5  # seconds
STOP_WITHIN = 4.0
"""Seconds for the running work to end when the run is stopped; with what follows, all is over within 5 s."""

LOOK_EVERY = 0.5
"""Seconds between two looks at the board's file."""


class Orchestrator:
    """One run of one board. Made by `open`, run once with `run`; `commands` may come at any time."""

    def __init__(
        self,
        project: Project,
        parts: Parts,
        bus: Bus,
        course: Course,
        departures: Departures,
        *,
        linger: bool,
    ) -> None:
        self._project = project
        self._parts = parts
        self._bus = bus
        self._linger = linger
        limits = project.settings.run
        self._course = course
        share = parts.share
        work = (
            TaskWork(parts, bus, project.settings, self._course)
            if share is None
            else SharedTaskWork(parts, bus, project.settings, self._course, share)
        )
        self._dispatcher: Dispatcher[None] = Dispatcher(
            work,
            max_concurrency=limits.max_concurrency,
            type_limits=limits.type_limits,
            lane_limits={Lane(name): limit for name, limit in limits.lane_limits.items()},
            on_queued=self._queued,
        )
        self._course.dispatcher = self._dispatcher
        self._schedule = Schedule(bus, self._dispatcher, departures, parts.outcomes)
        self._follower = Follower(
            project,
            bus,
            mode="never" if limits.follow_board == "ask" and not linger else limits.follow_board,
            runs=self._schedule.runs,
            taken=self._taken,
        )
        self._wake = asyncio.Event()
        self._rest = Rest(self._wake.set)
        self.commands = Commands(
            parts,
            bus,
            course,
            self._dispatcher,
            self._schedule,
            self._follower,
            self._rest,
            wake=self._wake.set,
        )
        self._background: list[asyncio.Future[None]] = []
        if share is not None:
            share.events.elsewhere = self._elsewhere
            share.events.reopened = lambda task: self.commands.try_again([task])
            share.events.away = self._locks_changed
            share.events.free = self._free
            share.events.refused = lambda text: self._bus.notice("warning", text)

    @classmethod
    async def open(
        cls,
        settings: Settings,
        *,
        bus: Bus,
        environ: Mapping[str, str],
        linger: bool = False,
        new_id: Callable[[], str] | None = None,
    ) -> Orchestrator:
        """Check the project, then open its state and begin or take up the run.

        Raises UsageError, before anything is written, for what the user can mend. `linger` says that somebody is
        there: a finished run stays open for commands such as retry, until `stop`, and an edited board is offered.
        """
        project = await open_project(settings, environ)
        course = Course()
        departures = Departures(bus, course)
        parts = await assemble(project, bus, environ, urgency=departures.urgency, new_id=new_id)
        return cls(project, parts, bus, course, departures, linger=linger)

    # The run

    async def run(self) -> ev.RunFinished:
        """Work until all has landed or nothing more can; gives the last event. Raises what broke the engine."""
        self._go_on_beside(*self._parts.background())
        try:
            await self._begin()
            self._go_on_beside(self._watch_board())
            while True:
                await self._settled()
                if self._course.failure is not None:
                    await self._parts.lander.close(STOP_WITHIN)
                    if self._course.halted:
                        self._bus.notice("error", str(self._course.failure))
                        await self._finish()
                    raise self._course.failure
                await self._follower.look(last=True)
                if not (self._dispatcher.idle or self._course.stopping.is_set()):
                    continue  # What was added to the board at the very end is part of this run.
                finished = await self._finish()
                if not self._linger or not await self._taken_up_again():
                    return finished
        finally:
            await self._end_background()
            if self._course.cancels_batches and self._parts.batcher is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(STOP_WITHIN):
                        await self._parts.batcher.close(cancel=True)
            await self._parts.close()

    async def _taken_up_again(self) -> bool:
        """Rest until somebody wants the finished run to go on; False when it is to stop."""
        while not self._course.ends:
            if not self._rest.disturbed:
                await self._wake.wait()
                self._wake.clear()
            elif await self._claimed_anew():
                return True
        if self._course.failure is not None:
            raise self._course.failure
        return False

    async def _claimed_anew(self) -> bool:
        parts = self._parts
        try:
            await parts.claim_anew()
        except RunBusyError as busy:
            self._rest.refuse()
            # What to do comes first: where there is one line for it, the end is cut off.
            self._bus.notice("error", f"this run cannot go on: {busy.hint}; {busy.message}")
            return False
        await self._bus.commit(ev.RunResumed(at=self._now(), host=parts.host, pid=parts.pid, rested=True))
        self._course.go_on()
        self._rest.end()
        return True

    def _go_on_beside(self, *works: Coroutine[None, None, None]) -> None:
        for work in works:
            each = asyncio.ensure_future(work)
            each.add_done_callback(self._background_ended)
            self._background.append(each)

    def _background_ended(self, work: asyncio.Future[None]) -> None:
        """Stop the run when something that goes on beside it broke: who waits for that would wait for ever."""
        if not work.cancelled() and (error := work.exception()) is not None:
            self._course.fail(error)
            self._wake.set()

    async def _end_background(self) -> None:
        """End it for sure: a library may swallow a cancellation that meets it at a bad moment."""
        while going := [work for work in self._background if not work.done()]:
            for work in going:
                work.cancel()
            await asyncio.wait(going, timeout=CANCEL_AGAIN)

    async def _begin(self) -> None:
        parts = self._parts
        anew = self._project.rows.reopened
        if parts.resumed:
            before = self._bus.state.snapshot()
            behind = await left_behind(before, self._project)
            # Before the event by which the run is at the new place: it may be killed between the two.
            self._reopen(behind)
            anew = (*anew, *behind)
            await self._bus.commit(going_on(parts, self._project))
            self._take_up_rows()
            if behind:
                self._bus.notice("warning", in_words(behind, before.run, self._bus.state.run))
        else:
            await self._bus.commit(opening(parts, self._project))
        for text in (*self._project.preflight.notices, *self._project.rows.notices):
            self._bus.notice("info", text)
        for text in self._project.missing:
            self._bus.notice("warning", text)
        for diagnostic in dict.fromkeys((*self._project.board.diagnostics, *self._project.rows.refused)):
            self._bus.notice(diagnostic.severity, f"{self._project.board_path}, {diagnostic}")
        self._follower.tell_refused(self._project.rows)
        if parts.share is not None:
            for text in parts.share.crew.differences:
                self._bus.notice("warning", f"{text}: each goes by its own")
        found = self._project.preflight
        landed = await parts.recover(found.tip or found.base, anew)
        ref = found.target if found.remote is not None else ""
        snapshot = self._bus.state.snapshot()
        for event in made_up(snapshot, landed, at=self._now(), ref=ref, tip=parts.train.tip):
            self._bus.emit(event)
        await self._tidy()
        self._schedule.dispatch()
        self._rest.end()

    async def _tidy(self) -> None:
        """Finish what a crash interrupted after a landing: lessons not resolved, worktrees not given back."""
        if self._parts.resumed:
            for view in self._views():
                if view.state is TaskState.LANDED and view.attempt:
                    await self._parts.activities.tidy(view)

    def _take_up_rows(self) -> None:
        """Tell rows that were added or rewritten while the run was interrupted."""
        self._reopen(self._project.rows.reopened)
        self._follower.take_up()

    def _reopen(self, landed: Collection[str]) -> None:
        for name in landed:
            view = self._bus.state.find(name)
            if view is not None and view.state is TaskState.LANDED:
                self._bus.emit(ev.TaskReopened(at=self._now(), task=name))

    async def _watch_board(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            await self._follower.look()

    def _taken(self, change: BoardChange) -> None:
        self._rest.wish(lambda: self._schedule.take(change))

    async def _settled(self) -> None:
        """Wait until nothing runs and nothing more can, or somebody stops the run."""
        waiting = asyncio.ensure_future(self._dispatcher.wait())
        stopped = asyncio.ensure_future(self._course.stopping.wait())
        try:
            await asyncio.wait({waiting, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                await self._end_work()
        finally:
            waiting.cancel()
            stopped.cancel()

    async def _end_work(self) -> None:
        """Stop: the running attempts are cancelled and taken up by the next run; a train in motion may arrive."""
        self._dispatcher.drain()
        self._dispatcher.cancel_running()
        clock = asyncio.get_running_loop().time
        end = clock() + STOP_WITHIN
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(end):
                await self._dispatcher.wait()
        await self._parts.lander.close(end - clock())
        self._tell_left_batches()

    def _tell_left_batches(self) -> None:
        # By the journal: a creation that is still on its way may leave a batch too.
        left = len(self._bus.state.snapshot().open_batches)
        if left and not self._course.cancels_batches:
            which = "a batch goes on" if left == 1 else f"{left} batches go on"
            self._bus.notice("info", f"{which} at the service; the next run picks the answers up")

    async def _finish(self) -> ev.RunFinished:
        course = self._course
        self._rest.begin()
        if course.failure is None and not course.stopping.is_set():
            await self._parts.lander.mark(self._failed_rows())
            for view in self._views():
                if view.state is TaskState.FAILED and view.attempt:
                    await self._parts.activities.give_back(view.id)
        snapshot = self._bus.state.snapshot()
        finished = closing(snapshot, course, at=self._now())
        self._parts.gauges.measure()
        if not self._linger or course.stopping.is_set():
            await self._end_background()  # Nothing is told after the last event.
        await self._bus.commit(finished)
        if finished.status in ("landed", "failed") and not snapshot.count(TaskState.TO_LAND):
            await self._parts.end_run(finished.status)
            if finished.status == "landed" and self._parts.share is not None:
                await self._parts.clear_up_after_the_dead(self._project.board_path)
        return finished

    def _queued(self, task: Task) -> None:
        if self._bus.state.view(task.id).state is TaskState.WAITING:
            self._bus.emit(ev.TaskQueued(at=self._now(), task=task.id))

    # Small things

    def _now(self) -> float:
        return self._bus.clock()

    def _views(self) -> tuple[TaskView, ...]:
        return self._bus.state.snapshot().tasks

    def _failed_rows(self) -> dict[str, BoardStatus]:
        return {view.id: BoardStatus.FAILED for view in self._views() if view.state is TaskState.FAILED}

    def _elsewhere(self, task: str, host: str, pid: int) -> None:
        view = self._bus.state.find(task)
        if view is None or (host, pid) == (self._parts.host, self._parts.pid):
            return
        if view.state not in (TaskState.QUEUED, TaskState.ELSEWHERE) and not self._schedule.runs(task):
            return  # What it waits for has not landed yet, as far as is known here.
        self._bus.emit(ev.TaskElsewhere(at=self._now(), task=task, host=host, pid=pid))
        self._parts.lander.hurry()  # What waits for it here may go without.

    def _free(self, task: str) -> None:
        view = self._bus.state.find(task)
        if view is not None and view.state is TaskState.ELSEWHERE and not self._schedule.runs(task):
            self._bus.emit(ev.TaskQueued(at=self._now(), task=task))

    def _locks_changed(self, problem: str) -> None:
        self._bus.emit(ev.LocksChanged(at=self._now(), problem=problem))
