"""One train on its way: merge, verify, mark the board, push, and prove by the target what has landed."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from engine.errors import PushRejectedError
from engine.git.cargo import BoardFile, Cargo, Landed, OnStep, Returned, TrainResult
from engine.git.combine import Combiner, with_trailers
from engine.git.coupling import Chain, Coupler
from engine.git.foreign import ForeignLandings
from engine.git.gate import Gate
from engine.git.ground import Ground
from engine.git.inspection import Inspector
from engine.git.landing_refs import LandingRefs
from engine.git.registry import checked_out_at
from engine.git.repository import Repository
from engine.git.upstream import Upstream
from engine.git.words import count_of
from engine.model import BoardStatus

PUSHES = 6  # tries before a remote that keeps moving is given up
FIRST_WAIT = 0.2  # seconds, doubled with each refusal


class Track(msgspec.Struct, frozen=True):
    """What a train lands with. `sleep` and `rng` serve the waits between refused pushes."""

    repository: Repository
    upstream: Upstream
    ground: Ground
    refs: LandingRefs
    combiner: Combiner
    coupler: Coupler
    inspector: Inspector
    gate: Gate
    foreign: ForeignLandings
    board: BoardFile
    run: str
    sleep: Callable[[float], Awaitable[None]]
    rng: random.Random


class Journey:
    """One train on its way; `also` are further states to mark. What it gives has a tip if it arrived."""

    def __init__(
        self, track: Track, cargo: Sequence[Cargo], also: Mapping[str, BoardStatus], tell: OnStep
    ) -> None:
        self._track = track
        self._also = also
        self._tip = ""
        self._tell = tell
        self._left = tuple(cargo)
        self._already: tuple[Cargo, ...] = ()
        self._returned: list[Returned] = []
        self._before = track.inspector.verifications
        self._flaky_before = len(track.inspector.flaky)

    async def go(self) -> TrainResult:
        """Try until the remote takes it, says a final no, or has said `moved` too often."""
        wait = FIRST_WAIT
        for more in reversed(range(PUSHES)):
            tip = ""
            try:
                upstream = await self._track.upstream.fetch()
                await self._leave_to_others(upstream)
                tip = await self._build(upstream)
                while tip and await self._turned_away():
                    tip = await self._build(upstream)
                if not tip:
                    return await self._arrived(pushed=False)
                self._tell("push", f"{self._track.upstream.target} to {tip[:10]}")
                await self._track.upstream.push(tip, expected=upstream)
                return await self._arrived(pushed=True, tip=tip)
            except PushRejectedError as error:
                # A connection may break behind the landing as well as before it.
                if error.kind in ("unknown", "unreachable") and tip and await self._did_arrive(tip):
                    return await self._arrived(pushed=True, tip=tip)
                if error.kind not in ("moved", "locked", "unknown") or not more:
                    return self._result(problem=str(error))
                self._tell("push", f"{error.message}; again in {wait:.1f} s")
            # Apart from others that were refused at the same moment.
            await self._track.sleep(wait * (0.5 + self._track.rng.random()))
            wait *= 2
        raise AssertionError("the last try returns")

    async def _leave_to_others(self, upstream: str | None) -> None:
        """Count as landed what was landed meanwhile, mostly by others: it is never landed twice."""
        foreign = self._track.foreign
        await foreign.look(upstream)
        left = []
        for member in self._left:
            commit = await foreign.commit_of(member.task_id, ours=member.commit)
            if commit is None:
                left.append(member)
            else:
                self._already += (replace(member, commit=commit),)
        self._left = tuple(left)

    async def _turned_away(self) -> bool:
        """Drop the cargo that the gate refuses now, right before the push; gives whether there was any."""
        admitted = await self._track.gate.admit(self._left)
        left = tuple(member for member in self._left if member.task_id in admitted)
        turned_away = len(left) < len(self._left)
        self._left = left
        return turned_away

    async def _build(self, upstream: str | None) -> str:
        """Make the commit to push; empty when there is nothing to push. What cannot land goes to `returned`."""
        onto = await self._track.ground.over(upstream)
        self._tell("combine", count_of(len(self._left), "branch"))
        chain = await self._green(Chain(onto), self._left)
        self._left = chain.cargo
        tip = await self._mark(chain.tip)
        if tip == upstream or (not self._left and tip == onto):
            return ""
        await self._track.refs.pin(tip)
        return tip

    async def _green(self, chain: Chain, cargo: Sequence[Cargo]) -> Chain:
        """Merge onto the chain all that can stay together, and send back the rest.

        Each is judged beside those before it that stay: who clashed with a member that goes is merged after all.
        """
        while True:
            coupled = await self._track.coupler.couple(chain, cargo)
            fault = await self._track.inspector.first_red(coupled.chain, self._tell, green=len(chain.links))
            at = cargo.index(fault.member) if fault is not None else len(cargo)
            settled = {member.task_id for member in cargo[:at]}
            self._give_back([item for item in coupled.returned if item.task_id in settled])
            self._already += tuple(member for member in coupled.already if member.task_id in settled)
            if fault is None:
                return coupled.chain
            self._give_back([fault.returned])
            chain, cargo = coupled.chain.first(fault.at), cargo[at + 1 :]

    def _give_back(self, returned: Sequence[Returned]) -> None:
        for item in returned:
            self._tell("conflict", f"{item.task_id} {item.reason}")
            self._returned.append(item)

    async def _mark(self, tip: str) -> str:
        """Give a child of `tip` whose board tells the new states."""
        landing = (*self._already, *self._left)
        states = {**self._also, **{member.task_id: BoardStatus.LANDED for member in landing}}
        if not states:
            return tip
        names = ", ".join(member.task_id for member in self._left)
        title = f"Mark {names} as landed" if names else "Bring the board up to date"
        message = with_trailers(title, {"Taskyard-Run": self._track.run})
        self._tell("board", names)
        return await self._track.combiner.with_file(
            tip, self._track.board.path, lambda data: self._track.board.mark(data, states), message
        )

    async def _did_arrive(self, tip: str) -> bool:
        """After a push without an answer: ask the target."""
        try:
            upstream = await self._track.upstream.fetch()
        except PushRejectedError:
            return False
        return upstream is not None and await self._track.repository.is_ancestor(tip, upstream)

    async def _arrived(self, *, pushed: bool, tip: str = "") -> TrainResult:
        """Prove by the fetched target what has landed, and record it."""
        try:
            upstream = await self._track.upstream.fetch()
        except PushRejectedError:
            upstream = tip or None  # The remote took the push, and has gone since.
        if pushed and (upstream is None or not await self._track.repository.is_ancestor(tip, upstream)):
            back = f"{self._track.upstream.target} was moved back after the push"
            return self._result(problem=f"{back}: somebody forced it, so nothing counts as landed")
        cargo = (*self._already, *(self._left if pushed else ()))
        landed = tuple(Landed(member.task_id, member.commit) for member in cargo)
        await self._track.refs.record(landed)
        if upstream is not None:
            self._tip = await self._track.ground.over(upstream)
        if landed:
            self._tell("landed", ", ".join(item.task_id for item in landed))
        notice = ""
        place = await checked_out_at(self._track.repository, self._track.upstream.ref) if pushed else None
        if place is not None:
            what = f"{len(landed)} landed" if landed else "the board's new states are"
            notice = (
                f"{what} on {self._track.upstream.target}, which is checked out in {place}: git pull there"
            )
        return self._result(landed, pushed=pushed, notice=notice)

    def _result(
        self, landed: tuple[Landed, ...] = (), *, pushed: bool = False, problem: str = "", notice: str = ""
    ) -> TrainResult:
        inspector = self._track.inspector
        return TrainResult(
            landed,
            tuple(self._returned),
            pushed,
            self._tip,
            problem,
            inspector.verifications - self._before,
            tuple(inspector.flaky[self._flaky_before :]),
            notice,
        )
