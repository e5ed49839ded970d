"""What an attempt runs under: a change by a person to the row, its check, a role or a script of theirs is another."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.model import Task
from engine.settings import Settings, load_settings
from engine.terms import terms_of

TASK = Task(id="T1", scope="Round the tax", command="sh check.sh", acceptance="half up")
FILE = """
[roles.judge]
kind = "command"
command = ["sh", "./judge.sh", "--strict"]
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "taskyard.toml").write_text(FILE)
    (tmp_path / "judge.sh").write_text("echo no")
    (tmp_path / "check.sh").write_text("false")
    return tmp_path


def settings(root: Path) -> Settings:
    return load_settings(root, overrides={}, environ={})


def test_what_no_person_changed_is_the_same(root: Path) -> None:
    before = terms_of(TASK, settings(root))
    (root / "tax.py").write_text("half_up = 1")
    moved = replace(TASK, line=7, priority=3, after=("T0",), branch="x")
    assert terms_of(moved, settings(root)) == before


@pytest.mark.parametrize("field", ["scope", "command", "acceptance"])
def test_another_row_is_another(root: Path, field: str) -> None:
    assert terms_of(replace(TASK, **{field: "new"}), settings(root)) != terms_of(TASK, settings(root))


@pytest.mark.parametrize("script", ["judge.sh", "check.sh"])
def test_a_mended_script_is_another(root: Path, script: str) -> None:
    before = terms_of(TASK, settings(root))
    (root / script).write_text("echo yes")
    assert terms_of(TASK, settings(root)) != before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("--strict", "--lax"),
        ('"command"\n', '"command"\ntimeout = "5s"\n'),
        ("[roles.judge]", '[verify]\ntimeout = "5s"\n[roles.judge]'),
        ("[roles.judge]", '[roles.implementer]\nmodel = "other"\n[roles.judge]'),
    ],
)
def test_other_settings_are_another(root: Path, old: str, new: str) -> None:
    before = terms_of(TASK, settings(root))
    (root / "taskyard.toml").write_text(FILE.replace(old, new))
    assert terms_of(TASK, settings(root)) != before


def test_the_check_of_all_rows_counts_for_a_row_without_its_own(root: Path) -> None:
    row = replace(TASK, command=None)
    before = terms_of(row, settings(root))
    (root / "taskyard.toml").write_text(f"[verify]\ncommand = 'make'\n{FILE}")
    assert terms_of(row, settings(root)) != before
    assert terms_of(TASK, settings(root)) == terms_of(TASK, settings(root))


@pytest.mark.parametrize("command", ["echo 'open", "a" * 5000, "nul\0byte"])
def test_no_command_is_too_odd(root: Path, command: str) -> None:
    assert len(terms_of(replace(TASK, command=command), settings(root))) == 16
