"""The work on one task where several orchestrators share the board: claimed first, given up at once when it is lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

import msgspec

from engine import events as ev
from engine.activities import Recalled
from engine.bus import Bus
from engine.claims import Claim, Outcome
from engine.course import Course
from engine.dispatch import Slot
from engine.errors import LockLostError, PushRejectedError, TaskyardError
from engine.landing import Landed
from engine.locks import DistributedLock
from engine.model import Lane, Task, TaskState
from engine.parts import Parts
from engine.pipeline import Ready
from engine.rows import BoardChange, EditKind, words
from engine.settings import Settings
from engine.sharing import Permits, Share
from engine.work import TaskWork

LARGEST_WORK = 1 << 20
"""Bytes of a change that is told to the others, so that one who takes the task over need not make it again."""
FETCH_AGAIN = 2.0  # seconds between two tries while the remote is away


class EndedElsewhereError(TaskyardError):
    """Another orchestrator gave the task up, or it was cancelled there."""


class LeftOutError(TaskyardError):
    """The board has said, while another worked on the task, that nobody is to do so."""


class SharedTaskWork(TaskWork):
    """Calls one task's work, once it is claimed; see `TaskWork`. A task of another is waited for without a slot."""

    def __init__(self, parts: Parts, bus: Bus, settings: Settings, course: Course, share: Share) -> None:
        super().__init__(parts, bus, settings, course)
        self._share = share
        self._claims: dict[str, Claim] = {}
        self._lost: set[str] = set()
        self._others_had: set[str] = set()
        self._types = self._permits("type", settings.run.type_limits)
        self._lanes = self._permits("lane", settings.run.lane_limits)

    def _permits(self, kind: str, limits: Mapping[str, int]) -> dict[str, Permits]:
        return {name: self._share.permits(f"{kind}:{name}", limit) for name, limit in limits.items()}

    async def _turn(self, task: Task, slot: Slot) -> None:
        try:
            while not await self._claimed(task, slot):
                await slot.acquire()
        except asyncio.CancelledError:
            if not (self._course.ends or self._bus.state.view(task.id).state.ended):
                await super()._end(task.id, TaskState.CANCELLED, "cancelled")
            raise

    async def _claimed(self, task: Task, slot: Slot) -> bool:
        """Claim the task and bring it home; False when it has to be claimed anew."""
        attempt: list[asyncio.Task[None]] = []

        def lose() -> None:
            self._lost.add(task.id)
            for each in attempt:
                each.cancel()

        self._lost.discard(task.id)
        claim = await self._share.claim(task.id, lose)
        if claim is None:
            slot.release()
            return await self._others(task)
        self._claims[task.id] = claim
        permitted = _PermittedSlot(
            slot, [*self._of(self._types, task.type), *self._of(self._lanes, task.lane)]
        )
        try:
            if self._left_out(task) or await self._taken_over(task, claim):
                return True
            await permitted.acquire()
            attempt.append(asyncio.ensure_future(super()._turn(task, permitted)))
            if task.id in self._lost:
                lose()
            await attempt[0]
        except (asyncio.CancelledError, LockLostError):
            if self._is_cancelled():
                raise
            self._bus.notice(
                "warning",
                f"{task.id} was lost to another orchestrator (claim {claim.token}): stopped here",
                task.id,
            )
            return False
        finally:
            del self._claims[task.id]
            try:
                await permitted.give_back()
            finally:  # also for who is cancelled once more: nobody else would ever give it back
                await self._share.release(claim)
        return True

    @staticmethod
    def _of(permits: Mapping[str, Permits], name: str | Lane) -> list[Permits]:
        found = permits.get(str(name))
        return [] if found is None else [found]

    @staticmethod
    def _is_cancelled() -> bool:
        current = asyncio.current_task()
        return current is not None and current.cancelling() > 0

    async def _others(self, task: Task) -> bool:
        """Wait for the orchestrator that has the task; False when it is free again."""
        self._others_had.add(task.id)
        outcome = await self._share.settled(task.id)
        if outcome is None:
            self._bus.emit(ev.TaskQueued(at=self._now(), task=task.id))
            return False
        if outcome.state == "landed":
            await self._landed_by(task, outcome.commit, outcome.by)
            return True
        if self._left_out(task):
            return True
        state = TaskState.CANCELLED if outcome.state == "cancelled" else TaskState.FAILED
        await super()._end(task.id, state, f"{outcome.reason} (by {outcome.by})")
        raise EndedElsewhereError(outcome.reason)

    def _left_out(self, task: Task) -> bool:
        """Heed what the board has said while another worked on the task: nobody is to work on it any more.

        Raises LeftOutError unless it counts as landed.
        """
        put_off = self._bus.state.view(task.id).put_off
        if put_off is None:
            return False
        self._bus.emit(ev.TaskQueued(at=self._now(), task=task.id))
        self._bus.emit(ev.BoardTaken(at=self._now(), change=BoardChange((put_off,))))
        if put_off.kind is not EditKind.LANDED:
            raise LeftOutError(f"the board does not ask for {task.id} any more")
        return True

    async def _landed_by(self, task: Task, commit: str, by: str) -> None:
        await self._fetch()
        view = self._bus.state.view(task.id)
        await self._bus.commit(ev.TaskLanded(at=self._now(), task=task.id, commit=commit, train=0, by=by))
        if view.attempt:
            await self._parts.activities.superseded(task.id)

    async def _fetch(self) -> None:
        """Bring the target's tip here, which what starts now is to be built on."""
        told = False
        while True:
            try:
                await self._parts.train.refresh()
            except PushRejectedError as error:
                if not told:
                    self._bus.notice("warning", str(error))
                told = True
                await asyncio.sleep(FETCH_AGAIN)
            else:
                return

    async def _taken_over(self, task: Task, claim: Claim) -> bool:
        """Go on from what an earlier claimant left; True when that had landed already."""
        before = claim.before
        # Locks that were begun anew know nothing of what has landed, nor of tasks that others had: the target does.
        if before is not None or task.id in self._others_had:
            await self._fetch()
        commit = await self._parts.train.landed_by_others(task.id)
        if commit is not None:
            await self._share.tell(claim, Outcome("landed", commit=commit))
            await self._landed_by(task, commit, before.by if before is not None else "another run")
            return True
        if before is not None and before.state == "committed" and before.work and before.row == words(task):
            self._parts.activities.hand_over(task.id, msgspec.json.decode(before.work, type=Recalled))
        return False

    # What the others hear

    async def _made(self, ready: Ready) -> None:
        view = self._bus.state.view(ready.task.id)
        work = msgspec.json.encode(await self._parts.activities.recallable(view, ready.change))
        outcome = Outcome(
            "committed",
            commit=ready.change.commit,
            row=words(ready.task),
            work=work if len(work) <= LARGEST_WORK else b"",
        )
        await self._share.tell(self._claims[ready.task.id], outcome)

    async def _landed(self, ready: Ready, answer: Landed) -> None:
        await super()._landed(ready, answer)
        # The target is the truth: who cannot be told finds it there.
        with contextlib.suppress(LockLostError):
            await self._share.tell(self._claims[ready.task.id], Outcome("landed", commit=answer.commit))

    async def _tell_end(self, task: Task, error: BaseException) -> None:
        if task.id not in self._lost and not isinstance(error, LockLostError):
            await super()._tell_end(task, error)

    async def _end(self, task_id: str, state: TaskState, reason: str) -> None:
        try:
            await self._share.tell(
                self._claims[task_id],
                Outcome("cancelled" if state is TaskState.CANCELLED else "failed", reason=reason),
            )
        except LockLostError:
            told = f"the end of {task_id} was not told: it is another orchestrator's by now"
            self._bus.notice("warning", told, task_id)
            return
        await super()._end(task_id, state, reason)


class _PermittedSlot(Slot):
    """A slot with the permits that go with it: given back and taken together."""

    def __init__(self, slot: Slot, permits: list[Permits]) -> None:
        super().__init__(slot.release, slot.acquire)
        self._permits = permits
        self._held: list[DistributedLock] = []
        self._going: set[asyncio.Task[None]] = set()

    def release(self) -> None:
        held, self._held = self._held, []
        for lock in held:
            going = asyncio.ensure_future(lock.release())
            self._going.add(going)
            going.add_done_callback(self._going.discard)
        super().release()

    async def acquire(self) -> None:
        if self._permits and not self._held:
            super().release()  # Whoever needs none may go meanwhile.
            for permits in self._permits:
                self._held.append(await permits.take())
        await super().acquire()

    async def give_back(self) -> None:
        """Give the permits back, and keep the slot as it is."""
        held, self._held = self._held, []
        async with contextlib.AsyncExitStack() as all_of_them:  # whatever becomes of one
            for lock in held:
                all_of_them.push_async_callback(lock.release)
        if self._going:
            await asyncio.wait(tuple(self._going))
