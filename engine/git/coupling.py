"""Couple branches into a chain of merges, and say of one that does not fit which task it clashes with."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from engine.errors import MergeConflictError
from engine.git.bulk import Member, merge_in_bulk
from engine.git.cargo import Cargo, Returned
from engine.git.combine import Combiner, with_trailers
from engine.git.repository import Repository


class Link(msgspec.Struct, frozen=True):
    """A member of the chain; `tip` is the commit in which it and all before it are merged."""

    cargo: Cargo
    tip: str


class Chain(msgspec.Struct, frozen=True):
    """The members in the order they were merged onto `onto`."""

    onto: str
    links: tuple[Link, ...] = ()

    @property
    def tip(self) -> str:
        """The commit in which all are merged."""
        return self.links[-1].tip if self.links else self.onto

    @property
    def cargo(self) -> tuple[Cargo, ...]:
        """The members."""
        return tuple(link.cargo for link in self.links)

    def first(self, count: int) -> Chain:
        """The chain of the first members."""
        return Chain(self.onto, self.links[:count])


class Coupled(msgspec.Struct, frozen=True):
    """What became of the cargo: what is in the chain, what clashes, and what the target had already."""

    chain: Chain
    returned: tuple[Returned, ...] = ()
    already: tuple[Cargo, ...] = ()


class Coupler:
    """Builds chains. `run` and `board` (a path) are for the trailers; `ref` keeps the last chain reachable."""

    def __init__(self, repository: Repository, combiner: Combiner, *, run: str, board: str, ref: str) -> None:
        self._repository = repository
        self._combiner = combiner
        self._run = run
        self._board = board
        self._ref = ref

    async def couple(self, chain: Chain, cargo: Sequence[Cargo]) -> Coupled:
        """Merge one after the other onto the chain; of two that clash the later one is returned."""
        merged = await self._in_bulk(chain.tip, cargo)
        if merged is not None:
            added = (Link(member, tip) for member, tip in zip(cargo, merged, strict=True))
            return Coupled(Chain(chain.onto, (*chain.links, *added)))
        links = list(chain.links)
        returned: list[Returned] = []
        already: list[Cargo] = []
        tip = chain.tip
        tree = await self._repository.tree_of(tip)
        for member in cargo:
            try:
                new_tree = await self._combiner.merge_tree(tip, member.commit)
            except MergeConflictError as error:
                returned.append(await self._clashing(member, error.paths, links, chain.onto))
                continue
            # A merge that changes nothing may be of a commit that an earlier push brought there.
            if new_tree == tree and await self._repository.is_ancestor(member.commit, tip):
                already.append(member)
                continue
            tree = new_tree
            tip = await self._combiner.commit(tree, (tip, member.commit), self._message(member))
            links.append(Link(member, tip))
        return Coupled(Chain(chain.onto, tuple(links)), tuple(returned), tuple(already))

    async def _in_bulk(self, onto: str, cargo: Sequence[Cargo]) -> tuple[str, ...] | None:
        if await self._combiner.signs():
            return None
        members = [Member(item.commit, self._message(item)) for item in cargo]
        return await merge_in_bulk(self._repository, onto, members, self._ref)

    def _message(self, member: Cargo) -> str:
        title = " ".join(f"Land {member.task_id}: {member.scope}".split())[:200]
        # Two boards of a repository may land on one branch, with the same ids.
        trailers = {"Taskyard-Task": member.task_id, "Taskyard-Run": self._run, "Taskyard-Board": self._board}
        return with_trailers(title, trailers)

    async def _clashing(
        self, member: Cargo, paths: tuple[str, ...], links: Sequence[Link], onto: str
    ) -> Returned:
        other = await self._who_clashes(member, paths, links, onto) or await self._who_landed(paths, onto)
        by = other or "what has landed meanwhile"
        where = ", ".join(paths)
        return Returned(
            member.task_id,
            f"clashes with {by}: {where}",
            f"Your change conflicts with {by} in {where}. You now work on a tree that already holds the change of "
            f"{by}: do your task again on top of it, and keep what it does.",
            other,
            paths,
        )

    async def _who_clashes(
        self, member: Cargo, paths: tuple[str, ...], links: Sequence[Link], onto: str
    ) -> str:
        """Name the one on the chain that the member cannot be merged with; empty: it clashes with what has landed."""
        touched = set(paths)
        near = [link.cargo for link in reversed(links) if touched.intersection(link.cargo.paths)]
        for other in near:
            if not await self._do_merge(other.commit, member.commit):
                return other.task_id
        # With none of them alone, but with all of them together.
        return near[0].task_id if near and await self._do_merge(onto, member.commit) else ""

    async def _do_merge(self, ours: str, theirs: str) -> bool:
        try:
            await self._combiner.merge_tree(ours, theirs)
        except MergeConflictError:
            return False
        return True

    async def _who_landed(self, paths: tuple[str, ...], onto: str) -> str:
        """Name the task that last touched one of the paths, by the trailer of its commit."""
        log = await self._repository.run(
            "log", "-1", "--no-merges", "--format=%(trailers:key=Taskyard-Task,valueonly)", onto, "--",
            *(f":(top,literal){path}" for path in paths), check=False,
        )  # fmt: skip
        return log.stdout.strip().split("\n")[0]
