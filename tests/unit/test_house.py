"""The rules of the house: style, types, import contracts, and a start that loads nothing heavy."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


def run(*command: str | Path, timeout: float = 300) -> str:
    """Run a tool over the project; its output is the failure message."""
    done = subprocess.run(
        [str(part) for part in command], cwd=ROOT, capture_output=True, text=True, timeout=timeout
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_no_property_fails_by_chance_or_on_a_slow_machine() -> None:
    assert settings().derandomize
    assert settings().deadline is None


def test_ruff_finds_nothing() -> None:
    run(BIN / "ruff", "check", ".")


def test_ruff_would_format_nothing() -> None:
    run(BIN / "ruff", "format", "--check", ".")


@pytest.mark.timeout(900)  # Without a cache it is the longest of all.
def test_strict_types_hold() -> None:
    run(BIN / "mypy", timeout=900)


def test_imports_run_down_the_floors() -> None:
    run(BIN / "lint-imports", "--no-cache")


def test_the_lock_pins_every_dependency_by_hash_and_names_no_index() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    pinned = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", lock, re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    missing = [need for need in wanted if re.split(r"[<>=\[]", need)[0] not in pinned]
    assert missing == []
    assert lock.count("--hash=sha256:") >= len(pinned)
    assert "://" not in lock


def test_the_wheel_carries_every_file_of_the_packages(tmp_path: Path) -> None:
    run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    tracked = run("git", "ls-files", "engine", "tui").split("\n")
    assert [name for name in tracked if name and name not in packed] == []
    assert "engine/board/parse.py" in packed


HEAVY = ("anthropic", "apsw", "git", "jinja2", "textual", "watchfiles")


@pytest.mark.parametrize("module", ["tui.cli", "engine.board", "engine.settings", "engine.templates"])
def test_importing_the_command_loads_nothing_heavy(module: str) -> None:
    loaded = run(
        sys.executable, "-c", f"import sys, {module}; print(*sorted(set(sys.modules) & set({HEAVY!r})))"
    ).split()
    assert loaded == []


def test_reading_the_options_of_a_command_loads_no_pydantic() -> None:
    """It takes longer to import than all that a small command does."""
    script = "import sys; from tui.cli import main; main(sys.argv[1:]); print('pydantic' in sys.modules)"
    assert run(sys.executable, "-c", script, "history", "--json").split()[-1] == "False"
