"""`worktrees` over real ones."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.git.names import slug
from engine.paths import StatePaths
from tests.sample_repository import SampleRepository
from tui.cli import main

Repo = Callable[..., SampleRepository]


def test_worktrees_are_listed_with_what_has_not_landed(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = repo()
    monkeypatch.chdir(project.path)
    assert main(["worktrees"]) == 0
    assert capsys.readouterr().out == "there are no worktrees\n"

    folder = StatePaths.of(project.path / ".git", os.environ).worktrees / slug("tasks/board.md")
    project.git("worktree", "add", "--quiet", "-b", "task/T1", str(folder / "T1"))
    project.git("commit", "--quiet", "--allow-empty", "--message", "Work", at=folder / "T1")
    (folder / "T1" / "new.txt").write_text("unfinished")
    commit = project.git("rev-parse", "task/T1")
    _, row, place = (_lines(capsys))[:3]
    assert row.split() == ["task/T1", commit[:7], "1", "1", "0"]
    assert place.strip() == str(folder / "T1")

    project.git("push", "--quiet", "origin", "task/T1:taskyard/board")
    subprocess.run(["rm", "-r", str(folder / "T1")], check=True)
    (folder / "T2.lost-1").mkdir()
    assert main(["worktrees", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    [found] = report["worktrees"]
    assert (found["branch"], found["unlanded"], found["missing"]) == ("task/T1", 0, True)
    assert report["set_aside"] == [str(folder / "T2.lost-1")]
    lines = _lines(capsys)
    assert lines[2].endswith("T1 (gone)")
    assert lines[-1] == f"set aside, since git no longer knows it: {folder / 'T2.lost-1'}"


def _lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(["worktrees"]) == 0
    return capsys.readouterr().out.splitlines()


def test_what_is_kept_of_earlier_attempts_is_told_with_how_to_get_it(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = repo()
    monkeypatch.chdir(project.path)
    project.git("checkout", "--quiet", "--detach")
    commit = project.commit("T1: half a fix", {"fix.txt": "half\n"})
    project.git("checkout", "--quiet", "main")
    ref = f"refs/taskyard/kept/T1/{commit[:12]}"
    project.git("update-ref", ref, commit)
    lines = _lines(capsys)
    assert lines[-3].strip() == ref
    row = lines[-4]
    assert row.split()[:2] == ["T1", commit[:7]]
    assert "T1: half a fix" in row
    assert lines[-2] == (
        "These are what earlier attempts left, committed or not. Each goes when its task has landed."
    )
    assert main(["worktrees", "--json"]) == 0
    [kept] = json.loads(capsys.readouterr().out)["kept"]
    assert (kept["name"], kept["ref"], kept["commit"], kept["title"]) == ("T1", ref, commit, "T1: half a fix")
    # What the last line says does work.
    project.git("switch", "--quiet", "-c", "mine", commit)
    assert (project.path / "fix.txt").read_text() == "half\n"
    project.git("update-ref", "-d", ref)
    assert _lines(capsys) == ["there are no worktrees"]


def test_without_a_remote_the_checkout_is_what_counts(
    tmp_path: Path, repo: Repo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = repo()
    project.git("remote", "remove", "origin")
    monkeypatch.chdir(project.path)
    folder = StatePaths.of(project.path / ".git", os.environ).worktrees / slug("tasks/board.md")
    project.git("worktree", "add", "--quiet", "-b", "task/T1", str(folder / "T1"))
    row = _lines(capsys)[1]
    assert row.split()[2:4] == ["0", "0"]
