"""The commit that trains and attempts build on: the target, with the commit that the run began from in it."""

from __future__ import annotations

from engine.errors import MergeConflictError, PushRejectedError
from engine.git.cargo import BoardFile
from engine.git.combine import Combiner, with_trailers
from engine.git.repository import Repository


class Ground:
    """Gives it for one run. `base` is the commit that the run began from, `target` the branch that work lands on."""

    def __init__(
        self,
        repository: Repository,
        combiner: Combiner,
        board: BoardFile,
        *,
        base: str,
        run: str,
        target: str,
    ) -> None:
        self._repository = repository
        self._combiner = combiner
        self._board = board
        self._base = base
        self._run = run
        self._target = target
        self._known: dict[str, str] = {}

    async def over(self, upstream: str | None) -> str:
        """Give the target's tip with the base in it, the same each time for the same tip.

        Raises PushRejectedError of kind diverged when the two cannot be merged.
        """
        if upstream is None:
            return self._base
        if upstream not in self._known:
            self._known[upstream] = await self._with_base(upstream)
        return self._known[upstream]

    async def _with_base(self, upstream: str) -> str:
        if await self._repository.is_ancestor(self._base, upstream):
            return upstream
        if await self._repository.is_ancestor(upstream, self._base):
            return self._base
        message = with_trailers(f"Merge {self._base[:10]} into {self._target}", {"Taskyard-Run": self._run})
        try:
            try:
                return await self._combiner.merge(upstream, self._base, message)
            except MergeConflictError as error:
                if self._board.path not in error.paths:
                    raise
            return await self._with_rows(upstream, message)
        except MergeConflictError as error:
            raise PushRejectedError(
                f"{self._target} and your branch have diverged: {error.message}",
                f"merge {self._target} into your branch, then run again",
                kind="diverged",
            ) from error

    async def _with_rows(self, upstream: str, message: str) -> str:
        """Merge a base whose board was edited beside our own marks: its rows count, with the states of the target.

        A state and a new row may stand in neighbouring lines, which git cannot merge; but they never contradict.
        """
        common = await self._repository.line("merge-base", upstream, self._base)
        before = await self._repository.blob(common, self._board.path)
        here = await self._repository.blob(upstream, self._board.path)
        if before is None or here is None:
            raise MergeConflictError(f"conflict in {self._board.path}", (self._board.path,))
        unmarked = await self._combiner.with_file(
            upstream, self._board.path, lambda _: before, "Without states"
        )
        tree = await self._combiner.merge_tree(unmarked, self._base)
        merged = await self._combiner.commit(tree, (upstream, self._base), message)
        states = self._board.states(here)
        return await self._combiner.with_file(
            merged,
            self._board.path,
            lambda data: self._board.mark(data, states),
            f"Keep the states of {self._target}",
        )
