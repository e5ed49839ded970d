"""Verify combined trees, each only once, and find out which member makes a combination red."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.errors import GitError
from engine.git.cargo import Cargo, Checked, OnStep, Returned, Verify
from engine.git.checkout import check_out
from engine.git.coupling import Chain
from engine.git.registry import add_detached
from engine.git.repository import Repository
from engine.git.search import first_bad


class Inspector:
    """Verifies chains in one lasting detached worktree, the folder `tree`.

    `check` is the command for every combination; empty: the members' own commands, each once.
    """

    def __init__(self, repository: Repository, tree: Path, verify: Verify, check: str) -> None:
        self._repository = repository
        self._tree = tree.parent.resolve() / tree.name
        self._verify = verify
        self._check = check
        self._verdicts: dict[tuple[str, str], Checked] = {}
        self._ground_is_green = False
        self.verifications = 0

    async def known_green(self, commit: str, command: str) -> None:
        """Remember that the command passed over this commit's tree."""
        self._verdicts[await self._repository.tree_of(commit), command] = Checked(True)

    async def first_red(self, chain: Chain, tell: OnStep) -> tuple[int, Checked] | None:
        """Verify the chain; None when it is green, else the first member that makes it red, and how it failed.

        A red run is repeated once first, since a flaky check must send nobody back.
        """
        if not chain.links:
            return None
        count = len(chain.links)
        tell("verify", _names(chain.cargo))
        red = await self._verified(chain)
        if red.passed:
            self._ground_is_green = True
            return None
        again = await self._verified(chain, anew=True)
        if again.passed:
            tell("verify", f"flaky: red once, then green ({red.reason})")
            return None

        async def is_red(first: int) -> bool:
            tell("bisect", f"the first {first} of {count}")
            return not (await self._verified(chain.first(first))).passed

        bad = await first_bad(count, is_red)
        if bad == 0 and self._check and not self._ground_is_green:
            await self._require_green_ground(chain)
        return bad, again

    async def _require_green_ground(self, chain: Chain) -> None:
        """Raise GitError when the check is red before any member is merged: then none of them is to blame.

        Asked once a run, before the first is blamed: what has landed since was green.
        """
        await self._stand_at(chain.onto)
        self.verifications += 1
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


def red_member(chain: Chain, bad: int, checked: Checked) -> Returned:
    """Say to the task that makes the chain red what happened, and with whom."""
    member = chain.links[bad].cargo
    before = chain.cargo[:bad]
    near = [other for other in before if set(other.paths).intersection(member.paths)] or list(before)
    others = ", ".join(other.task_id for other in near[-3:])
    with_ = f" together with {others}" if others else " on the newest tip"
    return Returned(
        member.task_id,
        f"breaks the check{with_}: {checked.reason}",
        f"Your change passes alone, but{with_} the verification fails. You now work on a tree that holds those "
        f"changes.\n\n{checked.output}",
        near[-1].task_id if near else "",
    )


def _names(cargo: Sequence[Cargo]) -> str:
    names = [member.task_id for member in cargo]
    return ", ".join(names) if len(names) <= 6 else f"{', '.join(names[:5])} and {len(names) - 5} more"
