"""What a person may ask of a run while it goes on. Everything belongs to the engine's event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from engine import events as ev
from engine.bus import Bus
from engine.course import Course
from engine.dispatch import Dispatcher, Progress
from engine.following import Follower
from engine.model import Lane, TaskState
from engine.parts import Parts
from engine.rest import Rest
from engine.schedule import Schedule
from engine.task_view import TaskView

_ENDED_BADLY = (TaskState.FAILED, TaskState.CANCELLED)


class Commands:
    """The commands of one run, whether it works or rests. `wake` lets a resting run see that it is to stop."""

    def __init__(
        self,
        parts: Parts,
        bus: Bus,
        course: Course,
        dispatcher: Dispatcher[None],
        schedule: Schedule,
        follower: Follower,
        rest: Rest,
        *,
        wake: Callable[[], None],
    ) -> None:
        self._parts = parts
        self._bus = bus
        self._course = course
        self._dispatcher = dispatcher
        self._schedule = schedule
        self._follower = follower
        self._rest = rest
        self._wake = wake

    def pause(self) -> None:
        """Start no more tasks until `resume`; what runs goes on."""
        self._dispatcher.pause()
        self._dispatch_changed()

    def resume(self) -> None:
        """Start tasks again; a run that has finished goes on when tasks are left to start."""
        if not self._rest.begun:
            self._start_again()
        elif self._dispatcher.queued:
            self._rest.wish(self._start_again)

    def _start_again(self) -> None:
        self._dispatcher.resume()
        self._dispatch_changed()

    def drain(self) -> None:
        """Start no more tasks; the run ends when those that began have ended."""
        self._dispatcher.drain()
        self._dispatch_changed()

    def set_concurrency(self, limit: int) -> None:
        """Change how many tasks may run at once."""
        self._dispatcher.set_concurrency(limit)
        self._dispatch_changed()

    def cancel(self, task_ids: Iterable[str] | None = None) -> None:
        """Cancel these tasks, or all. What is already queued for landing is finished work, and lands."""
        chosen = None if task_ids is None else tuple(task_ids)
        self._rest.once_begun(lambda: self._cancel(chosen))

    def _cancel(self, task_ids: Iterable[str] | None) -> None:
        for view in self._chosen(task_ids):
            if view.state is TaskState.ELSEWHERE:
                self._bus.notice("info", f"{view.id} is worked on {view.last}: cancel it there", view.id)
            elif view.state is TaskState.TO_LAND:
                self._bus.notice("info", f"{view.id} is verified and waits for its train; it lands", view.id)
            elif not view.state.ended:
                started = self._dispatcher.progress(view.id) is Progress.RUNNING
                if self._dispatcher.cancel(view.id) and not started:
                    self._bus.emit(
                        ev.TaskEnded(
                            at=self._now(), task=view.id, state=TaskState.CANCELLED, reason="cancelled"
                        )
                    )

    def retry(self, task_ids: Iterable[str]) -> None:
        """Try failed or cancelled tasks again, and land again what was kept from landing."""
        chosen = self._to_try_again(task_ids)
        if chosen:
            self._rest.wish(lambda: self._retry(chosen))

    def try_again(self, task_ids: Iterable[str]) -> None:
        """Retry what ended here; other orchestrators are not told."""
        chosen = self._to_try_again(task_ids)
        if chosen:
            self._rest.wish(lambda: self._reopen(chosen))

    def _to_try_again(self, task_ids: Iterable[str]) -> tuple[str, ...]:
        """Those that have ended without landing, or were kept from it."""
        return tuple(
            view.id
            for view in self._chosen(task_ids)
            if view.state in _ENDED_BADLY
            or (view.state is TaskState.TO_LAND and not self._schedule.runs(view.id))
        )

    def _retry(self, chosen: tuple[str, ...]) -> None:
        if self._parts.share is not None:
            self._parts.share.reopen(chosen)
        self._reopen(chosen)

    def _reopen(self, chosen: tuple[str, ...]) -> None:
        for name in self._to_try_again(chosen):  # Time may have passed since they were chosen.
            if self._bus.state.view(name).state in _ENDED_BADLY:
                self._bus.emit(ev.TaskReopened(at=self._now(), task=name))
            self._schedule.retry(name)

    def take_board(self, number: int) -> None:
        """Take in the edits of the board that were offered by this number."""
        self._rest.wish(lambda: self._follower.take(number))

    def leave_board(self, number: int) -> None:
        """Leave the edits of the board that were offered by this number to the next run."""
        self._follower.leave(number)

    def land_now(self) -> None:
        """Let the train leave, and try again to land what was kept."""
        self.retry([view.id for view in self._views() if view.state is TaskState.TO_LAND])
        self._parts.lander.depart()

    def set_lane(self, task_id: str, lane: Lane) -> None:
        """Move a task to another lane, from its next attempt on; what it has queued for a batch is asked singly."""
        self._rest.once_begun(lambda: self._set_lane(task_id, lane))

    def _set_lane(self, task_id: str, lane: Lane) -> None:
        self._dispatcher.set_lane(task_id, lane)
        if lane is Lane.FAST and self._parts.batcher is not None:
            self._parts.batcher.withdraw(task_id)
        changed = replace(self._bus.state.view(task_id).task, lane=lane)
        self._bus.emit(ev.TasksAdded(at=self._now(), tasks=(changed,)))

    def cancel_batches(self) -> None:
        """Cancel the batches at the model service when the run stops, instead of leaving them to the next run."""
        self._course.cancels_batches = True

    def stop(self) -> None:
        """End the run within 5 s. What was done is kept; the next run goes on from it."""
        self._course.stopping.set()
        self._wake()

    def _now(self) -> float:
        return self._bus.clock()

    def _views(self) -> tuple[TaskView, ...]:
        return self._bus.state.snapshot().tasks

    def _chosen(self, task_ids: Iterable[str] | None) -> tuple[TaskView, ...]:
        if task_ids is None:
            return self._views()
        return tuple(view for view in map(self._bus.state.find, task_ids) if view is not None)

    def _dispatch_changed(self) -> None:
        mode, limit = self._dispatcher.mode, self._dispatcher.max_concurrency
        self._bus.emit(ev.DispatchChanged(at=self._now(), mode=mode, max_concurrency=limit))
