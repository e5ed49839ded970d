"""Merges in bulk are the merges git makes one by one, or none at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import pytest

from engine.board import combined, with_statuses
from engine.git.bulk import Member, merge_in_bulk
from engine.git.cargo import BoardFile
from engine.git.combine import Combiner
from engine.git.repository import Repository
from tests.sample_repository import SampleRepository

Make = Callable[..., SampleRepository]
REF = "refs/taskyard/train/test"
START = {"a.txt": "a\n", "d/b.txt": "b\n", "d/e/c.txt": "c\n"}


def branch(
    sample: SampleRepository, name: str, files: Mapping[str, str | None], *, base: str = "main"
) -> Member:
    """A commit over `base` that writes files (None: removes them)."""
    git = sample.git
    git("switch", "--quiet", "-c", name, base)
    for path, text in files.items():
        if text is None:
            git("rm", "--quiet", path)
        else:
            sample.write({path: text})
    commit = sample.commit(name)
    git("switch", "--quiet", "main")
    return Member(commit, f"Land {name} ünï\n\nTaskyard-Task: {name}\n")


async def in_bulk(sample: SampleRepository, *members: Member, onto: str = "main") -> tuple[str, ...] | None:
    repository = await Repository.open(sample.path, environ=os.environ)
    return await merge_in_bulk(repository, sample.git("rev-parse", onto), members, REF)


def fillers(sample: SampleRepository, count: int = 3) -> list[Member]:
    return [branch(sample, f"filler{n}", {f"filler/{n}.txt": "x\n"}) for n in range(count)]


async def test_they_are_the_merges_that_git_makes_one_by_one(repo: Make) -> None:
    sample = repo(START)
    old = sample.git("rev-parse", "main")
    sample.commit("The target goes on", {"later.txt": "l\n"})
    members = [
        branch(sample, "one", {"a.txt": "one\n", "näw file.txt": "x\n"}),
        branch(sample, "two", {"d/b.txt": "two\n"}, base=old),
        branch(sample, "three", {"d/e/f/g.txt": "three\n"}),
        branch(sample, "four", {"d/new.txt": "four\n"}, base=old),
        branch(sample, "five", {}),
    ]
    sample.git("switch", "--quiet", "-c", "modes")
    (sample.path / "link").symlink_to("a.txt")
    (sample.path / "run").write_text("#!/bin/sh\n")
    (sample.path / "run").chmod(0o755)
    members.append(Member(sample.commit("modes"), "Land modes\n"))
    sample.git("switch", "--quiet", "main")

    made = await in_bulk(sample, *members)
    assert made is not None
    repository = await Repository.open(sample.path, environ=os.environ)
    combiner = Combiner(
        repository, sample.path.with_name("scratch"), BoardFile("board.md", with_statuses, combined)
    )
    tip = sample.git("rev-parse", "main")
    before = tip
    for member, commit in zip(members, made, strict=True):
        tip = await combiner.merge(tip, member.commit, member.message)
        what = "--format=%T %an %ae %cn %ce %B"
        assert sample.git("log", "-1", what, commit) == sample.git("log", "-1", what, tip)
        assert sample.git("log", "-1", "--format=%P", commit) == f"{before} {member.commit}"
        before = commit
    assert sample.git("rev-parse", REF) == made[-1]
    assert sample.git("fsck", "--strict", "--no-dangling") == ""


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"a.txt": "one\n"}, {"a.txt": "two\n"}),
        ({"new.txt": "one\n"}, {"new.txt": "one\n"}),
        ({"n": "a file\n"}, {"n/x.txt": "in a folder\n"}),
        ({"n/x.txt": "in a folder\n"}, {"n": "a file\n"}),
        ({"a.txt": None}, {"new.txt": "two\n"}),
        (
            {"d/b.txt": None, "d/e/c.txt": None, "moved/b.txt": "b\n", "moved/e/c.txt": "c\n"},
            {"d/new.txt": "x\n"},
        ),
    ],
)
async def test_what_may_touch_is_left_to_real_merges(
    repo: Make, one: dict[str, str | None], two: dict[str, str | None]
) -> None:
    sample = repo(START)
    members = [*fillers(sample), branch(sample, "one", one), branch(sample, "two", two)]
    assert await in_bulk(sample, *members) is None


async def test_what_the_target_changed_since_is_left_to_real_merges(repo: Make) -> None:
    sample = repo(START)
    member = branch(sample, "one", {"a.txt": "a\nmore\n"})
    members = fillers(sample)
    assert await in_bulk(sample, member, *members) is not None
    sample.commit("The target touches it", {"a.txt": "before\na\n"})
    assert await in_bulk(sample, member, *members) is None


async def test_a_folder_that_the_target_renamed_is_left_to_real_merges(repo: Make) -> None:
    sample = repo(START)
    members = [*fillers(sample), branch(sample, "one", {"d/new.txt": "x\n"})]
    sample.git("mv", "d", "moved")
    sample.commit("Rename the folder")
    assert await in_bulk(sample, *members) is None


async def test_a_commit_that_the_target_has_is_left_to_real_merges(repo: Make) -> None:
    sample = repo(START)
    member = branch(sample, "one", {"a.txt": "one\n"})
    members = fillers(sample)
    sample.git("merge", "--quiet", "--no-ff", "--no-edit", member.commit)
    assert await in_bulk(sample, member, *members) is None


@pytest.mark.parametrize("name", ['"quoted".txt', "two\nlines.txt"])
async def test_names_that_would_need_quoting_are_left_to_real_merges(repo: Make, name: str) -> None:
    sample = repo(START)
    assert await in_bulk(sample, *fillers(sample), branch(sample, "odd", {name: "x\n"})) is None


async def test_a_few_are_not_worth_it_and_merges_or_strangers_are_no_single_commits(repo: Make) -> None:
    sample = repo(START)
    members = fillers(sample)
    assert await in_bulk(sample, *members) is None
    stranger = sample.git("commit-tree", "-m", "alone", "main^{tree}")
    assert await in_bulk(sample, *members, Member(stranger, "x\n")) is None
    ahead = sample.commit("Not in the target", {"z.txt": "z\n"})
    member = branch(sample, "later", {"y.txt": "y\n"}, base=ahead)
    assert await in_bulk(sample, *members, member, onto="main^") is None
