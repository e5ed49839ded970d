"""From verified work to the target: the queue for the train, who leaves when, and what each passenger hears.

A train leaves when it is full, when its oldest passenger has waited for `max_age`, and early when that helps: at once
when nothing else is running, and after a short grace when a waiting task needs its cargo, since those who are verified
within the grace come along for nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple

import msgspec

from engine import events as ev
from engine.batching import Batcher
from engine.bus import Bus
from engine.errors import LockLostError, LockStoreAwayError, TaskyardError
from engine.figures import QueueFigures
from engine.git.cargo import Cargo, OnStep, TrainResult
from engine.git.train import Train
from engine.model import BoardStatus

ASK_AGAIN = 0.5
"""Seconds between two tries to land while another has the target, or the locks are away."""

GRACE = 1.0
"""Seconds that a train which somebody needs waits at most for more who are nearly verified."""

GRACE_SHARE = 0.25
"""The same as a share of `max_age`: with short trains nobody is to wait for long."""


class Urgency(Enum):
    """How soon a train should leave."""

    NONE = auto()
    SOON = auto()
    NOW = auto()


class Landed(msgspec.Struct, frozen=True):
    """The task's commit is in the target."""

    commit: str
    train: int


class SentBack(msgspec.Struct, frozen=True):
    """The task's commit cannot land as it is; `feedback` goes to its Implementer. See `Returned`."""

    reason: str
    feedback: str
    other: str = ""
    paths: tuple[str, ...] = ()
    output: str = ""


class Kept(msgspec.Struct, frozen=True):
    """The train could not land anything, for a reason outside the task; the commit stays queued.

    Without a `problem` only this task was turned away: it is another orchestrator's by now.
    """

    problem: str


Answer = Landed | SentBack | Kept


class _Passenger(NamedTuple):
    """Who waits for a train, and with what."""

    cargo: Cargo
    answer: asyncio.Future[Answer]

    def hear(self, answer: Answer) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)


