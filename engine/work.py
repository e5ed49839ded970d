"""One task of a run: from where it stands to the target, however often the train sends it back, or to its end."""

from __future__ import annotations

import asyncio

from engine import events as ev
from engine.bus import Bus
from engine.course import Course
from engine.dispatch import Slot
from engine.errors import BudgetReachedError, HaltedError, LockLostError, StoreError, TaskyardError
from engine.git.cargo import Cargo
from engine.landing import Kept, Landed, SentBack
from engine.model import Task, TaskState
from engine.parts import Parts
from engine.pipeline import GivenUpError, Ready, Start, run_task
from engine.scarcity import scarcity
from engine.settings import Settings

MAX_RETURNS = 5
"""Times that the train may send one task back before it is given up."""


class NotLandedError(TaskyardError):
    """The remote or its hooks keep verified work from landing; the commit stays queued."""


class TaskWork:
    """Calls one task's work: `await work(task, slot)`. The dispatcher counts it done when it has landed.

    Raises what ended the task otherwise, once its events tell so; what concerns all tasks changes the run's course.
    """

    def __init__(self, parts: Parts, bus: Bus, settings: Settings, course: Course) -> None:
        self._parts = parts
        self._bus = bus
        self._settings = settings
        self._course = course

    async def __call__(self, task: Task, slot: Slot) -> None:
        """Bring the task home."""
        if self._bus.state.view(task.id).state is TaskState.LANDED:
            return  # Says the board, since the task was queued.
        try:
            await self._turn(task, slot)
        finally:
            asyncio.get_running_loop().call_soon(self._parts.lander.hurry)

    async def _turn(self, task: Task, slot: Slot) -> None:
        try:
            await self._bring_home(task, slot)
        except BaseException as error:
            await self._tell_end(task, error)
            raise

    async def _bring_home(self, task: Task, slot: Slot) -> None:
        self._parts.activities.lend(task.id, slot)
        ready = self._waiting_to_land(task.id) or await self._run_task(task)
        while True:
            await self._made(ready)
            slot.release()
            answer = await self._parts.lander.land(self._cargo(ready))
            if isinstance(answer, Landed):
                await self._landed(ready, answer)
                return
            if isinstance(answer, Kept):
                if not answer.problem:
                    raise LockLostError(f"{task.id} was turned away from its train", "it is claimed anew")
                raise NotLandedError(answer.problem)
            await self._sent_back(ready, answer)
            await slot.acquire()
            ready = await self._run_task(task)

    async def _made(self, ready: Ready) -> None:
        """Hear of a change that may land."""

    async def _run_task(self, task: Task) -> Ready:
        view = self._bus.state.view(task.id)  # its row may have been taken in anew since it was dispatched
        start = Start.from_view(view)
        return await run_task(
            view.task, self._parts.activities, start=start, max_attempts=self._settings.run.max_attempts
        )

    def _waiting_to_land(self, task_id: str) -> Ready | None:
        """A task that was verified before the run was interrupted needs only its train."""
        view = self._bus.state.view(task_id)
        if view.state is not TaskState.TO_LAND or view.change is None:
            return None
        return Ready(view.task, view.attempt, view.branch, view.change)

    def _cargo(self, ready: Ready) -> Cargo:
        return Cargo(
            ready.task.id,
            " ".join(ready.task.scope.split()),
            ready.change.commit,
            ready.task.command or self._settings.verify.command,
            ready.change.paths,
        )

    async def _landed(self, ready: Ready, answer: Landed) -> None:
        view = self._bus.state.view(ready.task.id)
        await self._bus.commit(
            ev.TaskLanded(at=self._now(), task=ready.task.id, commit=answer.commit, train=answer.train)
        )
        if answer.commit == ready.change.commit:
            await self._parts.activities.landed(view, ready.change)
        else:
            await self._parts.activities.superseded(ready.task.id)

    async def _sent_back(self, ready: Ready, answer: SentBack) -> None:
        view = self._bus.state.view(ready.task.id)
        await self._parts.activities.learn_from_return(view, answer)
        await self._bus.commit(
            ev.TaskSentBack(
                at=self._now(),
                task=ready.task.id,
                attempt=ready.attempt,
                reason=answer.reason,
                other=answer.other,
                paths=answer.paths,
                feedback=answer.feedback,
            )
        )
        if view.returns + 1 > MAX_RETURNS:
            raise GivenUpError(f"sent back {view.returns + 1} times: {answer.reason}")

    # How it ended, when not by landing

    async def _tell_end(self, task: Task, error: BaseException) -> None:
        """Tell the end that the error means for the task, or change the course of the run that it means for all."""
        if isinstance(error, NotLandedError):
            self._bus.emit(ev.Progressed(at=self._now(), task=task.id, text=error.message))
        elif isinstance(error, asyncio.CancelledError):
            landed = self._bus.state.view(task.id).state is TaskState.LANDED  # says the board
            if not (landed or self._course.ends):
                await self._end(task.id, TaskState.CANCELLED, "cancelled")
        elif isinstance(error, BudgetReachedError) and error.scope != "task":
            self._course.reach_budget()
        elif (failure := _of_the_run(error)) is not None:
            self._course.fail(failure)
        else:
            await self._end(task.id, TaskState.FAILED, _reason(error))

    async def _end(self, task_id: str, state: TaskState, reason: str) -> None:
        try:
            await self._bus.commit(ev.TaskEnded(at=self._now(), task=task_id, state=state, reason=reason))
        except StoreError as error:
            self._course.fail(error)

    def _now(self) -> float:
        return self._bus.clock()


def _of_the_run(error: BaseException) -> BaseException | None:
    """What stops the whole run; without a journal or queue nothing can be promised any more."""
    if isinstance(error, HaltedError | StoreError):
        return error
    return scarcity(error)


def _reason(error: BaseException) -> str:
    if isinstance(error, BudgetReachedError):
        return error.message
    return str(error) if isinstance(error, TaskyardError) else f"{type(error).__name__}: {error}"
