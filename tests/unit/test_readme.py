"""What the README says is so."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from engine.board import parse_board
from engine.llm.simulator import parse_scenario
from engine.settings import load_settings
from tests.cli.taskyard import taskyard
from tests.readme import README, SHOWN, with_keys

TEXT = README.read_text("utf-8")
ROOT = README.parent


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def test_the_keys_are_those_of_the_bindings() -> None:
    assert with_keys(TEXT) == TEXT, "write them anew: python -m tests.readme"
    shown = [key for keys in SHOWN.values() for key in keys]
    assert [key for key in shown if f"| `{key}`" not in TEXT] == []


def test_the_board_can_be_read() -> None:
    board = parse_board(blocks("markdown")[0].encode(), Path("board.md"))
    assert [task.id for task in board.runnable] == ["T1", "T2"]
    assert board.diagnostics == ()
    assert board.tasks[1].after == ("T1",)


def test_the_settings_can_be_loaded(tmp_path: Path) -> None:
    roles, large, notify, locks, _ = blocks("toml")
    (tmp_path / "taskyard.toml").write_text(roles)
    settings = load_settings(tmp_path, environ={})
    assert settings.budget.usd == tomllib.loads(roles)["budget"]["usd"]
    (tmp_path / "taskyard.toml").write_text(large)
    assert list(load_settings(tmp_path, environ={}).git.sparse) == tomllib.loads(large)["git"]["sparse"]
    (tmp_path / "taskyard.toml").write_text(notify)
    assert load_settings(tmp_path, environ={}).notify.command == ("notify-send", "Taskyard")
    (tmp_path / "taskyard.toml").write_text(locks)
    shared = load_settings(tmp_path, environ={}).locks
    assert (shared.url, shared.sharing) == (tomllib.loads(locks)["locks"]["url"], True)


def test_pictures_and_files_that_are_named_exist() -> None:
    named = re.findall(r"\]\(([^)#:]+)\)", TEXT) + re.findall(r"`(engine/[\w/]+(?:\.py|/))`", TEXT)
    assert len(named) >= 6
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize(
    "command", sorted({words.split()[1] for words in re.findall(r"`?(taskyard [a-z]+)", TEXT)})
)
def test_commands_that_are_named_exist(command: str, tmp_path: Path) -> None:
    said = taskyard(command, "--help", at=tmp_path)
    assert said.status == 0, said.err


def test_make_targets_that_are_named_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"make ([a-z]+)  ", TEXT))
    assert named
    assert named <= targets


def test_the_scenario_can_be_loaded() -> None:
    scenario = parse_scenario(blocks("toml")[-1], "README.md")
    assert len(scenario.answers) == 3
    assert scenario.faults[0].kind == "rate_limited"
