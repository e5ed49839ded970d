"""The user's branches and tags, which all worktrees share, over a real repository."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from engine.git.ref_guard import RefChange, RefGuard
from engine.git.repository import Repository
from tests.sample_repository import SampleRepository

Make = Callable[..., SampleRepository]


class Yard(NamedTuple):
    """A repository with the user's branches and a tag, and the worktrees of two tasks."""

    sample: SampleRepository
    repository: Repository
    guard: RefGuard
    base: str
    one: Path
    two: Path

    def commit(self, at: Path, text: str) -> str:
        (at / "made.txt").write_text(text)
        self.sample.git("add", "made.txt", at=at)
        self.sample.git("commit", "--quiet", f"--message={text}", at=at)
        return self.sample.git("rev-parse", "HEAD", at=at)

    def at(self, ref: str) -> str:
        return self.sample.git("for-each-ref", "--format=%(objectname)", ref)


@pytest.fixture
async def yard(repo: Make, tmp_path: Path) -> Yard:
    sample = repo({"a.txt": "a\n"})
    sample.git("branch", "develop")
    sample.git("tag", "v1")
    trees = []
    for task in ("T1", "T2"):
        trees.append(tmp_path / "worktrees" / task)
        sample.git("worktree", "add", "--quiet", "-b", f"task/{task}", str(trees[-1]))
    repository = await Repository.open(sample.path, environ=os.environ)
    return Yard(sample, repository, RefGuard(repository), sample.git("rev-parse", "HEAD"), *trees)


async def test_what_an_agent_moved_or_made_is_put_back_and_its_commit_kept(yard: Yard) -> None:
    git, base = yard.sample.git, yard.base
    work = await yard.guard.begin(yard.one)
    made = yard.commit(yard.one, "mine")
    git("update-ref", "refs/heads/main", made, at=yard.one)
    git("tag", "--force", "-a", "-m", "words", "v1", made, at=yard.one)
    git("switch", "--quiet", "-c", "other", at=yard.one)
    kept = f"refs/taskyard/kept/T1/{made[:12]}"
    assert await yard.guard.end(work) == (
        RefChange("refs/heads/main", base, made, kept),
        RefChange("refs/heads/other", "", made, kept),
        RefChange("refs/tags/v1", base, made, kept),
    )
    assert (yard.at("refs/heads/main"), yard.at("refs/tags/v1"), yard.at("refs/heads/other")) == (
        base,
        base,
        "",
    )
    assert yard.at(kept) == git("rev-parse", "HEAD", at=yard.one) == made
    assert git("status", "--porcelain") == git("status", "--porcelain", at=yard.one) == ""


async def test_a_branch_made_without_a_commit_goes_when_the_worktree_stands_on_it(yard: Yard) -> None:
    work = await yard.guard.begin(yard.one)
    yard.sample.git("switch", "--quiet", "-c", "other", at=yard.one)
    assert [change.put_back for change in await yard.guard.end(work)] == [True]
    assert yard.at("refs/heads/other") == ""


async def test_what_the_user_does_in_a_checkout_stays_and_is_not_told(yard: Yard) -> None:
    git = yard.sample.git
    work = await yard.guard.begin(yard.one)
    by_user = yard.commit(yard.sample.path, "by the user")
    git("branch", "new", "develop")
    git("tag", "v2")
    assert await yard.guard.end(work) == ()
    assert yard.at("refs/heads/main") == yard.at("refs/tags/v2") == by_user


async def test_a_merge_of_the_agents_commit_by_the_user_stays_and_is_told(yard: Yard) -> None:
    work = await yard.guard.begin(yard.one)
    made = yard.commit(yard.one, "mine")
    yard.sample.git("merge", "--quiet", "task/T1")
    assert await yard.guard.end(work) == (RefChange("refs/heads/main", yard.base, made),)
    assert yard.at("refs/heads/main") == made


async def test_what_may_have_been_anybody_stays_and_is_told_once(yard: Yard) -> None:
    git, base = yard.sample.git, yard.base
    newer = yard.commit(yard.sample.path, "newer")
    first, second = await yard.guard.begin(yard.one), await yard.guard.begin(yard.two)
    git("branch", "--force", "develop", newer, at=yard.one)
    git("tag", "--delete", "v1", at=yard.one)
    assert await yard.guard.end(first) == (
        RefChange("refs/heads/develop", base, newer),
        RefChange("refs/tags/v1", base, ""),
    )
    assert await yard.guard.end(second) == ()


async def test_what_one_agent_does_is_left_to_its_own_end(yard: Yard) -> None:
    git = yard.sample.git
    first, second = await yard.guard.begin(yard.one), await yard.guard.begin(yard.two)
    made = yard.commit(yard.two, "of two")
    git("switch", "--quiet", "-c", "draft", at=yard.two)
    git("update-ref", "refs/heads/main", made, at=yard.two)
    assert await yard.guard.end(first) == ()
    assert yard.at("refs/heads/draft") == made
    git("switch", "--quiet", "task/T2", at=yard.two)
    git("branch", "-D", "draft", at=yard.two)
    kept = f"refs/taskyard/kept/T2/{made[:12]}"
    assert await yard.guard.end(second) == (RefChange("refs/heads/main", yard.base, made, kept),)


async def test_what_happens_between_two_programs_is_nobodys(yard: Yard) -> None:
    await yard.guard.end(await yard.guard.begin(yard.one))
    yard.sample.git("tag", "--delete", "v1")
    assert await yard.guard.end(await yard.guard.begin(yard.one)) == ()


async def test_what_a_train_lands_is_not_told(yard: Yard) -> None:
    git = yard.sample.git
    work = await yard.guard.begin(yard.one)
    tree = git("rev-parse", "HEAD^{tree}")
    landed = git("commit-tree", "-p", "HEAD", "-m", "Merge\n\nTaskyard-Run: r1", tree)
    git("update-ref", "refs/heads/develop", landed)
    assert await yard.guard.end(work) == ()
