"""The tasks of a board that several orchestrators work off together, as one of them sees them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

from engine.claims import Claim, Claims, Outcome, Standing
from engine.errors import LockLostError, LockStoreAwayError
from engine.figures import PeerFigures
from engine.locks import Holder, LockStore
from engine.locks.lock import RENEWED_AFTER
from engine.sharing.crew import TELL_EVERY, Crew
from engine.sharing.gate import SharedGate
from engine.sharing.permits import Permits

T = TypeVar("T")

LOOK_EVERY = 0.25  # seconds between two looks at what the others did
TASKS_A_LOOK = 1000
"""Tasks asked for in `LOOK_EVERY` seconds; with more the looks come less often."""
ASK_AGAIN = 0.5  # seconds between two tries while the store is away
LEAVE_WITHIN = 2.0  # seconds to give back what is claimed


class SharingEvents:
    """What a share tells its run. Every callback may be replaced; none may raise."""

    def __init__(self) -> None:
        self.elsewhere: Callable[[str, str, int], None] = lambda task, host, pid: None
        """The task is worked on by that process of that host."""
        self.free: Callable[[str], None] = lambda task: None
        """A task that was told of as worked on elsewhere is so no more."""
        self.reopened: Callable[[str], None] = lambda task: None
        """A task that had ended without landing is tried again by another."""
        self.refused: Callable[[str], None] = lambda text: None
        """In words, what was not written because it came too late."""
        self.away: Callable[[str], None] = lambda problem: None
        """The store went away (in words), or came back (empty)."""


class Share:
    """See the package's text. `figures` gives what this process tells the others of itself, once a second, by the
    number of tasks it has claimed."""

    def __init__(
        self, store: LockStore, crew: Crew, figures: Callable[[int], PeerFigures], *, lease: float
    ) -> None:
        self.events = SharingEvents()
        self.gate = SharedGate(
            store,
            crew.board,
            confirm=self._confirm,
            refused=lambda text: self.events.refused(text),
            lease=lease,
        )
        self.crew = crew
        self._store = store
        self._figures = figures
        self._lease = lease
        self._claims = Claims(store, crew.board, session=crew.session, lease=lease)
        self._mine: dict[str, Claim] = {}
        self._waiting: dict[str, asyncio.Future[Outcome | None]] = {}
        self._told: dict[str, tuple[str, int]] = {}
        self._ended: dict[str, Outcome] = {}
        self._again: set[str] = set()
        self._away = ""
        self._away_since = 0.0
        self._quiet_until = 0.0

    # Tasks

    async def claim(self, task: str, on_lost: Callable[[], None]) -> Claim | None:
        """Claim the task now, waiting only for a store that is away; None: it is another's, or done."""
        while True:
            await self._patiently(self._look_if_known)
            quiet = self._quiet_until - time.monotonic()
            if quiet <= 0:
                break
            await asyncio.sleep(quiet)
        claim = await self._patiently(
            lambda: self._claims.claim(task, again=task in self._again, on_lost=on_lost)
        )
        if claim is not None:
            self._again.discard(task)
            self._ended.pop(task, None)
            self._told.pop(task, None)
            self._mine[task] = claim
        return claim

    async def settled(self, task: str) -> Outcome | None:
        """Wait while another works on the task; gives how it ended, or None when it is free again."""
        future: asyncio.Future[Outcome | None] = asyncio.get_running_loop().create_future()
        self._waiting[task] = future
        try:
            return await future
        finally:
            self._waiting.pop(task, None)

    async def tell(self, claim: Claim, outcome: Outcome) -> None:
        """Tell the others, waiting only for a store that is away. Raises LockLostError when it is another's by now."""
        await self._patiently(lambda: claim.tell(outcome))
        if outcome.final and outcome.state != "landed":
            self._ended[claim.task] = outcome

    async def confirm(self, task: str) -> None:
        """Ask whether the task is this process's still. Raises LockLostError when it is not, or was not claimed."""
        claim = self._mine.get(task)
        if claim is None:
            raise LockLostError(f"{task} is not claimed here", "another orchestrator works on it")
        await self._patiently(claim.confirm)

    async def release(self, claim: Claim) -> None:
        """Give the task back."""
        if self._mine.get(claim.task) is claim:
            del self._mine[claim.task]
        await claim.release()

    def reopen(self, tasks: Collection[str]) -> None:
        """Let tasks that ended without landing be claimed again."""
        self._again.update(tasks)

    async def _confirm(self, task: str) -> bool:
        try:
            claim = self._mine.get(task)
            if claim is not None:
                await claim.confirm()
        except LockLostError:
            return False
        return claim is not None

    def permits(self, name: str, limit: int) -> Permits:
        """The permits for what only `limit` may do at once, over all orchestrators."""
        return Permits(self._store, self.crew.board, name, limit, lease=self._lease)

    # The others

    async def follow(self) -> None:
        """Look after the tasks of others, and tell them of this process, until cancelled."""
        next_tell = 0.0
        while True:
            interesting = tuple({*self._waiting, *self._ended})
            await asyncio.sleep(LOOK_EVERY * max(1.0, len(interesting) / TASKS_A_LOOK))
            try:
                standings = await self._claims.standings(interesting)
                self._answers(None)
                for task, standing in standings.items():
                    self._heed(task, standing)
                if time.monotonic() >= next_tell:
                    next_tell = time.monotonic() + TELL_EVERY
                    await self._look_if_known()
                    await self.crew.tell(self._figures(len(self._mine)))
                    await self._look_around()
            except LockStoreAwayError as error:
                self._answers(error)

    def _heed(self, task: str, standing: Standing) -> None:
        future, outcome, holder = self._waiting.get(task), standing.outcome, standing.holder
        if outcome is not None and outcome.final:
            if outcome.state != "landed":
                self._ended[task] = outcome
            else:
                self._ended.pop(task, None)
            self._settle(future, outcome)
        elif task in self._ended and task not in self._mine:
            if holder is not None:
                del self._ended[task]
                self.events.reopened(task)
        elif holder is None:
            if time.monotonic() >= self._quiet_until:
                self._settle(future, None)
        elif future is not None:
            self._tell_elsewhere(task, holder)

    async def _look_around(self) -> None:
        """Tell who works on tasks that were never asked for here, and on which nobody does any more."""
        if sum(peer.present for peer in self.crew.peers) < 2:
            return
        workers = await self._claims.workers()
        for task, holder in workers.items():
            if task not in self._mine:
                self._tell_elsewhere(task, holder)
        left = [task for task in self._told if task not in workers and task not in self._waiting]
        standings = await self._claims.standings(left)
        if time.monotonic() >= self._quiet_until:
            for task, standing in standings.items():
                self._told.pop(task, None)
                if standing.outcome is None or not standing.outcome.final:
                    self.events.free(task)

    def _tell_elsewhere(self, task: str, holder: Holder) -> None:
        where = holder.party.host, holder.party.pid
        if self._told.get(task) != where:
            self._told[task] = where
            self.events.elsewhere(task, *where)

    def _settle(self, future: asyncio.Future[Outcome | None] | None, outcome: Outcome | None) -> None:
        if future is not None and not future.done():
            future.set_result(outcome)

    async def _look_if_known(self) -> None:
        if await self.crew.forgotten():
            self._let_others_renew()

    def _let_others_renew(self) -> None:
        """Claim nothing until all have renewed what they hold: it would be done twice."""
        self._quiet_until = time.monotonic() + self._lease * RENEWED_AFTER + ASK_AGAIN

    # The store

    def _answers(self, error: LockStoreAwayError | None) -> None:
        """Tell once that the store went away, and once that it is back."""
        problem = "" if error is None else error.message
        if bool(problem) != bool(self._away):
            self.events.away(problem)
            now, away_since = time.monotonic(), self._away_since
            self._away_since = now
            if not problem and now - away_since > self._lease * RENEWED_AFTER:
                self._let_others_renew()  # Leases may have lapsed meanwhile, although nobody was gone.
        self._away = problem

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until the store answers; nothing is done without it."""
        while True:
            try:
                answer = await ask()
            except LockStoreAwayError as error:
                self._answers(error)
                await asyncio.sleep(ASK_AGAIN)
            else:
                self._answers(None)
                return answer

    async def close(self) -> None:
        """Leave: what is claimed still is given back at once, so that others need not wait for the lease."""
        self.gate.close()
        claims = tuple(self._mine.values())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_WITHIN):  # Where nobody answers, the leases will lapse.
                figures = self._figures(0)
                # Each for itself: that one cannot be told keeps nothing else from being given back.
                await asyncio.gather(
                    *(claim.release() for claim in claims), self.crew.leave(figures), return_exceptions=True
                )
        await self._store.close()
