"""The refs that a train's state lies in: what waits to land, what is on its way, what has landed."""

from __future__ import annotations

from collections.abc import Sequence

from engine.git.cargo import Landed
from engine.git.names import in_space, slug
from engine.git.repository import Repository


def landed_refs(target: str) -> str:
    """Give the prefix of the refs that say what has landed on a target; the task's `slug` follows."""
    return f"refs/taskyard/landed/{slug(target)}"


async def landed_in(repository: Repository, target: str, task_id: str) -> str:
    """Give the id of the run whose commit of the task landed on the target; empty where nothing tells."""
    ref = f"{landed_refs(target)}/{slug(task_id)}"
    form = "--format=%(trailers:key=Taskyard-Run,valueonly,separator=%x01)"
    found = await repository.run("log", "-1", form, ref, "--", check=False)
    return found.stdout.strip() if found.status == 0 else ""


class LandingRefs:
    """The refs of one target; `space` parts the queue and `current`, the tip on its way, from other processes'."""

    def __init__(self, repository: Repository, target: str, space: str) -> None:
        name = in_space(slug(target), space)
        self._repository = repository
        self._queue = f"refs/taskyard/queue/{name}"
        self._landed = landed_refs(target)
        self.current = f"refs/taskyard/train/{name}"

    async def queue(self, task_id: str, commit: str) -> None:
        """Keep the commit for landing; it takes the place of what the task had queued before."""
        ref = f"{self._queue}/{slug(task_id)}"
        made = await self._repository.run("update-ref", ref, commit, "", check=False)
        if made.status != 0:
            before = await self._repository.commit_of(ref)
            await self._repository.run("update-ref", ref, commit, before or "")

    async def pin(self, tip: str) -> None:
        """Keep the tip that is on its way reachable."""
        await self._repository.run("update-ref", self.current, tip)

    async def settle(self, upstream: str) -> tuple[Landed, ...]:
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
        await self.record(landed)
        return tuple(landed)

    async def record(self, landed: Sequence[Landed]) -> None:
        """Move refs from the queue to landed, all in one transaction."""
        if not landed:
            return
        listing = await self._repository.run(
            "for-each-ref", "--format=%(objectname) %(refname)", f"{self._queue}/", self.current
        )
        queued = {ref: commit for commit, ref in (line.split(" ", 1) for line in listing.stdout.splitlines())}
        lines = [f"delete {self.current}\n"] if self.current in queued else []
        for item in landed:
            name = slug(item.task_id)
            lines.append(f"update {self._landed}/{name} {item.commit}\n")
            if queued.get(f"{self._queue}/{name}") == item.commit:
                lines.append(f"delete {self._queue}/{name} {item.commit}\n")
        await self._repository.run("update-ref", "--stdin", input="".join(lines).encode())
