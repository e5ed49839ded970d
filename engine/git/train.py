"""The train: many verified branches, one merge, one verification of the combination, one push.

State lies in refs: `refs/taskyard/queue/<task>` from the moment a commit is ready to land,
`refs/taskyard/landed/<task>` once it is an ancestor of the fetched target. A crash between any two steps loses nothing
and lands nothing twice: what has landed is asked of the target, never remembered.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from engine.errors import MergeConflictError, PushRejectedError
from engine.git.combine import Combiner, with_trailers
from engine.git.names import slug
from engine.git.repository import Repository
from engine.git.search import first_bad
from engine.git.upstream import ZERO, Upstream
from engine.model import BoardStatus

QUEUE = "refs/taskyard/queue"
LANDED = "refs/taskyard/landed"
CURRENT = "refs/taskyard/train/current"
PUSHES = 6


class Cargo(msgspec.Struct, frozen=True):
    """One verified commit. `command` is what verified it; `paths` are the files it touches."""

    task_id: str
    scope: str
    commit: str
    command: str
    paths: tuple[str, ...] = ()


class Landed(msgspec.Struct, frozen=True):
    """The task's commit is in the target."""

    task_id: str
    commit: str


class Returned(msgspec.Struct, frozen=True):
    """The task's commit clashes; `feedback` is for its Implementer, `other` the task it clashes with (if known)."""

    task_id: str
    reason: str
    feedback: str
    other: str = ""
    paths: tuple[str, ...] = ()


class TrainResult(msgspec.Struct, frozen=True):
    """How a train ended. `problem` says why the rest stays queued, or is empty; `tip` is the target's tip."""

    landed: tuple[Landed, ...] = ()
    returned: tuple[Returned, ...] = ()
    pushed: bool = False
    tip: str = ""
    problem: str = ""
    verifications: int = 0


class Checked(msgspec.Struct, frozen=True):
    """How the combined tree's verification ended; `output` is for a person or a model."""

    passed: bool
    reason: str = ""
    output: str = ""


Verify = Callable[[Path, Sequence[str]], Awaitable[Checked]]
"""Run the commands in the folder, one after the other."""

OnStep = Callable[[str, str], None]
"""Told each stage (combine, verify, bisect, push) with a few words."""


