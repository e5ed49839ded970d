"""Checks that cannot pass for want of a program: told once for each, and never of one that may be there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.model import BoardStatus, Task
from engine.programs import missing_programs
from engine.settings import Settings, VerifySettings

HINT = "which is not on PATH: install it, or activate the environment that has it"
ALL = Settings(root=Path("/"))


def _said(*commands: str | None, common: str = "", landed: bool = False) -> tuple[str, ...]:
    status = BoardStatus.LANDED if landed else BoardStatus.OPEN
    tasks = [Task(f"T{n}", "x", command=each, status=status) for n, each in enumerate(commands, start=1)]
    return missing_programs(tasks, replace(ALL, verify=VerifySettings(command=common)), os.environ)


def test_each_missing_program_is_told_once_with_the_tasks_that_need_it() -> None:
    assert _said("gone -q", "true", "LANG=C gone", "gone; true", "gone&&true", "other-gone", None) == (
        f"the checks of T1, T3, T4 and 1 more begin with gone, {HINT}",
        f"the check of T6 begins with other-gone, {HINT}",
    )
    assert _said(None, common="gone -q") == (f"[verify] command begins with gone, {HINT}",)
    assert _said("gone", landed=True) == ()


@pytest.mark.parametrize(
    "command",
    [
        "true",
        "cd shop && gone",  # a word of the shell
        "if gone; then true; fi",
        "! gone",
        "(gone)",
        "./gone",
        "tools/gone -x",
        "'gone'",
        "$GONE",
        "PATH=tools:$PATH gone",
        "A=$(gone) true",
        "",
    ],
)
def test_what_may_be_there_is_not_told(command: str) -> None:
    assert _said(command) == ()


def test_a_program_is_looked_for_where_the_check_will_look(tmp_path: Path) -> None:
    program = tmp_path / "gone"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    assert missing_programs([Task("T1", "x", command="gone")], ALL, {"PATH": path}) == ()
