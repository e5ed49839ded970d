"""Worktrees of a repository that was moved or copied, and of another state folder."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import GitError
from engine.git.keeping import KEPT
from engine.git.leftovers import leftovers
from engine.git.repository import Repository
from engine.git.worktrees import Worktree, Worktrees
from tests.sample_repository import SampleRepository

Make = Callable[..., SampleRepository]
BOARD = "tasks/board.md"
NOBODY = 999_999_999


async def worktrees(path: Path, root: Path) -> Worktrees:
    return Worktrees(await Repository.open(path, environ=os.environ), root, BOARD)


async def left_behind(sample: SampleRepository, root: Path) -> tuple[Worktree, str]:
    """A worktree with a commit and an unfinished file, whose process has died; with the commit."""
    trees = await worktrees(sample.path, root)
    made = await trees.create("T1", sample.git("rev-parse", "HEAD"))
    (made.path / "a.txt").write_text("committed\n")
    change = await trees.commit(made, "T1", {"Taskyard-Task": "T1"})
    assert change is not None
    (made.path / "b.txt").write_text("unfinished\n")
    ready = Path(sample.git("rev-parse", "--absolute-git-dir", at=made.path)) / "taskyard-ready"
    ready.write_text(f"{NOBODY} {socket.gethostname()}\n")
    return made, change.commit


def registered(sample: SampleRepository) -> list[str]:
    lines = sample.git("worktree", "list", "--porcelain").splitlines()
    return [line[9:] for line in lines if line.startswith("worktree ")][1:]


def kept(sample: SampleRepository) -> set[str]:
    """What is kept of T1: each commit's files, by their names and contents."""
    found = set()
    for commit in sample.git("for-each-ref", "--format=%(objectname)", f"{KEPT}/T1/").split():
        for name in sample.git("ls-tree", "--name-only", commit).split():
            found.add(f"{name}: {sample.git('show', f'{commit}:{name}')}")
    return found


async def test_another_state_folder(repo: Make, tmp_path: Path) -> None:
    sample = repo({"a.txt": "one\n"})
    old, _ = await left_behind(sample, tmp_path / "old" / "board")
    base = sample.git("rev-parse", "HEAD")
    trees = await worktrees(sample.path, tmp_path / "new" / "board")
    (listed,) = await leftovers(trees._repository, trees.root, landed_in=base)
    assert (listed.path, listed.branch, listed.unlanded, listed.dirty) == (old.path, "task/T1", 1, 1)
    made = await trees.create("T1", base)
    assert registered(sample) == [str(made.path)]
    assert (made.path / "a.txt").read_text() == "one\n"
    assert not old.path.exists()
    assert kept(sample) == {"a.txt: committed", "b.txt: unfinished"}


async def test_a_moved_repository(repo: Make, tmp_path: Path) -> None:
    sample = repo({"a.txt": "one\n"})
    old, commit = await left_behind(sample, tmp_path / "old" / "board")
    sample.path.rename(tmp_path / "renamed")
    moved = SampleRepository(tmp_path / "renamed", sample.remote)
    base = moved.git("rev-parse", "HEAD")
    trees = await worktrees(moved.path, tmp_path / "new" / "board")
    (listed,) = await leftovers(trees._repository, trees.root, landed_in=base)
    assert (listed.path, listed.dirty, listed.missing) == (old.path, 1, False)
    (words,) = await trees.mend()
    assert "1 worktree of this repository lay elsewhere" in words
    assert words.endswith("all work is kept: T1")
    assert registered(moved) == []
    assert moved.git("rev-parse", "task/T1") == commit
    assert kept(moved) == {"a.txt: committed", "b.txt: unfinished"}
    assert (await trees.create("T1", base)).path == tmp_path / "new" / "board" / "T1"


async def test_a_copied_repository_leaves_the_folders_of_the_first_alone(repo: Make, tmp_path: Path) -> None:
    sample = repo({"a.txt": "one\n"})
    old, commit = await left_behind(sample, tmp_path / "old" / "board")
    shutil.copytree(sample.path, tmp_path / "copy", symlinks=True)
    copy = SampleRepository(tmp_path / "copy", sample.remote)
    trees = await worktrees(copy.path, tmp_path / "new" / "board")
    base = copy.git("rev-parse", "HEAD")
    (listed,) = await leftovers(trees._repository, trees.root, landed_in=base)
    assert (listed.path, listed.missing, listed.unlanded) == (old.path, True, 1)
    made = await trees.create("T1", base)
    assert registered(copy) == [str(made.path)]
    assert copy.git("for-each-ref", "--format=%(objectname)", KEPT) == commit
    assert (old.path / "b.txt").read_text() == "unfinished\n"
    assert registered(sample) == [str(old.path)]
    assert sample.git("status", "--porcelain", at=old.path) == "?? b.txt"


async def test_a_folder_that_is_gone(repo: Make, tmp_path: Path) -> None:
    sample = repo({"a.txt": "one\n"})
    old, commit = await left_behind(sample, tmp_path / "old" / "board")
    shutil.rmtree(old.path)
    trees = await worktrees(sample.path, tmp_path / "new" / "board")
    made = await trees.create("T1", sample.git("rev-parse", "HEAD"))
    assert registered(sample) == [str(made.path)]
    assert sample.git("for-each-ref", "--format=%(objectname)", KEPT) == commit


@pytest.mark.parametrize("left", ["bytes", "a pipe", "nul"])
async def test_a_folder_whose_link_an_agent_spoilt_is_left_alone(
    repo: Make, tmp_path: Path, left: str
) -> None:
    sample = repo({"a.txt": "one\n"})
    old, _ = await left_behind(sample, tmp_path / "old" / "board")
    link = old.path / ".git"
    link.unlink()
    if left == "a pipe":
        os.mkfifo(link)
    else:
        link.write_bytes(b"gitdir: /\xe9t\xe9\n" if left == "bytes" else b"gitdir: a\0b\n")
    trees = await worktrees(sample.path, tmp_path / "new" / "board")
    made = await trees.create("T1", sample.git("rev-parse", "HEAD"))
    assert registered(sample) == [str(made.path)]


async def test_a_folder_that_is_somebody_elses_now(repo: Make, tmp_path: Path) -> None:
    sample = repo({"a.txt": "one\n"})
    old, _ = await left_behind(sample, tmp_path / "old" / "board")
    (old.path / ".git").unlink()
    (old.path / "notes.txt").write_text("mine\n")
    trees = await worktrees(sample.path, tmp_path / "new" / "board")
    await trees.create("T1", sample.git("rev-parse", "HEAD"))
    assert (old.path / "notes.txt").read_text() == "mine\n"


async def test_a_run_that_is_alive_there_is_not_disturbed(repo: Make, tmp_path: Path) -> None:
    sample = repo({"a.txt": "one\n"})
    base = sample.git("rev-parse", "HEAD")
    other = await (await worktrees(sample.path, tmp_path / "boards" / "one")).create("T1", base)
    trees = await worktrees(sample.path, tmp_path / "boards" / "two")
    with pytest.raises(GitError, match="another run works on task/T1"):
        await trees.create("T1", base)
    assert await trees.mend() == ()
    assert registered(sample) == [str(other.path)]