class Train:
    """Lands cargo on one target. `tree` is the folder of its lasting worktree, `board` the board's path.

    `set_statuses` changes the board's bytes; `sleep` and `rng` serve the waits between refused pushes.
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
        check: str = "",
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        self._repository = repository
        self._upstream = upstream
        self._combiner = Combiner(repository)
        self._base = base
        self._run = run
        self._board = board
        self._tree = tree
        self._verify = verify
        self._set_statuses = set_statuses
        self._check = check
        self._sleep = sleep
        self._rng = rng or random.Random()
        self._verdicts: dict[tuple[str, str], Checked] = {}
        self._verifications = 0
        self._landed_paths: dict[str, tuple[str, ...]] = {}
        self.tip = base

    @property
    def target(self) -> str:
        """The branch that work lands on."""
        return self._upstream.target

    async def start(self) -> tuple[Landed, ...]:
        """Find the tip that work begins from, and give what earlier runs queued and has landed since."""
        upstream = await self._fetch()
        self.tip = await self._onto(upstream)
        return await self._settle(upstream)

    async def queue(self, task_id: str, commit: str) -> None:
        """Keep the commit for landing; it takes the place of what the task had queued before."""
        ref = f"{QUEUE}/{slug(task_id)}"
        before = await self._repository.commit_of(ref)
        await self._repository.run("update-ref", ref, commit, before or ZERO)

    async def known_green(self, commit: str, command: str) -> None:
        """Remember that the command passed over this commit's tree, so that it is not run there again."""
        self._verdicts[(await self._repository.tree_of(commit), command)] = Checked(True)

    async def land(
        self,
        cargo: Sequence[Cargo],
        *,
        also: Mapping[str, BoardStatus] | None = None,
        on_step: OnStep | None = None,
    ) -> TrainResult:
        """Land what can land by one push, and give back what cannot. `also` are further states for the board.

        Never raises for what the remote says: that becomes `problem`, and the cargo stays queued.
        """
        tell = on_step or (lambda stage, detail: None)
        self._verifications = 0
        left = list(cargo)
        returned: list[Returned] = []
        wait = 0.2
        for attempt in range(1, PUSHES + 1):
            try:
                upstream = await self._fetch()
                onto = await self._onto(upstream)
                tell("combine", f"{len(left)} branches")
                chain = await self._combine(onto, left, returned)
                chain = await self._drop_red(onto, chain, returned, tell)
                left = [member for member, _ in chain]
                tip = await self._mark(chain[-1][1] if chain else onto, left, also or {})
                if tip == upstream or (not left and tip == onto):
                    return self._result((), returned, tip=self.tip)
                await self._repository.run("update-ref", CURRENT, tip)
                tell("push", f"to {self._upstream.target}")
                await self._upstream.push(tip, expected=upstream)
            except PushRejectedError as error:
                landed = await self._ask(left) if error.kind == "unknown" else None
                if landed is not None:
                    return self._result(landed, returned, pushed=True, tip=self.tip)
                if error.kind in ("moved", "locked", "unknown") and attempt < PUSHES:
                    tell("push", f"{error.message}; again in {wait:.1f} s")
                    await self._sleep(wait * (0.5 + self._rng.random()))
                    wait *= 2
                    continue
                return self._result((), returned, tip=self.tip, problem=str(error))
            self.tip = await self._fetch() or tip
            landed = tuple(Landed(member.task_id, member.commit) for member in left)
            await self._record(landed)
            self._remember_paths(left)
            return self._result(landed, returned, pushed=True, tip=self.tip)
        raise AssertionError("the last attempt returns")

    # Combining

    async def _fetch(self) -> str | None:
        return await self._upstream.fetch()

    async def _onto(self, upstream: str | None) -> str:
        """Give the commit to build on: the target with the run's base in it."""
        if upstream is None:
            return self._base
        if await self._repository.is_ancestor(self._base, upstream):
            return upstream
        if await self._repository.is_ancestor(upstream, self._base):
            return self._base
        message = with_trailers(
            f"Merge {self._base[:10]} into {self._upstream.target}", {"Taskyard-Run": self._run}
        )
        try:
            return await self._combiner.merge(upstream, self._base, message)
        except MergeConflictError as error:
            raise PushRejectedError(
                f"{self._upstream.target} and your branch have diverged: {error.message}",
                f"merge {self._upstream.target} into your branch, then run again",
                kind="diverged",
            ) from error

    async def _combine(
        self, onto: str, cargo: Sequence[Cargo], returned: list[Returned]
    ) -> list[tuple[Cargo, str]]:
        """Merge one after the other; return a later one that conflicts. Gives each with the tip after it."""
        chain: list[tuple[Cargo, str]] = []
        tip = onto
        for member in cargo:
            message = with_trailers(
                f"Land {member.task_id}: {member.scope}"[:200],
                {"Taskyard-Task": member.task_id, "Taskyard-Run": self._run},
            )
            try:
                tip = await self._combiner.merge(tip, member.commit, message)
            except MergeConflictError as error:
                returned.append(await self._conflicting(member, error.paths, chain, onto))
            else:
                chain.append((member, tip))
        return chain

    async def _conflicting(
        self, member: Cargo, paths: tuple[str, ...], chain: Sequence[tuple[Cargo, str]], onto: str
    ) -> Returned:
        touched = set(paths)
        other = next((m.task_id for m, _ in reversed(chain) if touched.intersection(m.paths)), "")
        other = other or await self._who_landed(paths, onto)
        by = other or "what has landed meanwhile"
        where = ", ".join(paths)
        return Returned(
            member.task_id,
            f"clashes with {by}: {where}",
            f"Your change conflicts with {by} in {where}. You now work on a tree that already holds that change: "
            "do your task again on top of it, and keep what it does.",
            other,
            paths,
        )

    async def _who_landed(self, paths: tuple[str, ...], onto: str) -> str:
        """Name the task that last touched one of the paths, by the trailer of its commit."""
        log = await self._repository.run(
            "log",
            "-1",
            "--no-merges",
            "--format=%(trailers:key=Taskyard-Task,valueonly)",
            onto,
            "--",
            *(f":(literal){path}" for path in paths),
            check=False,
        )
        return log.stdout.strip().split("\n")[0]

    # Verifying

    async def _drop_red(
        self, onto: str, chain: list[tuple[Cargo, str]], returned: list[Returned], tell: OnStep
    ) -> list[tuple[Cargo, str]]:
        """Verify the combination; while it is red, find the first bad member, return it and build anew."""
        while chain:
            tell("verify", f"{len(chain)} together")
            checked = await self._verified(chain)
            if checked.passed:
                return chain
            # A flaky check must not send anybody back: once more before the search.
            again = await self._verified(chain, anew=True)
            if again.passed:
                tell("verify", f"flaky: red once, then green ({checked.reason})")
                return chain
            known = chain

            async def is_red(count: int, known: list[tuple[Cargo, str]] = known) -> bool:
                tell("bisect", f"first {count} of {len(known)}")
                return not (await self._verified(known[:count])).passed

            bad = await first_bad(len(chain), is_red)
            returned.append(self._red(chain, bad, again))
            chain = await self._combine(onto, [m for m, _ in (*chain[:bad], *chain[bad + 1 :])], returned)
        return chain

    def _red(self, chain: Sequence[tuple[Cargo, str]], bad: int, checked: Checked) -> Returned:
        member = chain[bad][0]
        before = [m for m, _ in chain[:bad]]
        near = [m.task_id for m in before if set(m.paths).intersection(member.paths)] or [
            m.task_id for m in before
        ]
        others = ", ".join(near[-3:])
        with_ = f" together with {others}" if others else " on the newest tip"
        return Returned(
            member.task_id,
            f"breaks the check{with_}: {checked.reason}",
            f"Your change passes alone, but{with_} the verification fails. You now work on a tree that holds those "
            f"changes.\n\n{checked.output}",
            near[-1] if near else "",
        )

    async def _verified(self, chain: Sequence[tuple[Cargo, str]], *, anew: bool = False) -> Checked:
        """Verify the combination of the chain: by the check of the settings, else by its members' own commands."""
        tip = chain[-1][1]
        commands = (
            (self._check,) if self._check else tuple(dict.fromkeys(member.command for member, _ in chain))
        )
        tree = await self._repository.tree_of(tip)
        open_ = [c for c in commands if anew or (tree, c) not in self._verdicts]
        known = [self._verdicts[tree, c] for c in commands if c not in open_]
        red = next((checked for checked in known if not checked.passed), None)
        if red is not None or not open_:
            return red or Checked(True)
        await self._checkout(tip)
        self._verifications += 1
        checked = await self._verify(self._tree, open_)
        if checked.passed:
            self._verdicts.update({(tree, c): checked for c in open_})
        elif len(open_) == 1:
            self._verdicts[tree, open_[0]] = checked
        return checked

    async def _checkout(self, commit: str) -> None:
        """Bring the lasting worktree to a commit; what is ignored (dependencies, caches) stays for the next time."""
        run = self._repository.run
        known = (self._tree / ".git").exists() and (
            await run("rev-parse", "--git-dir", cwd=self._tree, check=False)
        ).status == 0
        if not known:
            await run("worktree", "remove", "-f", "-f", str(self._tree), check=False)
            self._tree.parent.mkdir(parents=True, exist_ok=True)
            await run("worktree", "add", "--quiet", "--no-checkout", "--detach", str(self._tree), commit)
        await run("checkout", "--quiet", "--force", "--detach", commit, cwd=self._tree)
        await run("clean", "-ffdq", cwd=self._tree)

    # Landing

    async def _mark(self, tip: str, members: Sequence[Cargo], also: Mapping[str, BoardStatus]) -> str:
        """Give a child of `tip` whose board tells the new states."""
        states = {**also, **{member.task_id: BoardStatus.LANDED for member in members}}
        if not states:
            return tip
        names = ", ".join(member.task_id for member in members)
        title = f"Mark {names} as landed" if members else "Mark what failed"
        message = with_trailers(title, {"Taskyard-Run": self._run})
        return await self._combiner.with_file(
            tip, self._board, lambda data: self._set_statuses(data, states), message
        )

    async def _ask(self, cargo: Sequence[Cargo]) -> tuple[Landed, ...] | None:
        """After a push without an answer: give what landed by it, or None when it did not arrive."""
        upstream = await self._fetch()
        if (
            upstream is None
            or not cargo
            or not await self._repository.is_ancestor(cargo[-1].commit, upstream)
        ):
            return None
        self.tip = upstream
        landed = tuple(Landed(member.task_id, member.commit) for member in cargo)
        await self._record(landed)
        self._remember_paths(cargo)
        return landed

    async def _settle(self, upstream: str | None) -> tuple[Landed, ...]:
        """Give (and record) what is queued although the target already has it."""
        if upstream is None:
            return ()
        listing = await self._repository.run("for-each-ref", "--format=%(objectname) %(refname)", f"{QUEUE}/")
        landed = []
        for line in listing.stdout.splitlines():
            commit, _, _ = line.partition(" ")
            if await self._repository.is_ancestor(commit, upstream):
                task = await self._repository.line(
                    "log", "-1", "--format=%(trailers:key=Taskyard-Task,valueonly)", commit
                )
                landed.append(Landed(task, commit))
        await self._record(landed)
        return tuple(landed)

    async def _record(self, landed: Sequence[Landed]) -> None:
        """Move refs from the queue to landed, all in one transaction."""
        lines = []
        for item in landed:
            name = slug(item.task_id)
            lines.append(f"update {LANDED}/{name} {item.commit}\n")
            if await self._repository.commit_of(f"{QUEUE}/{name}") == item.commit:
                lines.append(f"delete {QUEUE}/{name} {item.commit}\n")
        if lines:
            await self._repository.run("update-ref", "--stdin", input="".join(lines).encode())

    def _remember_paths(self, members: Sequence[Cargo]) -> None:
        for member in members:
            self._landed_paths[member.task_id] = member.paths

    @property
    def landed_paths(self) -> Mapping[str, tuple[str, ...]]:
        """The files that each task landed by this train touched."""
        return self._landed_paths

    def _result(
        self,
        landed: tuple[Landed, ...],
        returned: Sequence[Returned],
        *,
        pushed: bool = False,
        tip: str = "",
        problem: str = "",
    ) -> TrainResult:
        return TrainResult(landed, tuple(returned), pushed, tip, problem, self._verifications)
