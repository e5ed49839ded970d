"""The commit that trains and attempts build on: the target, with the commit that the run began from in it."""

from __future__ import annotations

from engine.errors import MergeConflictError, PushRejectedError
from engine.git.combine import Combiner, with_trailers
from engine.git.repository import Repository


class Ground:
    """Gives it for one run. `base` is the commit that the run began from, `target` the branch that work lands on."""

    def __init__(
        self,
        repository: Repository,
        combiner: Combiner,
        *,
        base: str,
        run: str,
        target: str,
    ) -> None:
        self._repository = repository
        self._combiner = combiner
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
            return await self._combiner.merge(upstream, self._base, message)
        except MergeConflictError as error:
            raise PushRejectedError(
                f"{self._target} and your branch have diverged: {error.message}",
                f"merge {self._target} into your branch, then run again",
                kind="diverged",
            ) from error
