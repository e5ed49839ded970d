"""Each state a repository can be in has one clear word, over a real repository."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from engine.errors import GitError, PreflightError, PushRejectedError
from engine.git import preflight as preflight_module
from engine.git.preflight import Preflight, preflight
from engine.git.repository import Repository
from engine.git.upstream import Upstream
from engine.git.worktrees import Worktrees
from tests.git.trains import BOARD, TARGET, board, old_git, slow_git
from tests.sample_repository import SampleRepository, make_sample_repository

Make = Callable[..., SampleRepository]


async def look(
    path: Path,
    *,
    remote: str = "origin",
    target: str = TARGET,
    sparse: Sequence[str] = (),
    ours: Sequence[Path] = (),
) -> Preflight:
    repository = await Repository.open(path, environ=os.environ)
    return await preflight(repository, remote=remote, target=target, timeout=20, sparse=sparse, ours=ours)


def notice(found: Preflight, words: str) -> str:
    (told,) = [text for text in found.notices if words in text]
    return told


async def test_a_repository_in_order_gives_no_notice(repo: Make) -> None:
    sample = repo({BOARD: board(2)})
    head = sample.git("rev-parse", "HEAD")
    assert await look(sample.path) == Preflight(head, TARGET, "origin", None)
    sample.git("push", "--quiet", "origin", f"HEAD:refs/heads/{TARGET}")
    assert await look(sample.path) == Preflight(head, TARGET, "origin", head)


async def test_nothing_is_written(repo: Make) -> None:
    sample = repo()
    sample.write({"untracked.txt": "u\n"})
    before = sample.git("for-each-ref"), sample.git("status", "--porcelain"), sample.git("config", "--list")
    await look(sample.path)
    assert before == (
        sample.git("for-each-ref"), sample.git("status", "--porcelain"), sample.git("config", "--list")
    )  # fmt: skip


async def test_many_may_look_at_once_after_the_remote_has_moved(repo: Make) -> None:
    """They fetch into the same ref, and git lets one of them move it."""
    sample = repo({BOARD: board(2)})
    for n in range(5):
        sample.commit(f"Step {n}")
        sample.git("push", "--quiet", "origin", f"HEAD:refs/heads/{TARGET}")
        tip = sample.git("rev-parse", "HEAD")
        found = await asyncio.gather(*[look(sample.path) for _ in range(4)])
        assert {each.tip for each in found} == {tip}


async def test_an_unborn_branch_needs_a_first_commit(tmp_path: Path) -> None:
    sample = SampleRepository(tmp_path, tmp_path)
    sample.git("init", "--quiet")
    with pytest.raises(PreflightError, match="has no commit yet: make a first commit"):
        await look(tmp_path)


async def test_a_detached_head_is_told(repo: Make) -> None:
    sample = repo()
    sample.git("switch", "--quiet", "--detach")
    found = await look(sample.path)
    assert TARGET in notice(found, "HEAD is detached")
    assert found.base == sample.git("rev-parse", "HEAD")


async def test_a_bare_repository_has_no_board(repo: Make) -> None:
    with pytest.raises(PreflightError, match="is a bare repository"):
        await look(repo().remote)


async def test_a_shallow_clone_is_refused_with_the_command(repo: Make, tmp_path: Path) -> None:
    sample = repo()
    sample.commit("Second")
    sample.git("push", "--quiet", "origin", "main")
    sample.git("clone", "--quiet", "--depth=1", f"file://{sample.remote}", str(tmp_path / "shallow"))
    with pytest.raises(PreflightError, match="git fetch --unshallow"):
        await look(tmp_path / "shallow")


async def test_a_linked_worktree_is_a_fine_place_to_start(repo: Make, tmp_path: Path) -> None:
    sample = repo()
    linked = tmp_path / "linked"
    sample.git("worktree", "add", "--quiet", "-b", "side", str(linked))
    side = sample.git("rev-parse", "HEAD", at=linked)
    found = await look(linked)
    assert (found.base, found.notices) == (side, ())


async def test_submodules_are_told(repo: Make) -> None:
    library, sample = repo(name="library"), repo(name="app")
    sample.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library.remote), "lib")
    sample.commit("With a library")
    notice(await look(sample.path), "submodules")


async def test_lfs_files_stay_pointers_without_git_lfs(
    repo: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = repo(
        {
            "art/x.bin": "version https://git-lfs.github.com/spec/v1\n",
            "art/.gitattributes": "*.bin filter=lfs\n",
        }
    )
    for name in ("smudge", "clean", "process"):
        sample.git("config", f"filter.lfs.{name}", f"no-such-program {name}")
    sample.git("config", "filter.lfs.required", "true")
    bin_without_lfs(tmp_path / "bin", monkeypatch)
    found = await look(sample.path)
    notice(found, "git-lfs is not installed")
    repository = await Repository.open(sample.path, environ=os.environ)
    made = await Worktrees(repository, tmp_path / "work", BOARD).create("T1", found.base)
    assert (made.path / "art" / "x.bin").read_text().startswith("version https://git-lfs")


def bin_without_lfs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PATH with git, the shell's tools and nothing else."""
    folder.mkdir()
    for name in ("git", "env", "sh"):
        place = next(p for p in map(Path, os.environ["PATH"].split(":")) if (p / name).exists())
        (folder / name).symlink_to(place / name)
    monkeypatch.setenv("PATH", str(folder))


