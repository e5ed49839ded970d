"""kill -9 before, during and after git commands: the next run finds everything, and lands each task exactly once."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.git.child import FAULT_POINT
from tests import forked
from tests.git.crash_run import TASKS
from tests.git.test_worktrees import state
from tests.git.trains import BOARD, TARGET, board
from tests.sample_repository import SampleRepository

Make = Callable[..., SampleRepository]
ROOT = Path(__file__).parents[2]
AT_ONCE = 4
POINTS = 24


async def crash_run(sample: SampleRepository, fault: str = "") -> tuple[int, str]:
    """Run in a process of its own; gives its exit status and what it said."""
    child = await asyncio.to_thread(
        forked.run,
        [sys.executable, "-m", "tests.git.crash_run", str(sample.path), str(sample.path.with_name("work"))],
        cwd=ROOT,
        env={**os.environ, **({FAULT_POINT: fault} if fault else {})},
        stderr=subprocess.STDOUT,
    )
    return child.returncode, child.stdout.decode()


@pytest.fixture
def copies(repo: Make, tmp_path: Path) -> Callable[[], SampleRepository]:
    """Copies of one repository, with a checkout that somebody works in."""
    first = repo({"README.md": "# Shop\n", BOARD: board(3)}, name="first/project")
    first.write({"README.md": "# Shop, being edited\n", "staged.txt": "s\n", "untracked.txt": "u\n"})
    first.git("add", "staged.txt")
    count = 0

    def make() -> SampleRepository:
        nonlocal count
        count += 1
        folder = tmp_path / f"copy{count}"
        shutil.copytree(first.path.parent, folder)
        copy = SampleRepository(folder / "project", folder / "project.git")
        copy.git("remote", "set-url", "origin", str(copy.remote))
        copy.git("status")  # The copied files have new times; the index must know them.
        return copy

    return make


async def survives(sample: SampleRepository, point: str) -> None:
    before = state(sample.path)
    status, _ = await crash_run(sample, point)
    assert status == -9, f"{point}: the run was not killed"
    status, said = await crash_run(sample)
    assert status == 0, f"{point}: {said}"
    git = sample.git
    for task in TASKS:
        landed = git(
            "log",
            "--merges",
            "--format=%h",
            "--fixed-strings",
            f"--grep=Taskyard-Task: {task}",
            TARGET,
            at=sample.remote,
        ).split()
        assert len(landed) == 1, f"{point}: {task} landed {len(landed)} times"
    assert sample.pushes(TARGET) == 1, point
    assert "[ ]" not in git("show", f"{TARGET}:{BOARD}", at=sample.remote), point
    assert "missing" not in git("fsck", "--no-dangling"), point
    assert len(git("worktree", "list").splitlines()) == 2, point  # The checkout and the train's.
    refs = git("for-each-ref", "--format=%(refname)").split()
    assert not [
        ref for ref in refs if "/queue/" in ref or "/kept/" in ref or ref.startswith("refs/heads/task/")
    ], point
    ours = sample.path / ".git" / "taskyard"
    locks = [path for path in (sample.path / ".git").rglob("*.lock") if path.parent != ours]
    assert locks == [], point
    assert state(sample.path) == before, point


@pytest.mark.parametrize("part", range(6))
async def test_killed_at_any_git_command_nothing_is_lost_or_made_twice(
    copies: Callable[[], SampleRepository], part: int
) -> None:
    """A part of the points, evenly spread; TASKYARD_ALL_FAULT_POINTS=1 takes every one."""
    status, said = await crash_run(copies())
    assert status == 0, said
    points = [f"{n}:{when}" for n in range(1, int(said) + 1) for when in ("before", "during", "after")]
    if not os.environ.get("TASKYARD_ALL_FAULT_POINTS"):
        step = len(points) / POINTS
        points = [points[int(k * step)] for k in range(POINTS)]
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(point: str) -> None:
        async with limit:
            await survives(copies(), point)

    await asyncio.gather(*(one(point) for point in points[part::6]))
