"""Looking at a project before a run: what can run, what cannot and why, and what has landed already."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import BoardError, PreflightError
from engine.git.names import slug
from engine.git.train import landed_refs
from engine.model import BoardStatus
from engine.project import open_project, shared_name
from engine.settings import Settings, load_settings
from tests.sample_repository import SampleRepository

HEAD = "| ID | Scope | Status | Branch | Verification | After |\n|---|---|---|---|---|---|\n"
MakeRepo = Callable[..., SampleRepository]


def board(*rows: str) -> str:
    return HEAD + "".join(f"| {row} |\n" for row in rows)


def load(sample: SampleRepository, **overrides: object) -> Settings:
    given = {name.replace("__", "."): value for name, value in overrides.items()}
    return load_settings(sample.path, overrides=given, environ={})


async def test_a_row_without_a_check_cannot_run_nor_can_any_that_waits_for_it(repo: MakeRepo) -> None:
    sample = repo(
        {
            "tasks/board.md": board(
                "A | one | [ ] | | |",
                "B | two | [ ] | | `true` | A",
                "C | three | [ ] | | `true` | B",
                "D | four | [ ] | | `true` |",
            )
        }
    )
    project = await open_project(load(sample), os.environ)
    assert [task.id for task in project.rows.tasks] == ["D"]
    reasons = {each.task: each.message for each in project.rows.refused}
    assert list(reasons) == ["A", "B", "C"]
    assert "no verification command" in reasons["A"]
    assert "B waits for A" in reasons["B"]
    assert "C waits for B" in reasons["C"]
    assert project.board_path == "tasks/board.md"


async def test_a_check_for_all_is_a_check(repo: MakeRepo) -> None:
    sample = repo({"tasks/board.md": board("A | one | [ ] | | |", "B | two | [ ] | | | A")})
    project = await open_project(load(sample, verify__command="true"), os.environ)
    assert [task.id for task in project.rows.tasks] == ["A", "B"]
    assert project.rows.refused == ()


async def test_what_has_landed_needs_no_check_and_keeps_nobody_back(repo: MakeRepo) -> None:
    sample = repo({"tasks/board.md": board("A | one | [x] | | |", "B | two | [ ] | | `true` | A")})
    project = await open_project(load(sample), os.environ)
    assert [(task.id, task.status) for task in project.rows.tasks] == [
        ("A", BoardStatus.LANDED),
        ("B", BoardStatus.OPEN),
    ]
    assert project.rows.refused == ()


async def test_the_target_branch_may_be_ahead_of_this_checkout(repo: MakeRepo) -> None:
    sample = repo({"tasks/board.md": board("A | one | [ ] | | |", "B | two | [ ] | | `true` | A")})
    sample.git("checkout", "--quiet", "-b", "taskyard/board")
    sample.commit("Land A", {"tasks/board.md": board("A | one | [x] | | |", "B | two | [ ] | | `true` | A")})
    sample.git("push", "--quiet", "origin", "taskyard/board")
    sample.git("checkout", "--quiet", "main")
    project = await open_project(load(sample), os.environ)
    assert [(task.id, task.status) for task in project.rows.tasks] == [
        ("A", BoardStatus.LANDED),
        ("B", BoardStatus.OPEN),
    ]


async def test_a_row_that_landed_and_asks_for_something_else_now_is_open_again(repo: MakeRepo) -> None:
    rows = ["A | one | [{}] | | `true` |", "B | two | [{}] | | `true` |", "C | three | [{}] | | `true` |"]
    sample = repo({"tasks/board.md": board(*(row.format(" ") for row in rows))})
    sample.git("checkout", "--quiet", "-b", "taskyard/board")
    sample.commit("Land all", {"tasks/board.md": board(*(row.format("x") for row in rows))})
    sample.git("push", "--quiet", "origin", "taskyard/board")
    sample.git("checkout", "--quiet", "main")
    project = await open_project(load(sample), os.environ)
    assert {task.status for task in project.rows.tasks} == {BoardStatus.LANDED}
    assert project.rows.notices == (
        "3 tasks have landed on taskyard/board already; merge it to see that on your board",
    )

    changed = [rows[0].replace("one", "quite a new task"), rows[1].replace("`true`", "`false`"), rows[2]]
    sample.commit("Reopen", {"tasks/board.md": board(*(row.format(" ") for row in changed))})
    project = await open_project(load(sample), os.environ)
    assert project.rows.reopened == ("A", "B")
    assert [task.status for task in project.rows.tasks] == [
        BoardStatus.OPEN,
        BoardStatus.OPEN,
        BoardStatus.LANDED,
    ]
    said, ahead = project.rows.notices[-2:]
    assert said.startswith("A, B landed on taskyard/board with another scope or verification")
    assert ahead.startswith("1 task has landed on taskyard/board already")

    changed[2] = changed[2].replace("three", "four")
    sample.write({"tasks/board.md": board(*(row.format(" ") for row in changed))})
    project = await open_project(load(sample), os.environ)
    assert project.rows.reopened == ("A", "B")
    assert project.rows.notices[-1].startswith("C landed on taskyard/board; the row was changed since")


async def test_a_board_of_thousands_is_looked_at_in_a_moment(repo: MakeRepo) -> None:
    rows = [f"T{n} | scope {n} | [ ] | | `true` | {f'T{n - 1}' if n % 10 else ''}" for n in range(4_000)]
    sample = repo({"tasks/board.md": board(*rows)})
    project = await open_project(load(sample), os.environ)  # quadratic, it would take half a minute
    assert len(project.rows.tasks) == 4_000


async def test_a_board_on_which_nothing_can_run_says_why(repo: MakeRepo) -> None:
    sample = repo({"tasks/board.md": board("A | one | [ ] | | |", "B | two | [ ] | | | B")})
    with pytest.raises(
        BoardError, match=r"nothing on .* can run: line 3: A has no verification.*\(and 1 more\)"
    ):
        await open_project(load(sample), os.environ)
    empty = repo({"tasks/board.md": HEAD}, name="empty")
    with pytest.raises(BoardError, match="has no tasks"):
        await open_project(load(empty), os.environ)


async def test_a_board_outside_the_repository_is_refused(repo: MakeRepo, tmp_path: Path) -> None:
    sample = repo({"a.txt": "a"})
    (tmp_path / "board.md").write_text(board("A | one | [ ] | | `true` |"))
    with pytest.raises(BoardError, match="outside"):
        await open_project(load(sample, run__board=str(tmp_path / "board.md")), os.environ)


async def test_a_folder_without_a_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match="not in a git repository"):
        await open_project(load_settings(tmp_path, environ={}), os.environ)


async def test_a_row_that_was_never_committed_runs_once_and_that_is_said(repo: MakeRepo) -> None:
    sample = repo({"tasks/board.md": board("A | one | [ ] | | `true` |")})
    sample.write({"tasks/board.md": board("A | one | [ ] | | `true` |", "B | two | [ ] | | `true` |")})
    project = await open_project(load(sample), os.environ)
    assert [task.id for task in project.rows.tasks] == ["A", "B"]
    assert project.rows.notices == (
        "1 row of tasks/board.md is not committed: it runs, but the board cannot be marked; commit it first",
    )
    commit = sample.git("rev-parse", "HEAD")
    sample.git("push", "--quiet", "origin", f"{commit}:refs/heads/taskyard/board")
    sample.git("update-ref", f"{landed_refs('taskyard/board')}/{slug('B')}", commit)
    project = await open_project(load(sample), os.environ)
    assert {task.id: task.status for task in project.rows.tasks} == {
        "A": BoardStatus.OPEN,
        "B": BoardStatus.LANDED,
    }
    assert project.rows.notices == (
        "1 task has landed on taskyard/board already; merge it to see that on your board",
    )


async def test_a_shared_board_has_one_name_in_every_clone(repo: MakeRepo, tmp_path: Path) -> None:
    sample = repo({"tasks/board.md": board("A | one | [ ] | | `true` |")})
    clone = tmp_path / "elsewhere"
    sample.git("clone", "--quiet", f"file://{sample.remote}", str(clone))
    here = await open_project(load(sample), os.environ)
    there = await open_project(load(SampleRepository(clone, sample.remote)), os.environ)
    named = await open_project(load(sample, locks__name="shop"), os.environ)
    assert await shared_name(here) == await shared_name(there)
    assert await shared_name(here) == f"{str(sample.remote).removesuffix('.git')} tasks/board.md"
    assert await shared_name(named) == "shop"