async def test_a_missing_identity_names_the_commands(repo: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = repo()
    sample.git("config", "user.useConfigOnly", "true")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    with pytest.raises(PreflightError, match=r"who you are: run git config user\.name"):
        await look(sample.path)


async def test_hooks_that_lead_nowhere_are_told(repo: Make) -> None:
    sample = repo()
    sample.git("config", "core.hooksPath", "no/such/folder")
    notice(await look(sample.path), "core.hooksPath names no/such/folder")


async def test_signing_that_does_not_work_is_found_before_the_run(repo: Make, tmp_path: Path) -> None:
    sample = repo()
    gpg = tmp_path / "gpg"
    gpg.write_text("#!/bin/sh\necho 'gpg: no agent' >&2\nexit 2\n")
    gpg.chmod(0o755)
    sample.git("config", "gpg.program", str(gpg))
    assert (await look(sample.path)).notices == ()
    sample.git("config", "commit.gpgSign", "true")
    with pytest.raises(PreflightError, match=r"commit\.gpgSign.*unlock the key"):
        await look(sample.path)


async def test_a_branch_named_task_is_in_the_way(repo: Make) -> None:
    sample = repo()
    sample.git("branch", "task")
    with pytest.raises(PreflightError, match="git branch -m task"):
        await look(sample.path)


@pytest.mark.parametrize("remote", ["origin", ""])
async def test_a_branch_in_the_way_of_the_target_is_named(repo: Make, remote: str) -> None:
    sample = repo()
    sample.git("branch", "taskyard")
    sample.git("push", "--quiet", "origin", "taskyard")
    with pytest.raises(PreflightError, match="a branch named `taskyard` is in the way of taskyard/board"):
        await look(sample.path, remote=remote)


@pytest.mark.parametrize("target", ["a..b", "-x", "--force", "HEAD", "@{-1}", ""])
async def test_a_target_that_is_no_branch_name_is_refused(repo: Make, target: str) -> None:
    sample = repo()
    sample.git("switch", "--quiet", "--create", "other")
    with pytest.raises(PreflightError, match=f"{re.escape(repr(target))} is no legal branch name"):
        await look(sample.path, target=target)


async def test_a_dirty_tree_is_told_and_left_alone(repo: Make) -> None:
    sample = repo({"a.txt": "a\n"})
    sample.write({"a.txt": "dirty\n"})
    notice(await look(sample.path), "tasks do not see 1 changed file of your checkout")
    assert (sample.path / "a.txt").read_text() == "dirty\n"


async def test_files_of_ours_are_nothing_that_tasks_miss(repo: Make, tmp_path: Path) -> None:
    """Each run over a shared lessons file complained of what the run before it had written there."""
    sample = repo({"tasks/[a] b.jsonl": "", "tasks/a b.jsonl": "", BOARD: board(1), "a.txt": "a\n" * 9})
    mine = [sample.path / "tasks" / "[a] b.jsonl", sample.path / BOARD, tmp_path / "elsewhere.jsonl"]
    sample.write({"tasks/[a] b.jsonl": "{}\n", BOARD: board(2)})
    assert (await look(sample.path, ours=mine)).notices == ()
    sample.write({"tasks/a b.jsonl": "{}\n"})
    notice(await look(sample.path, ours=mine), "tasks do not see 1 changed file of your checkout")
    sample.git("mv", "a.txt", "b.txt")
    # A file that was moved is one that is gone, and one that is new.
    notice(await look(sample.path, ours=mine), "tasks do not see 3 changed files of your checkout")


async def test_spaces_and_unicode_in_paths(tmp_path: Path) -> None:
    sample = make_sample_repository(tmp_path / "mein Läden 店" / "x y", {"ä b.txt": "x\n"})
    found = await look(sample.path)
    assert (found.base, found.notices) == (sample.git("rev-parse", "HEAD"), ())


async def test_git_variables_in_the_environment_change_nothing(
    repo: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample, other = repo(name="one"), repo(name="other")
    other.commit("Ahead")
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.path))
    found = await look(sample.path)
    monkeypatch.undo()
    assert found.base == sample.git("rev-parse", "HEAD")


