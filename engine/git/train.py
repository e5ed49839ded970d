"""The train: many verified branches, one merge, one verification of the combination, one push.

State lies in refs: `refs/taskyard/queue/<target>/<task>` from the moment a commit is ready to land,
`refs/taskyard/landed/<target>/<task>` once it is an ancestor of the fetched target. A crash between any two steps loses
nothing and lands nothing twice: what has landed is asked of the target, never remembered.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from engine.errors import MergeConflictError, PushRejectedError
from engine.git.cargo import Cargo, Checked, Landed, OnStep, Returned, TrainResult, Verify
from engine.git.combine import Combiner, with_trailers
from engine.git.coupling import Chain, Coupler
from engine.git.foreign import ForeignLandings
from engine.git.gate import FileGate, Gate
from engine.git.inspection import Inspector
from engine.git.names import in_space, slug
from engine.git.registry import checked_out_at, registering, remove_worktree
from engine.git.repository import Repository
from engine.git.upstream import Upstream
from engine.git.words import count_of
from engine.model import BoardStatus

__all__ = ["Cargo", "Checked", "Landed", "Returned", "Train", "TrainResult"]

PUSHES = 6
FIRST_WAIT = 0.2


def landed_refs(target: str) -> str:
    """Give the prefix of the refs that say what has landed on a target; the task's `slug` follows."""
    return f"refs/taskyard/landed/{slug(target)}"


