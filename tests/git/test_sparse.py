"""Worktrees of some folders only: what lies outside is never lost, and the user's git settings stay as they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from engine.git.keeping import KEPT
from engine.git.leftovers import leftovers
from engine.git.repository import Repository
from engine.git.sparse import is_inside
from engine.git.worktrees import Worktree, Worktrees
from engine.roles.answers import Edit, Edits
from engine.roles.implementer import apply_edits
from engine.roles.workspace import Workspace
from tests.git.trains import BOARD, Yard, allow_file_submodules, board
from tests.sample_repository import SampleRepository

Make = Callable[..., SampleRepository]
TRAILERS = {"Taskyard-Task": "T1"}
FILES = {
    name: f"{name}\n"
    for name in "root.txt src/top.txt src/a/1.txt src/a/x/2.txt src/b/3.txt docs/d.txt other/deep/o.txt".split()
}


class Place:
    """A repository, and worktrees of it that hold some folders."""

    def __init__(self, sample: SampleRepository, repository: Repository, root: Path) -> None:
        self.sample = sample
        self.repository = repository
        self.root = root
        self.base = sample.git("rev-parse", "HEAD")

    def worktrees(self, *folders: str) -> Worktrees:
        return Worktrees(self.repository, self.root, BOARD, folders=folders)

    async def commit(self, worktree: Worktree) -> dict[str, str]:
        """Commit what the attempt made; gives what changed, by path."""
        change = await self.worktrees().commit(worktree, "T1: work", TRAILERS)
        assert change is not None
        lines = self.sample.git("diff", "--name-status", "--no-renames", self.base, change.commit).split("\n")
        return {path: status for status, path in (line.split("\t") for line in lines)}


@pytest.fixture
async def here(repo: Make, tmp_path: Path) -> Place:
    sample = repo({**FILES, BOARD: board(2), "we*ird [x]/f.txt": "x\n", "ünï cödé/f.txt": "x\n"})
    return Place(sample, await Repository.open(sample.path, environ=os.environ), tmp_path / "work")


def on_disk(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()} - {".git"}


@pytest.mark.parametrize(
    "folders",
    [
        ["src"],
        ["src/a"],
        ["src/a", "docs"],
        ["src", "src/a/x"],
        ["we*ird [x]", "ünï cödé"],
        ["other/deep"],
        ["missing"],
    ],
)
async def test_the_folders_are_there_with_the_files_above_them_and_no_others(
    here: Place, folders: Sequence[str]
) -> None:
    config = (here.sample.path / ".git" / "config").read_bytes()
    made = await here.worktrees(*folders).create("T1", here.base)
    tracked = here.sample.git("ls-files", "-z").split("\0")
    assert on_disk(made.path) == {path for path in tracked if path and is_inside(path, folders)}
    assert here.sample.git("status", "--porcelain", at=made.path) == ""
    assert (here.sample.path / ".git" / "config").read_bytes() == config
    assert list((here.sample.path / ".git").rglob("config.worktree")) == []


async def test_a_commit_keeps_what_is_outside_and_takes_what_was_made_there(here: Place) -> None:
    made = await here.worktrees("src/a").create("T1", here.base)
    (made.path / "src/a/1.txt").write_text("edited\n")
    (made.path / "src/a/x/2.txt").unlink()
    (made.path / "docs").mkdir()
    (made.path / "docs/new.txt").write_text("made outside\n")
    (made.path / "src/b").mkdir()
    (made.path / "src/b/3.txt").write_text("edited outside\n")
    assert await here.commit(made) == {
        "src/a/1.txt": "M",
        "src/a/x/2.txt": "D",
        "docs/new.txt": "A",
        "src/b/3.txt": "M",
    }


@pytest.mark.parametrize(
    "agent",
    [
        ["add --all", "commit --quiet -m mine"],
        ["commit --quiet --all -m mine"],
        ["read-tree HEAD"],
        ["read-tree HEAD", "add --all", "commit --quiet -m mine"],
        ["stash --quiet", "stash pop --quiet"],
        ["switch --quiet -c other", "switch --quiet task/T1"],
        ["rm --quiet --sparse -r docs"],
        ["reset --quiet HEAD"],
    ],
)
async def test_whatever_git_an_agent_runs_nothing_outside_is_deleted(here: Place, agent: list[str]) -> None:
    made = await here.worktrees("src/a").create("T1", here.base)
    (made.path / "src/a/1.txt").write_text("edited\n")
    for command in agent:
        here.sample.git(*command.split(), at=made.path)
    assert await here.commit(made) == {"src/a/1.txt": "M"}
    assert here.sample.git("status", "--porcelain", at=made.path) == ""


async def test_files_of_an_interrupted_attempt_are_kept_from_outside_too(here: Place) -> None:
    trees = here.worktrees("src/a")
    made = await trees.create("T1", here.base)
    (made.path / "docs").mkdir()
    (made.path / "docs/d.txt").write_text("precious\n")
    (listed,) = await leftovers(here.repository, here.root, landed_in=here.base)
    assert listed.dirty == 1
    assert not await trees.release("T1", landed_in=here.base)
    again = await trees.create("T1", here.base)
    assert on_disk(again.path) == on_disk(made.path)
    assert not (again.path / "docs").exists()
    (kept,) = here.sample.git("for-each-ref", "--format=%(refname)", KEPT).split()
    assert here.sample.git("diff", "--name-status", here.base, kept) == "M\tdocs/d.txt"
    assert here.sample.git("show", f"{kept}:docs/d.txt") == "precious"


async def test_other_folders_make_the_worktree_anew_and_keep_its_work(here: Place) -> None:
    made = await here.worktrees("src/a").create("T1", here.base)
    (made.path / "src/a/1.txt").write_text("half done\n")
    made = await here.worktrees().create("T1", here.base)
    assert on_disk(made.path) == {path for path in here.sample.git("ls-files", "-z").split("\0") if path}
    (kept,) = here.sample.git("for-each-ref", "--format=%(refname)", KEPT).split()
    assert here.sample.git("show", f"{kept}:src/a/1.txt") == "half done"
    made = await here.worktrees("docs").create("T1", here.base)
    assert {"docs/d.txt", "root.txt"} <= on_disk(made.path)
    assert not (made.path / "src").exists()


async def test_the_trains_check_sees_the_whole_tree(here: Place, tmp_path: Path) -> None:
    yard = Yard(here.sample, here.repository, here.root, "taskyard/board")
    yard.worktrees = here.worktrees("src/a")
    yard.train = yard.new_train(check="test -e docs/d.txt && test -e src/a/new.txt")
    await yard.train.start()
    cargo = await yard.cargo("T1", {"src/a/new.txt": "x\n"})
    assert cargo.paths == ("src/a/new.txt",)
    result = await yard.land(cargo)
    assert [item.task_id for item in result.landed] == ["T1"]
    assert yard.at_remote("docs/d.txt") == "docs/d.txt"
    assert await yard.worktrees.release("T1", landed_in=result.tip)
    assert not here.worktrees().path_of("T1").exists()


async def test_a_model_reads_and_edits_files_outside_by_their_paths(here: Place) -> None:
    made = await here.worktrees("src/a").create("T1", here.base)
    workspace = Workspace(made.path, here.repository, BOARD, ["src/a"])
    assert "docs/d.txt" in await workspace.list()
    assert workspace.read("docs/d.txt") is None
    await workspace.bring("docs/d.txt", "no/such.txt", "../outside", "src/a/1.txt")
    assert workspace.read("docs/d.txt") == "docs/d.txt\n"
    assert here.sample.git("status", "--porcelain", at=made.path) == ""
    apply_edits(Edits("", (Edit("docs/d.txt", "docs", "more docs"),)), workspace)
    assert here.sample.git("status", "--porcelain", at=made.path) == " M docs/d.txt"
    assert await here.commit(made) == {"docs/d.txt": "M"}


async def test_submodules_outside_are_left_alone(
    repo: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow_file_submodules(tmp_path / "gitconfig", monkeypatch)
    library = repo({"lib.txt": "lib\n"}, name="library")
    sample = repo({"src/a.txt": "a\n"}, name="app")
    for place in ("src/lib", "other/lib"):
        sample.git("submodule", "--quiet", "add", str(library.remote), place)
    base = sample.commit("With libraries")
    repository = await Repository.open(sample.path, environ=os.environ)
    made = await Worktrees(repository, tmp_path / "work", BOARD, folders=["src"]).create("T1", base)
    assert (made.path / "src/lib/lib.txt").exists()
    assert not (made.path / "other/lib/lib.txt").exists()


async def test_where_the_users_checkout_is_sparse_itself_files_outside_can_be_made(here: Place) -> None:
    here.sample.git("sparse-checkout", "set", "src")
    trees = here.worktrees()
    made = await trees.create("T1", here.base)
    (made.path / "docs").mkdir(exist_ok=True)
    (made.path / "docs/new.txt").write_text("x\n")
    (made.path / "src/a/1.txt").write_text("edited\n")
    assert await here.commit(made) == {"docs/new.txt": "A", "src/a/1.txt": "M"}
    assert (await trees.create("T1", here.base)).path == made.path