async def test_a_git_without_merge_tree_is_told_and_an_older_one_refused(
    repo: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = repo()
    with monkeypatch.context() as patch:
        old_git(tmp_path / "old", patch, "2.37.2")
        notice(await look(sample.path), "git 2.37 cannot merge without a checkout")
    old_git(tmp_path / "older", monkeypatch, "2.17.1")
    with pytest.raises(PreflightError, match=r"git 2\.17 is too old"):
        await look(sample.path)


async def test_very_many_files_name_the_setting_that_checks_out_fewer(
    repo: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight_module, "MANY_FILES", 2)
    sample = repo({"src/a.py": "", "src/b.py": "", "docs/c.md": "", "README.md": ""})
    told = notice(await look(sample.path), "4 files")
    assert told.endswith('name the folders that tasks need, [git] sparse = ["src", "tests"]')
    assert (await look(sample.path, sparse=["src"])).notices == ()
    notice(await look(sample.path, sparse=["src", "test"]), "[git] sparse names test, which is no folder")


async def test_a_git_too_old_for_some_folders_only_is_refused(
    repo: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = repo({"src/a.py": ""})
    old_git(tmp_path / "old", monkeypatch, "2.36.1")
    with pytest.raises(PreflightError, match=r"git 2\.36 is too old for \[git\] sparse"):
        await look(sample.path, sparse=["src"])


async def test_no_remote_is_told(repo: Make) -> None:
    sample = repo()
    found = await look(sample.path, remote="")
    assert found.remote is None
    notice(found, "work lands in this repository only")
    sample.git("remote", "remove", "origin")
    found = await look(sample.path)
    assert found.remote is None
    notice(found, "there is no remote origin")


async def test_a_remote_of_another_name_is_asked_for(repo: Make) -> None:
    sample = repo()
    sample.git("remote", "rename", "origin", "upstream")
    with pytest.raises(PreflightError, match=r"set \[git\] remote to one of: upstream"):
        await look(sample.path)


async def test_a_remote_that_does_not_answer_is_told_before_the_run(repo: Make) -> None:
    sample = repo()
    sample.remote.rename(sample.remote.with_name("away"))
    with pytest.raises(PreflightError, match=r"origin cannot be reached.*check the network"):
        await look(sample.path)


async def test_a_target_that_is_checked_out_here_cannot_be_moved(repo: Make) -> None:
    sample = repo()
    with pytest.raises(PreflightError, match=r"main is checked out in .* and is never moved there"):
        await look(sample.path, remote="", target="main")


async def test_commits_that_are_not_pushed_are_told(repo: Make) -> None:
    sample = repo()
    pushed = sample.git("rev-parse", "HEAD")
    mine = sample.commit("Mine alone")
    found = await look(sample.path)
    assert found.base == mine
    notice(found, "origin lacks 1 commit of yours")
    direct = await look(sample.path, target="main")
    assert direct.base == pushed
    notice(direct, "your main has 1 commit that origin has not: tasks begin from origin/main")


async def test_a_checkout_behind_its_remote_begins_from_the_remote(repo: Make, tmp_path: Path) -> None:
    sample = repo()
    other = SampleRepository(tmp_path / "other", sample.remote)
    sample.git("clone", "--quiet", str(sample.remote), str(other.path))
    theirs = other.commit("Theirs")
    other.git("push", "--quiet", "origin", "main")
    found = await look(sample.path, target="main")
    assert found.base == theirs
    notice(found, "your main is behind: tasks begin from origin/main")


async def test_a_remote_that_does_not_answer_in_time_names_its_time_limit(
    repo: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = repo()
    slow_git(tmp_path / "slow", monkeypatch)
    repository = await Repository.open(sample.path, environ=os.environ)
    upstream = Upstream(repository, "origin", "taskyard/board", timeout=0.5)
    with pytest.raises(
        PushRejectedError, match=r"git fetch took longer than 0\.5 s.*\[git\] timeout"
    ) as fetch:
        await upstream.fetch()
    assert fetch.value.kind == "unreachable"
    with pytest.raises(PushRejectedError, match=r"git push took longer than 0\.5 s.*\[git\] timeout"):
        await upstream.push(sample.git("rev-parse", "HEAD"), expected=None)
    with pytest.raises(GitError, match=r"git status took longer") as local:
        await repository.run("status", "--ignored", timeout=0.5)
    assert "[git] timeout" not in str(local.value), "that setting bounds only what asks the remote"
