"""The train: many verified branches, one merge, one verification of the combination, one push.

State lies in refs: `refs/taskyard/queue/<target>/<task>` from the moment a commit is ready to land,
`refs/taskyard/landed/<target>/<task>` once it is an ancestor of the fetched target. A crash between any two steps loses
nothing and lands nothing twice: what has landed is asked of the target, never remembered.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from engine.git.cargo import BoardFile, Cargo, Checked, Landed, OnStep, Returned, TrainResult, Verify
from engine.git.combine import Combiner
from engine.git.coupling import Coupler
from engine.git.foreign import ForeignLandings
from engine.git.gate import FileGate, Gate
from engine.git.ground import Ground
from engine.git.inspection import Inspector
from engine.git.journey import Journey, Track
from engine.git.landing_refs import LandingRefs, landed_refs
from engine.git.names import in_space, slug
from engine.git.registry import registering, remove_worktree
from engine.git.repository import Repository
from engine.git.upstream import Upstream
from engine.model import BoardStatus

__all__ = ["Cargo", "Checked", "Landed", "Returned", "Train", "TrainResult", "landed_refs"]


class Train:
    """Lands cargo on one target. `tree` is the folder of its lasting worktree, `board` the board's path.

    Where several processes land on one target from one repository, `space` gives each refs of its own, and `gate` lets
    one at a time through.
    `set_statuses` and `combine_boards` work on the board's bytes; `check` verifies combined trees (empty: the members'
    own commands); `sleep` and `rng` serve the waits between refused pushes.
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
        combine_boards: Callable[[bytes | None, bytes, bytes], bytes],
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
        board_file = BoardFile(board, set_statuses, combine_boards)
        combiner = Combiner(repository, scratch, board_file)
        self._refs = LandingRefs(repository, upstream.target, space)
        self._ground = Ground(repository, combiner, base=base, run=run, target=upstream.target)
        self._space = space
        self._foreign = ForeignLandings(repository, board)
        coupler = Coupler(repository, combiner, run=run, board=board, ref=self._refs.current)
        self._inspector = Inspector(repository, coupler.couple, tree, verify, check)
        name = in_space(slug(upstream.target), space)
        self._gate = gate or FileGate(repository.common_dir / "taskyard" / f"train-{name}.lock")
        self._track = Track(
            repository=repository,
            upstream=upstream,
            ground=self._ground,
            refs=self._refs,
            combiner=combiner,
            coupler=coupler,
            inspector=self._inspector,
            gate=self._gate,
            foreign=self._foreign,
            board=board_file,
            run=run,
            sleep=sleep,
            rng=rng or random.Random(),
        )
        self._landed_paths: dict[str, tuple[str, ...]] = {}
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

    async def start(
        self,
        *,
        since: str | None = None,
        anew: Collection[str] = (),
        waiting: Mapping[str, str] | None = None,
    ) -> tuple[Landed, ...]:
        """Find the tip that work begins from, and give what earlier runs queued and has landed since.

        A run names the commit up to which it knows what has landed (`since`), and the tasks that are to be done `anew`
        although they have landed: what else has landed meanwhile is not landed again. `waiting` are the commits of
        tasks that had not landed as far as the run knows, whether they are still queued or not.
        """
        upstream = await self._upstream.fetch()
        await self._foreign.begin(upstream, since=since, anew=anew)
        self.tip = await self._ground.over(upstream)
        if upstream is None:
            return ()
        landed = await self._refs.settle(upstream)
        settled = {item.task_id for item in landed}
        return landed + tuple(
            [
                Landed(task, commit)
                for task, commit in (waiting or {}).items()
                if task not in settled and await self._repository.is_ancestor(commit, upstream)
            ]
        )

    async def refresh(self) -> None:
        """Fetch the target, so that new work begins from what others have landed. Raises PushRejectedError."""
        before = None
        while before != self.tip:  # a train has arrived meanwhile, and what was fetched may lack its cargo
            before = self.tip
            upstream = await self._upstream.fetch()
            await self._foreign.look(upstream)
            if upstream is None:
                return
            tip = await self._ground.over(upstream)
        self.tip = tip

    async def landed_by_others(self, task_id: str) -> str | None:
        """Give the commit by which another run has landed the task since this one began, as far as was fetched."""
        return await self._foreign.commit_of(task_id)

    async def retire(self) -> None:
        """Remove the worktrees and refs that only this run had. For one in a `space`, once it is over."""
        for path in self._trees:
            async with registering(self._repository):
                await remove_worktree(self._repository, path)
        await self.forget(self._space)

    async def forget(self, space: str) -> None:
        """Remove the refs of a run in a space of its own that is over: what it had queued has landed, or its branch
        holds it."""
        name = in_space(slug(self.target), space)
        listing = await self._repository.run(
            "for-each-ref",
            "--format=delete %(refname)",
            *(f"refs/taskyard/{kind}/{name}" for kind in ("queue", "train", "upstream")),
        )
        await self._repository.run("update-ref", "--stdin", input=listing.stdout.encode(), check=False)

    async def queue(self, task_id: str, commit: str) -> None:
        """Keep the commit for landing; it takes the place of what the task had queued before."""
        await self._refs.queue(task_id, commit)

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
            tell = on_step or (lambda stage, detail: None)
            aboard = [*cargo, *more()]
            result = await Journey(self._track, aboard, also or {}, tell).go()
        self.tip = result.tip or self.tip
        paths = {member.task_id: member.paths for member in aboard}
        self._landed_paths.update({item.task_id: paths[item.task_id] for item in result.landed})
        return replace(result, tip=self.tip)