class Lander:
    """Takes cargo in with `land`, and runs one train at a time. Belongs to the engine's event loop.

    `states` gives those of all rows that have ended, which each board commit tells beside its cargo's. `urgency` says
    how soon a train should leave, of the ids that are queued and of all that are queued or on their way.
    """

    def __init__(
        self,
        train: Train,
        bus: Bus,
        *,
        max_batch: int,
        max_age: float,
        trains_before: int,
        states: Callable[[], Mapping[str, BoardStatus]],
        urgency: Callable[[Collection[str], Collection[str]], Urgency],
    ) -> None:
        self._urgency = urgency
        self._leaving: asyncio.TimerHandle | None = None
        self._train = train
        self._bus = bus
        self._number = trains_before
        self._states = states
        self._max_batch = max_batch
        self._max_age = max_age
        self._marked: dict[str, BoardStatus] = {}
        self._closing = False
        self._waiters: dict[str, _Passenger] = {}
        self._batcher: Batcher[Cargo] = Batcher(
            self._run, max_size=max_batch, max_age=max_age, max_executing=1, clock=bus.clock
        )

    async def land(self, cargo: Cargo) -> Answer:
        """Queue the cargo and wait for what becomes of it."""
        passenger = _Passenger(cargo, asyncio.get_running_loop().create_future())
        self._waiters[cargo.task_id] = passenger
        self._batcher.add(cargo)
        self.hurry()
        try:
            return await passenger.answer
        finally:
            self._batcher.remove(cargo)
            if self._waiters.get(cargo.task_id) is passenger:
                del self._waiters[cargo.task_id]

    def _waits(self, cargo: Cargo) -> bool:
        """Whether anybody waits for this very cargo: a task that was lost and claimed anew comes with another."""
        passenger = self._waiters.get(cargo.task_id)
        return passenger is not None and passenger.cargo is cargo

    def hurry(self) -> None:
        """Let the train leave now if that helps somebody."""
        queued = {cargo.task_id for cargo in self._batcher.queued}
        urgency = self._urgency(queued, self._waiters.keys()) if queued else Urgency.NONE
        if urgency is Urgency.NOW:
            self.depart()
        elif urgency is Urgency.SOON and self._leaving is None:
            grace = min(GRACE, self._max_age * GRACE_SHARE)
            self._leaving = asyncio.get_running_loop().call_later(grace, self.depart)

    def depart(self) -> None:
        """Let the train leave now."""
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None
        self._batcher.depart()

    async def mark(self, states: Mapping[str, BoardStatus]) -> None:
        """Tell the board of states that no cargo brings along, by a push of its own if it does not know them yet."""
        await self._batcher.flush()
        if states.items() <= self._marked.items():
            return
        result = await self._land((), tuple, lambda stage, detail: None)
        await self._commit_push(0, result)
        if result.problem:
            self._bus.notice("error", f"the board cannot be marked: {result.problem}")
        elif result.pushed and self._train.remote is None:
            self._bus.notice("info", f"the board on {self._train.target} has the new states")
        if result.notice:
            self._bus.notice("info", result.notice)

    def figures(self) -> QueueFigures:
        """What waits for a train."""
        return QueueFigures(
            "git", self._batcher.pending, self._batcher.oldest_at, self._max_batch, self._max_age
        )

    async def close(self, within: float | None = None) -> None:
        """Wait for the train in motion, no longer than `within` seconds, and end it then; nothing more leaves.

        It may be ended at any moment: what it has pushed is found on the target, and the rest stays queued.
        """
        self._closing = True
        if self._leaving is not None:
            self._leaving.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._batcher.close()
        await self._batcher.cancel()

    async def _run(self, cargo: Sequence[Cargo]) -> None:
        """Run one train; whatever happens, each passenger gets an answer."""
        self._number += 1
        number = self._number
        aboard = list(cargo)
        self._depart_with(number, aboard)

        def more() -> Sequence[Cargo]:
            late = tuple(filter(self._waits, self._batcher.take(self._max_batch - len(aboard))))
            if late:
                aboard.extend(late)
                self._depart_with(number, aboard)
            return late

        try:
            result = await self._land(aboard, more, lambda stage, detail: self._moved(number, stage, detail))
        except asyncio.CancelledError:
            self._answer(number, aboard, TrainResult(problem="the run stops"))
            raise
        try:
            await self._arrived(number, result)
        finally:
            # Even when the journal fails: each passenger finds that out by itself, and stops the run.
            self._answer(number, aboard, result)

    def _depart_with(self, number: int, aboard: Sequence[Cargo]) -> None:
        names = tuple(item.task_id for item in aboard)
        self._bus.emit(ev.TrainDeparted(at=self._bus.clock(), train=number, tasks=names))

    async def _land(
        self, aboard: Sequence[Cargo], more: Callable[[], Sequence[Cargo]], on_step: OnStep
    ) -> TrainResult:
        """Land the cargo, with the states of the other rows; what is raised becomes the result's problem."""
        states = dict(self._states())
        try:
            result = await self._let_through(aboard, more, states, on_step)
        except TaskyardError as error:
            return TrainResult(problem=str(error))
        except Exception as error:
            return TrainResult(problem=f"{type(error).__name__}: {error}")
        if result.pushed:
            self._marked = states
        return result

    async def _let_through(
        self,
        aboard: Sequence[Cargo],
        more: Callable[[], Sequence[Cargo]],
        states: Mapping[str, BoardStatus],
        on_step: OnStep,
    ) -> TrainResult:
        """Run the train, again and again while it loses the target to others on the way, or the locks are away."""
        while True:
            try:
                return await self._train.land(
                    list(filter(self._waits, aboard)),
                    more=more,
                    also=states,
                    on_step=on_step,
                )
            except (LockLostError, LockStoreAwayError) as error:
                if self._closing:
                    raise
                on_step("wait", error.message)
                await asyncio.sleep(ASK_AGAIN)

    def _moved(self, number: int, stage: str, detail: str) -> None:
        self._bus.emit(ev.TrainMoved(at=self._bus.clock(), train=number, stage=stage, detail=detail))

    async def _arrived(self, number: int, result: TrainResult) -> None:
        await self._commit_push(number if result.landed else 0, result)
        self._bus.emit(
            ev.TrainArrived(
                at=self._bus.clock(),
                train=number,
                landed=tuple(item.task_id for item in result.landed),
                sent_back=tuple(item.task_id for item in result.returned),
                tip=result.tip,
                problem=result.problem,
            )
        )
        for failure in result.flaky:
            self._bus.notice(
                "warning",
                f"the check of train {number} is flaky: it failed ({failure}), and passed over the same files",
            )
        if result.notice:
            self._bus.notice("info", result.notice)

    async def _commit_push(self, number: int, result: TrainResult) -> None:
        if result.pushed and self._train.remote is not None:
            await self._bus.commit(
                ev.Pushed(at=self._bus.clock(), train=number, ref=self._train.target, tip=result.tip)
            )

    def _answer(self, number: int, cargo: Sequence[Cargo], result: TrainResult) -> None:
        answers: dict[str, Answer] = {item.task_id: Landed(item.commit, number) for item in result.landed}
        for item in result.returned:
            answers[item.task_id] = SentBack(item.reason, item.feedback, item.other, item.paths, item.output)
        for member in cargo:
            passenger = self._waiters.get(member.task_id)
            answer = answers.get(member.task_id) or Kept(result.problem)
            # What has landed is good news for whoever waits; all else is about this commit alone.
            if passenger is not None and (isinstance(answer, Landed) or self._waits(member)):
                passenger.hear(answer)
