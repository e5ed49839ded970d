"""Verify combined trees, each only once, and find out which member makes a combination red."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from engine.errors import GitError
from engine.git.cargo import Cargo, Checked, OnStep, Verify
from engine.git.checkout import check_out
from engine.git.coupling import Chain, Coupled
from engine.git.fault import Fault
from engine.git.registry import add_detached
from engine.git.repository import Repository
from engine.git.search import first_bad
from engine.git.words import shortened

Couple = Callable[[Chain, Sequence[Cargo]], Awaitable[Coupled]]


class Inspector:
    """Verifies chains in one lasting detached worktree, the folder `tree`.

    `couple` merges members onto a chain. `check` is the command for every combination; empty: the members' own
    commands, each once. `verifications` counts the combinations that were run, `flaky` holds how checks failed that
    passed when they were run once more over the same tree.
    """

    def __init__(
        self, repository: Repository, couple: Couple, tree: Path, verify: Verify, check: str
    ) -> None:
        self._repository = repository
        self._couple = couple
        self._tree = tree.parent.resolve() / tree.name
        self._verify = verify
        self._check = check
        self._verdicts: dict[tuple[str, str], Checked] = {}
        self._ground_is_green = False
        self.verifications = 0
        self.flaky: list[str] = []

    async def known_green(self, commit: str, command: str) -> None:
        """Remember that the command passed over this commit's tree."""
        self._verdicts[await self._repository.tree_of(commit), command] = Checked(True)

    async def first_red(self, chain: Chain, tell: OnStep, *, green: int = 0) -> Fault | None:
        """Verify the chain; None when it is green, else the first member that makes it red, and with whom.

        Of one member, at most two runs: what is red is run once more, since a flaky check must send nobody back. Of
        `n` members with one bad one at most 2 + 2 log2(n) runs, the one without it included. That the first `green`
        members are green is known.
        """
        count = len(chain.links)
        if not count:
            return None
        most = self.verifications + math.floor(2 + 2 * math.log2(count))
        tell("verify", shortened(member.task_id for member in chain.cargo))
        red = await self._verified(chain)
        if red.passed:
            self._ground_is_green = True
            return None
        if (await self._verified(chain, anew=True)).passed:
            self.flaky.append(red.reason)
            tell("verify", f"flaky: red once, then green ({red.reason})")
            return None

        async def is_red(first: int) -> bool:
            tell("bisect", f"the first {first} of {count}")
            return not (await self._verified(chain.first(first))).passed

        bad = await first_bad(count, is_red, green=green)
        if bad == 0 and self._check and not self._ground_is_green:
            await self._require_green_ground(chain)
        # What comes after it has still to be verified without it.
        most -= bad < count - 1
        with_whom = await self._with_whom(chain, bad, most, tell)
        checked = await self._verified(chain.first(bad + 1))
        return Fault(bad, chain.links[bad].cargo, checked, *with_whom)

    async def _with_whom(
        self, chain: Chain, bad: int, most: int, tell: OnStep
    ) -> tuple[tuple[Cargo, ...], bool]:
        """Give those before a bad member with one of whom it is red, and whether that is proven.

        None of them: it is red by itself. Looks only as long as there are fewer than `most` runs.
        """
        before, member = chain.cargo[:bad], chain.cargo[bad]

        async def is_red_with(others: Sequence[Cargo]) -> bool | None:
            """None when that cannot be said: no run is left, or the few do not merge where all did."""
            coupled = await self._couple(Chain(chain.onto), (*others, member))
            if coupled.returned or self.verifications >= most:
                return None
            names = shortened(each.task_id for each in others)
            tell("bisect", f"{member.task_id} {f'with {names}' if names else 'by itself'}")
            return not (await self._verified(coupled.chain)).passed

        if not before:
            return (), True
        alone = await is_red_with(())
        if alone is not False:
            return (() if alone else before), bool(alone)
        # Of `before[first:]` one is to blame, since with all of them it is red; `before[last:]` are not enough.
        first, last = 0, bad
        while last - first > 1:
            middle = (first + last) // 2
            red = await is_red_with(before[middle:])
            if red is None:
                break
            first, last = (middle, last) if red else (first, middle)
        return before[first:last], True

    async def _require_green_ground(self, chain: Chain) -> None:
        """Raise GitError when the check is red before any member is merged: then none of them is to blame.

        Asked once a run, before the first is blamed: what has landed since was green.
        """
        await self._stand_at(chain.onto)
        verdict = await self._verify(self._tree, (self._check,))
        self._ground_is_green = verdict.passed
        if not verdict.passed:
            raise GitError(
                f"`{self._check}` is red before any of this work is merged ({verdict.reason})",
                "mend [verify] command, or what it finds, and run again: the commits are kept",
            )

    async def _verified(self, chain: Chain, *, anew: bool = False) -> Checked:
        """Run what is not known of this tree yet, up to the first failure; `anew` runs again what is known to fail."""
        commands = (
            (self._check,) if self._check else dict.fromkeys(link.cargo.command for link in chain.links)
        )
        tree = await self._repository.tree_of(chain.tip)
        known = {command: self._verdicts.get((tree, command)) for command in commands}
        red = next(
            (verdict for verdict in known.values() if verdict is not None and not verdict.passed), None
        )
        if red is not None and not anew:
            return red
        unknown = [command for command, verdict in known.items() if verdict is None or not verdict.passed]
        if not unknown:
            return Checked(True)
        await self._stand_at(chain.tip)
        self.verifications += 1
        for command in unknown:
            verdict = self._verdicts[tree, command] = await self._verify(self._tree, (command,))
            if not verdict.passed:
                return verdict
        return Checked(True)

    async def _stand_at(self, commit: str) -> None:
        """Bring the lasting worktree to a commit; what is ignored (dependencies, caches) stays for the next time."""
        run = self._repository.run
        await add_detached(self._repository, self._tree, commit)
        if (await run("symbolic-ref", "--quiet", "HEAD", cwd=self._tree, check=False)).status == 0:
            # A check may have switched branches: what follows must not move one along.
            await run("update-ref", "--no-deref", "HEAD", commit, cwd=self._tree)
        await check_out(self._repository, self._tree, commit, keep_ignored=True)