class Train:
    """Lands cargo on one target. `tree` is the folder of its lasting worktree, `board` the board's path.

    Where several processes land on one target from one repository, `space` gives each refs of its own, and `gate` lets
    one at a time through.
    `set_statuses` changes the board's bytes; `check` verifies combined trees (empty: the members' own commands);
    `sleep` and `rng` serve the waits between refused pushes.
    """

    def __init__(
        self,
        repository: Repository,
        upstream: Upstream,
        *,
        base: str,
        run: str,
        board: str,
        tree: Path,
        verify: Verify,
        set_statuses: Callable[[bytes, Mapping[str, BoardStatus]], bytes],
        read_statuses: Callable[[bytes], Mapping[str, BoardStatus]],
        check: str = "",
        space: str = "",
        gate: Gate | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        scratch = tree.with_name(f"{tree.name}-merge")
        self._trees = (tree, scratch)
        self._repository = repository
        self._upstream = upstream
        self._combiner = Combiner(repository, scratch)
        self._base = base
        self._run = run
        self._board = board
        self._set_statuses = set_statuses
        self._read_statuses = read_statuses
        self._sleep = sleep
        self._rng = rng or random.Random()
        self._onto_of: dict[str, str] = {}
        self._landed_paths: dict[str, tuple[str, ...]] = {}
        name = in_space(slug(upstream.target), space)
        self._queue = f"refs/taskyard/queue/{name}"
        self._landed = landed_refs(self.target)
        self._current = f"refs/taskyard/train/{name}"
        self._coupler = Coupler(repository, self._combiner, run, self._current)
        self._inspector = Inspector(repository, self._coupler.couple, tree, verify, check)
        self._gate = gate or FileGate(repository.common_dir / "taskyard" / f"train-{name}.lock")
        self._foreign = ForeignLandings(repository, run)
        self.tip = base

    @property
    def remote(self) -> str | None:
        """The remote it is pushed to, or None when work lands in this repository only."""
        return self._upstream.remote

    @property
    def target(self) -> str:
        """The branch that work lands on."""
        return self._upstream.target

    @property
    def landed_paths(self) -> Mapping[str, tuple[str, ...]]:
        """The files that each task landed by this train touched."""
        return self._landed_paths

    async def start(self) -> tuple[Landed, ...]:
        """Find the tip that work begins from, and give what earlier runs queued and has landed since."""
        upstream = await self._upstream.fetch()
        self._foreign.begin(upstream)
        self.tip = await self._onto(upstream)
        return await self._settle(upstream) if upstream is not None else ()

    async def refresh(self) -> None:
        """Fetch the target, so that new work begins from what others have landed. Raises PushRejectedError."""
        upstream = await self._upstream.fetch()
        await self._foreign.look(upstream)
        if upstream is not None:
            self.tip = await self._onto(upstream)

    async def landed_by_others(self, task_id: str) -> str | None:
        """Give the commit by which another run has landed the task since this one began, as far as was fetched."""
        return await self._foreign.commit_of(task_id)

    async def retire(self) -> None:
        """Remove the worktrees and refs that only this run had. For one in a `space`, once it is over."""
        for path in self._trees:
            async with registering(self._repository):
                await remove_worktree(self._repository, path)
        refs = f"delete {self._upstream.copy}\n"
        if await self._repository.commit_of(self._current) is not None:
            refs += f"delete {self._current}\n"
        await self._repository.run("update-ref", "--stdin", input=refs.encode(), check=False)

    async def queue(self, task_id: str, commit: str) -> None:
        """Keep the commit for landing; it takes the place of what the task had queued before."""
        ref = f"{self._queue}/{slug(task_id)}"
        made = await self._repository.run("update-ref", ref, commit, "", check=False)
        if made.status != 0:
            before = await self._repository.commit_of(ref)
            await self._repository.run("update-ref", ref, commit, before or "")

    async def known_green(self, commit: str, command: str) -> None:
        """Remember that the command passed over this commit's tree, so that it is not run there again."""
        await self._inspector.known_green(commit, command)

    async def land(
        self,
        cargo: Sequence[Cargo],
        *,
        more: Callable[[], Sequence[Cargo]] = tuple,
        also: Mapping[str, BoardStatus] | None = None,
        on_step: OnStep | None = None,
    ) -> TrainResult:
        """Land what can land by one push, and give back what cannot. `also` are further states for the board.

        `more` is asked once the gate is open: what came while others were landing goes along.

        Never raises for what the remote says: that becomes `problem`, and the cargo stays queued. Trains of several
        processes to one target go one after the other. Raises what the gate does when it does not let us through.
        """
        async with self._gate.hold():
            return await _Journey(
                self, [*cargo, *more()], also or {}, on_step or (lambda stage, detail: None)
            ).go()

    # Refs

    async def _onto(self, upstream: str | None) -> str:
        """Give the commit to build on: the target with the run's base in it, the same each time for the same target."""
        if upstream is None:
            return self._base
        if upstream not in self._onto_of:
            self._onto_of[upstream] = await self._with_base(upstream)
        return self._onto_of[upstream]

    async def _with_base(self, upstream: str) -> str:
        if await self._repository.is_ancestor(self._base, upstream):
            return upstream
        if await self._repository.is_ancestor(upstream, self._base):
            return self._base
        message = with_trailers(f"Merge {self._base[:10]} into {self.target}", {"Taskyard-Run": self._run})
        try:
            try:
                return await self._combiner.merge(upstream, self._base, message)
            except MergeConflictError as error:
                if self._board not in error.paths:
                    raise
            return await self._with_rows(upstream, message)
        except MergeConflictError as error:
            raise PushRejectedError(
                f"{self.target} and your branch have diverged: {error.message}",
                f"merge {self.target} into your branch, then run again",
                kind="diverged",
            ) from error

    async def _with_rows(self, upstream: str, message: str) -> str:
        """Merge a base whose board was edited beside our own marks: its rows count, with the states of the target.

        A state and a new row may stand in neighbouring lines, which git cannot merge; but they never contradict.
        """
        common = await self._repository.line("merge-base", upstream, self._base)
        before = await self._repository.blob(common, self._board)
        here = await self._repository.blob(upstream, self._board)
        if before is None or here is None:
            raise MergeConflictError(f"conflict in {self._board}", (self._board,))
        unmarked = await self._combiner.with_file(upstream, self._board, lambda _: before, "Without states")
        tree = await self._combiner.merge_tree(unmarked, self._base)
        merged = await self._combiner.commit(tree, (upstream, self._base), message)
        states = self._read_statuses(here)
        return await self._combiner.with_file(
            merged,
            self._board,
            lambda data: self._set_statuses(data, states),
            f"Keep the states of {self.target}",
        )

    async def _settle(self, upstream: str) -> tuple[Landed, ...]:
        """Give (and record) what is queued although the target already has it."""
        listing = await self._repository.run(
            "for-each-ref", f"--merged={upstream}", "--format=%(objectname) %(refname)", f"{self._queue}/"
        )
        landed = []
        for line in listing.stdout.splitlines():
            commit = line.partition(" ")[0]
            task = await self._repository.line(
                "log", "-1", "--format=%(trailers:key=Taskyard-Task,valueonly)", commit
            )
            landed.append(Landed(task, commit))
        await self._record(landed)
        return tuple(landed)

    async def _record(self, landed: Sequence[Landed]) -> None:
        """Move refs from the queue to landed, all in one transaction."""
        if not landed:
            return
        listing = await self._repository.run(
            "for-each-ref", "--format=%(objectname) %(refname)", f"{self._queue}/", self._current
        )
        queued = {ref: commit for commit, ref in (line.split(" ", 1) for line in listing.stdout.splitlines())}
        lines = [f"delete {self._current}\n"] if self._current in queued else []
        for item in landed:
            name = slug(item.task_id)
            lines.append(f"update {self._landed}/{name} {item.commit}\n")
            if queued.get(f"{self._queue}/{name}") == item.commit:
                lines.append(f"delete {self._queue}/{name} {item.commit}\n")
        await self._repository.run("update-ref", "--stdin", input="".join(lines).encode())


class _Journey:
    """One call of `Train.land`."""

    def __init__(
        self, train: Train, cargo: Sequence[Cargo], also: Mapping[str, BoardStatus], tell: OnStep
    ) -> None:
        self._train = train
        self._repository = train._repository
        self._upstream = train._upstream
        self._also = also
        self._tell = tell
        self._left = tuple(cargo)
        self._already: tuple[Cargo, ...] = ()
        self._returned: list[Returned] = []
        self._before = train._inspector.verifications
        self._flaky_before = len(train._inspector.flaky)

    async def go(self) -> TrainResult:
        """Try until the remote takes it, says a final no, or has said `moved` too often."""
        wait = FIRST_WAIT
        for more in reversed(range(PUSHES)):
            tip = ""
            try:
                upstream = await self._upstream.fetch()
                await self._leave_to_others(upstream)
                tip = await self._build(upstream)
                while tip and await self._turned_away():
                    tip = await self._build(upstream)
                if not tip:
                    return await self._arrived(pushed=False)
                self._tell("push", f"{self._train.target} to {tip[:10]}")
                await self._upstream.push(tip, expected=upstream)
                return await self._arrived(pushed=True, tip=tip)
            except PushRejectedError as error:
                if error.kind == "unknown" and tip and await self._did_arrive(tip):
                    return await self._arrived(pushed=True, tip=tip)
                if error.kind not in ("moved", "locked", "unknown") or not more:
                    return self._result(problem=str(error))
                self._tell("push", f"{error.message}; again in {wait:.1f} s")
            # Apart from others that were refused at the same moment.
            await self._train._sleep(wait * (0.5 + self._train._rng.random()))
            wait *= 2
        raise AssertionError("the last try returns")

    async def _leave_to_others(self, upstream: str | None) -> None:
        """Count as landed what another run has landed meanwhile: it is never landed twice."""
        foreign = self._train._foreign
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
        admitted = await self._train._gate.admit(self._left)
        left = tuple(member for member in self._left if member.task_id in admitted)
        turned_away = len(left) < len(self._left)
        self._left = left
        return turned_away

    async def _build(self, upstream: str | None) -> str:
        """Make the commit to push; empty when there is nothing to push. What cannot land goes to `returned`."""
        train = self._train
        onto = await train._onto(upstream)
        self._tell("combine", count_of(len(self._left), "branch"))
        chain = await self._green(Chain(onto), self._left)
        self._left = chain.cargo
        tip = await self._mark(chain.tip)
        if tip == upstream or (not self._left and tip == onto):
            return ""
        await self._repository.run("update-ref", train._current, tip)
        return tip

    async def _green(self, chain: Chain, cargo: Sequence[Cargo]) -> Chain:
        """Merge onto the chain all that can stay together, and send back the rest.

        Each is judged beside those before it that stay: who clashed with a member that goes is merged after all.
        """
        train = self._train
        while True:
            coupled = await train._coupler.couple(chain, cargo)
            fault = await train._inspector.first_red(coupled.chain, self._tell, green=len(chain.links))
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
        message = with_trailers(title, {"Taskyard-Run": self._train._run})
        self._tell("board", names)
        return await self._train._combiner.with_file(
            tip, self._train._board, lambda data: self._train._set_statuses(data, states), message
        )

    async def _did_arrive(self, tip: str) -> bool:
        """After a push without an answer: ask the target."""
        try:
            upstream = await self._upstream.fetch()
        except PushRejectedError:
            return False
        return upstream is not None and await self._repository.is_ancestor(tip, upstream)

    async def _arrived(self, *, pushed: bool, tip: str = "") -> TrainResult:
        """Prove by the fetched target what has landed, and record it."""
        train = self._train
        try:
            upstream = await self._upstream.fetch()
        except PushRejectedError:
            upstream = tip or None  # The remote took the push, and has gone since.
        if pushed and (upstream is None or not await self._repository.is_ancestor(tip, upstream)):
            return self._result(
                problem=f"{train.target} was moved back after the push: somebody forced it, so nothing counts as landed"
            )
        cargo = (*self._already, *(self._left if pushed else ()))
        landed = tuple(Landed(member.task_id, member.commit) for member in cargo)
        await train._record(landed)
        if upstream is not None:
            train.tip = await train._onto(upstream)
        train._landed_paths.update({member.task_id: member.paths for member in cargo})
        if landed:
            self._tell("landed", ", ".join(item.task_id for item in landed))
        notice = ""
        place = await checked_out_at(self._repository, self._upstream.ref) if pushed else None
        if place is not None:
            what = f"{len(landed)} landed" if landed else "the board's new states are"
            notice = f"{what} on {train.target}, which is checked out in {place}: git pull there"
        return self._result(landed, pushed=pushed, notice=notice)

    def _result(
        self, landed: tuple[Landed, ...] = (), *, pushed: bool = False, problem: str = "", notice: str = ""
    ) -> TrainResult:
        train, inspector = self._train, self._train._inspector
        return TrainResult(
            landed,
            tuple(self._returned),
            pushed,
            train.tip,
            problem,
            inspector.verifications - self._before,
            tuple(inspector.flaky[self._flaky_before :]),
            notice,
        )
