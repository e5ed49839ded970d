"""A run in a process of its own, for the tests that kill it: four tasks, one train, worktrees released.

    python -m tests.git.crash_run CHECKOUT WORKTREES

Started again, it goes on from what it finds in git alone. It prints how many git commands it took.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.board import combined, with_statuses
from engine.git.child import commands
from engine.git.names import slug
from engine.git.repository import Repository
from engine.git.train import Cargo, Checked, Train
from engine.git.upstream import Upstream
from engine.git.worktrees import Worktrees
from tests.git.trains import BOARD, TARGET

TASKS = ("T1", "T2", "T3", "fix: a/b")


async def main(checkout: Path, root: Path) -> None:
    """See the module's text."""

    async def verify(tree: Path, commands: Sequence[str]) -> Checked:
        return Checked((tree / "README.md").exists())

    repository = await Repository.open(checkout, environ=os.environ)
    base = await repository.commit_of("HEAD")
    assert base is not None
    worktrees = Worktrees(repository, root, BOARD)
    await worktrees.mend()
    train = Train(
        repository,
        Upstream(repository, "origin", TARGET, timeout=20),
        base=base,
        run="r1",
        board=BOARD,
        tree=root / "_train",
        verify=verify,
        set_statuses=with_statuses,
        combine_boards=combined,
        check="true",
    )
    done = {item.task_id for item in await train.start()}
    for task in TASKS:
        if await repository.commit_of(f"refs/taskyard/landed/{slug(TARGET)}/{slug(task)}"):
            done.add(task)

    async def work(task: str) -> Cargo:
        queued = await repository.commit_of(f"refs/taskyard/queue/{slug(TARGET)}/{slug(task)}")
        if queued is None:
            made = await worktrees.create(task, train.tip)
            (made.path / f"{slug(task)}.txt").write_text(task)
            change = await worktrees.commit(made, task, {"Taskyard-Task": task, "Taskyard-Run": "r1"})
            assert change is not None
            queued = change.commit
            await train.queue(task, queued)
        return Cargo(task, f"Make {task}", queued, "true", (f"{slug(task)}.txt",))

    # One after the other, so that the n-th command is the same each time.
    cargo = [await work(task) for task in TASKS if task not in done]
    if cargo:
        result = await train.land(cargo)
        assert len(result.landed) == len(cargo), result
    for task in TASKS:
        assert await worktrees.release(task, landed_in=train.tip), task
    print(next(commands) - 1)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
