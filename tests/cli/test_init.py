"""`init`, and finding the place that a command works in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.board import read_board
from engine.git.versions import INSTALL
from engine.settings import load_settings
from tests.cli.taskyard import taskyard
from tests.sample_repository import SampleRepository

Repo = Callable[..., SampleRepository]


def test_init_writes_what_is_missing_and_says_what_is_next(repo: Repo) -> None:
    root = repo({"src/a.py": ""}).path
    said = taskyard("init", at=root / "src")
    assert (said.status, said.err) == (0, "")
    assert said.out.splitlines() == [
        "taskyard.toml written",
        "tasks/board.md written",
        "Next: put your tasks into tasks/board.md, commit it, look at `taskyard doctor`, then `taskyard run`.",
    ]
    assert load_settings(root, environ={}).file == root / "taskyard.toml"
    assert read_board(root / "tasks" / "board.md").diagnostics == ()


def test_init_overwrites_nothing(repo: Repo) -> None:
    root = repo({"taskyard.toml": '[run]\nboard = "plan.md"\n', "plan.md": "mine\r\n"}).path
    said = taskyard("init", at=root)
    assert said.out.splitlines()[:2] == ["taskyard.toml is there already", "plan.md is there already"]
    assert (root / "plan.md").read_bytes() == b"mine\r\n"
    assert not (root / "tasks").exists()


def test_init_in_a_read_only_directory_writes_nothing(repo: Repo) -> None:
    root = repo().path
    root.chmod(0o555)
    said = taskyard("init", at=root, plain_user=True)
    root.chmod(0o755)
    assert said.status == 2
    assert said.err == (
        f"taskyard: {root}/taskyard.toml cannot be written, for {root} is read-only: mend its permissions\n"
    )
    assert not (root / "tasks").exists()


def test_outside_a_repository(tmp_path: Path) -> None:
    said = taskyard("init", at=tmp_path)
    assert said.status == 2
    assert said.err == (
        f"taskyard: {tmp_path} is not in a git repository: change to your project, or make it one with: git init\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_in_a_bare_repository(repo: Repo) -> None:
    bare = repo().remote
    said = taskyard("status", at=bare)
    assert (said.status, said.err) == (
        2,
        f"taskyard: {bare} is a bare repository or a .git folder: start in a checkout of it\n",
    )


def test_without_git(tmp_path: Path) -> None:
    said = taskyard("status", at=tmp_path, environ={"PATH": str(tmp_path)})
    assert (said.status, said.err) == (2, f"taskyard: git is not installed: {INSTALL}\n")


def test_a_leaked_git_dir_does_not_point_elsewhere(repo: Repo, tmp_path: Path) -> None:
    other = repo(name="other").path
    said = taskyard(
        "init", at=repo().path, environ={"GIT_DIR": str(other / ".git"), "GIT_WORK_TREE": str(other)}
    )
    assert said.status == 0
    assert not (other / "taskyard.toml").exists()
    assert (tmp_path / "project" / "taskyard.toml").exists()


def test_an_unknown_setting_is_named_with_the_nearest(repo: Repo) -> None:
    root = repo({"taskyard.toml": "[run]\nmax_concurency = 3\n"}).path
    said = taskyard("status", at=root)
    assert said.status == 2
    assert said.err.startswith("taskyard: ")
    assert "taskyard.toml:2" in said.err
    assert "max_concurrency" in said.err
    assert said.err.count("\n") == 1
    assert not (root / ".git" / "taskyard").exists()
