"""Lock files of a git that was killed with all else: removed once nobody can hold them, and never before."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.git import stale
from engine.git.repository import Repository
from engine.git.stale import drop_stale_locks
from tests.sample_repository import SampleRepository

Make = Callable[..., SampleRepository]


def locks(sample: SampleRepository) -> list[Path]:
    git = sample.path / ".git"
    made = [git / "packed-refs.lock", git / "refs/taskyard/queue/b/T1.lock", git / "refs/heads/task/T1.lock"]
    for path in (*made, git / "refs/heads/theirs.lock"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return made


async def test_what_nobody_holds_goes_and_the_rest_stays(repo: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stale, "OLD", 0.2)
    sample = repo()
    repository = await Repository.open(sample.path, environ=os.environ)
    assert await drop_stale_locks(repository) == ()
    made = locks(sample)
    gone = await drop_stale_locks(repository)
    assert sorted(gone) == sorted(path.relative_to(sample.path / ".git").as_posix() for path in made)
    assert [path for path in made if path.exists()] == []
    assert (sample.path / ".git/refs/heads/theirs.lock").exists(), "it is not ours to remove"
    sample.git("update-ref", "refs/taskyard/queue/b/T1", "HEAD")


async def test_while_a_git_works_there_nothing_is_touched(
    repo: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stale, "OLD", 0.2)
    sample = repo()
    repository = await Repository.open(sample.path, environ=os.environ)
    made = locks(sample)
    command = ["git", "-C", str(sample.path), "cat-file", "--batch"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as git:
        assert git.stdin is not None
        assert git.stdout is not None
        git.stdin.write(b"HEAD\n")
        git.stdin.flush()
        assert git.stdout.readline()
        assert await drop_stale_locks(repository) == ()
    assert all(path.exists() for path in made)
