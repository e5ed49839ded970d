"""`doctor` over real repositories and a real endpoint."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.git.versions import INSTALL
from engine.llm.simulator import Simulator
from tests.cli.taskyard import Said, taskyard
from tests.cli.test_run import BOARD, settings
from tests.git.trains import old_git
from tests.sample_repository import SampleRepository

Repo = Callable[..., SampleRepository]


def found(said: Said, about: str) -> list[str]:
    """What was said about one thing, with its marks."""
    return [line[0] + line[13:] for line in said.out.splitlines() if line[2:13].strip() == about]


def test_all_is_well(repo: Repo) -> None:
    root = repo({"tasks/board.md": BOARD}).path
    with Simulator() as simulator:
        said = taskyard("doctor", at=root, environ={"TASKYARD_LLM_BASE_URL": simulator.url})
    assert said.status == 0, said
    assert said.err == ""
    assert [line[0] for line in said.out.splitlines()].count("✗") == 0
    assert found(said, "repository") == [f"✓ {root}: work lands on taskyard/board, pushed to origin"]
    assert found(said, "board") == ["✓ tasks/board.md: 3 tasks, 3 can run"]
    assert found(said, "models") == [f"✓ {simulator.url} answers and takes the key"]
    assert found(said, "judge") == ["✓ claude-opus-5-5"]
    assert found(said, "settings") == ["✓ all as by default: there is no taskyard.toml"]
    assert found(said, "terminal")[0].startswith("! none here: ")
    assert not (root / ".git" / "taskyard").exists()


def test_no_key_is_an_error_with_what_to_do(repo: Repo) -> None:
    said = taskyard("doctor", at=repo({"tasks/board.md": BOARD}).path)
    assert said.status == 1
    [models] = found(said, "models")
    assert models.startswith("✗ ")
    assert "ANTHROPIC_API_KEY" in models


def test_an_endpoint_that_cannot_be_reached(repo: Repo) -> None:
    root = repo({"tasks/board.md": BOARD}).path
    said = taskyard("doctor", at=root, environ={"TASKYARD_LLM_BASE_URL": "http://127.0.0.1:9"})
    assert said.status == 1
    assert found(said, "models")[0].startswith("✗ ")


def test_agent_commands_are_looked_up(repo: Repo) -> None:
    made = repo({"tasks/board.md": BOARD, "taskyard.toml": settings("no-such-agent -p")})
    said = taskyard("doctor", at=made.path)
    assert said.status == 1
    hint = "install it, or set [roles.implementer] command to its whole path"
    assert found(said, "implementer") == [f"✗ the agent command no-such-agent is not on PATH: {hint}"]
    assert found(said, "judge") == ["✓ none, as set"]
    made.write({"taskyard.toml": settings(sys.executable)})
    assert found(taskyard("doctor", at=made.path), "implementer") == [f"✓ {sys.executable}"]


def test_an_agent_command_with_a_path_is_told_by_its_path(repo: Repo) -> None:
    made = repo({"tasks/board.md": BOARD, "taskyard.toml": settings("/nowhere/agent"), "bin/agent": "x"})
    hint = "mend [roles.implementer] command"
    said = taskyard("doctor", at=made.path)
    assert found(said, "implementer") == [f"✗ the agent command /nowhere/agent does not exist: {hint}"]
    made.write({"taskyard.toml": settings("bin/agent")})
    said = taskyard("doctor", at=made.path)
    assert found(said, "implementer") == [f"✗ the agent command bin/agent may not be executed: {hint}"]


def test_a_check_whose_program_is_not_there_is_told_before_it_fails_each_attempt(repo: Repo) -> None:
    board = BOARD.replace("`test -f", "`A=1 no-such-check -f", 2)
    made = repo({"tasks/board.md": board, "taskyard.toml": settings(sys.executable)})
    said = taskyard("doctor", at=made.path)
    assert said.status == 0
    hint = "which is not on PATH: install it, or activate the environment that has it"
    assert found(said, "checks") == [f"! the checks of T1, T2 begin with no-such-check, {hint}"]


def test_landed_rows_are_no_work_and_a_board_that_is_not_committed_is_told(repo: Repo) -> None:
    made = repo({"tasks/board.md": BOARD.replace("[ ]", "[x]", 1), "taskyard.toml": settings(sys.executable)})
    said = taskyard("doctor", at=made.path)
    assert said.status == 0
    assert found(said, "board") == ["✓ tasks/board.md: 3 tasks, 1 landed, 2 can run"]
    more = made.path / "tasks" / "board.md"
    more.write_text(more.read_text() + "| T4 | one more | [ ] | | `true` | |\n")
    assert found(taskyard("doctor", at=made.path), "board")[1:] == [
        "! 1 row of tasks/board.md is not committed: it runs, but the board cannot be marked; commit it first"
    ]


def test_what_was_learned_into_a_file_of_the_repository_is_no_work_that_tasks_miss(repo: Repo) -> None:
    shared = settings(sys.executable) + '[lessons]\nfile = "tasks/lessons.jsonl"\n'
    made = repo({"tasks/board.md": BOARD, "taskyard.toml": shared, "tasks/lessons.jsonl": ""})
    assert taskyard("lessons", "add", "a failure", at=made.path).status == 0
    assert made.git("status", "--porcelain") == " M tasks/lessons.jsonl"
    assert len(found(taskyard("doctor", at=made.path), "repository")) == 1


def test_the_board_is_diagnosed_by_line(repo: Repo) -> None:
    board = BOARD + "| T4 | waits | [ ] | | `true` | T9 |\n| T5 | unchecked | [ ] | | | |\n"
    said = taskyard(
        "doctor", at=repo({"tasks/board.md": board, "taskyard.toml": settings(sys.executable)}).path
    )
    assert said.status == 1
    assert found(said, "board") == [
        "✓ tasks/board.md: 5 tasks, 3 can run",
        "✗ tasks/board.md, line 8: T4 waits for T9, which the board does not have",
        "✗ tasks/board.md, line 9: T5 has no verification command: "
        "put one into its Verification cell in backticks, or set [verify] command",
    ]


@pytest.mark.parametrize(
    ("files", "about", "words"),
    [
        ({}, "board", "there is no board at"),
        ({"plan.md": BOARD}, "board", "this repository has plan.md; start with: taskyard run plan.md"),
        ({"taskyard.toml": "[rum]\n"}, "settings", "the nearest is run"),
        ({"taskyard.toml": "[git]\nmax_age = 'soon'\n"}, "settings", "give it a duration"),
        ({"taskyard.toml": "[llm]\nbase_url = 'nope'\n"}, "models", "'nope' is no address"),
        ({"taskyard.toml": "[lessons]\nfile = '.git'\n"}, "settings", "/.git/lessons.jsonl"),
    ],
)
def test_what_is_missing_or_wrong(repo: Repo, files: dict[str, str], about: str, words: str) -> None:
    said = taskyard("doctor", at=repo({"README.md": "", **files}).path)
    assert said.status == 1
    [line] = found(said, about)
    assert line.startswith("✗ ")
    assert words in line


def test_outside_a_repository_and_without_a_commit(tmp_path: Path) -> None:
    said = taskyard("doctor", at=tmp_path)
    assert (said.status, found(said, "repository")[0][0]) == (1, "✗")
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    said = taskyard("doctor", at=tmp_path)
    assert "no commit yet" in found(said, "repository")[0]


def test_a_state_folder_that_cannot_be_written(repo: Repo) -> None:
    root = repo({"tasks/board.md": BOARD}).path
    (root / ".git").chmod(0o555)
    said = taskyard("doctor", at=root, plain_user=True)
    (root / ".git").chmod(0o755)
    assert found(said, "state")[0].startswith(f"✗ {root}/.git cannot be written to: ")


def test_json(repo: Repo) -> None:
    said = taskyard("doctor", "--json", at=repo({"tasks/board.md": BOARD}).path)
    report = json.loads(said.out)
    assert {finding["level"] for finding in report} <= {"ok", "warning", "error"}
    [models] = [finding for finding in report if finding["about"] == "models"]
    assert models["level"] == "error"
    assert models["hint"]


@pytest.mark.parametrize(
    ("version", "line"),
    [
        ("2.29.2", f"✗ 2.29.2 is too old: {INSTALL}"),
        ("2.30.0", "! 2.30.0 lands work through a checkout: nothing is missing, but git 2.38 or newer lands faster"),
        ("2.38.1", "✓ 2.38.1"),
    ],
)  # fmt: skip
def test_what_git_is_needed_and_what_is_better(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, line: str
) -> None:
    root = repo({"tasks/board.md": BOARD}).path
    old_git(tmp_path / "old", monkeypatch, version)
    assert found(taskyard("doctor", at=root), "git") == [line]


def test_a_journal_that_cannot_be_read_is_an_error(repo: Repo) -> None:
    root = repo({"tasks/board.md": BOARD, "taskyard.toml": settings("true")}).path
    journal = root / ".git" / "taskyard" / "state.db"
    journal.parent.mkdir()
    journal.write_text("not a database, " * 100)
    said = taskyard("doctor", at=root)
    assert (said.status, said.err) == (1, "")
    assert found(said, "state")[1].startswith(f"✗ {journal} is damaged: ")


@pytest.mark.parametrize("name", [b"\xe9t\xe9", b"one\ntwo", b"one\x85two", "one\u2028two".encode()])
@pytest.mark.parametrize("command", ["doctor", "status", "run --headless"])
def test_a_folder_whose_name_is_no_text_is_refused_in_words(
    repo: Repo, tmp_path: Path, name: bytes, command: str
) -> None:
    made = repo({"tasks/board.md": BOARD, "taskyard.toml": settings("true")}).path
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
    made.rename(root)
    said = taskyard(*command.split(), at=root)
    assert "Traceback" not in said.err
    assert said.status == (1 if command == "doctor" else 2)
    words = said.out if command == "doctor" else said.err
    assert "is no name that can be told: rename the folder" in words


@pytest.mark.parametrize("name", ["a b", "no\u00a0break", "👩\u200d💻", "漢字", "tab\there"])
def test_a_folder_of_any_other_name_will_do(repo: Repo, tmp_path: Path, name: str) -> None:
    made = repo({"tasks/board.md": BOARD, "taskyard.toml": settings("true")}).path
    said = taskyard("doctor", at=made.rename(tmp_path / name))
    assert (said.status, said.err) == (0, "")
