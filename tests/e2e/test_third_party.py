"""A project that is not ours: the source of toolz, under git, with its own tests as verification."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from engine.events import RunFinished, decode
from tests import forked
from tests.cli.taskyard import PROGRAM
from tests.sample_repository import SampleRepository

CHECK = f"{sys.executable} -m pytest -q -p no:cacheprovider"

_ROWS = (
    ("NTH-LAST", "Give the last but one element", "itertoolz", "last_but_one"),
    ("SWAP", "Swap keys and values", "dicttoolz", "swap"),
    ("TWICE", "Apply a function twice", "functoolz", "twice"),
)
BOARD = (
    "| ID | Scope | Status | Branch | Verification |\n|----|-------|--------|--------|--------------|\n"
    + "".join(
        f"| {id} | {scope}: `toolz.{module}.{name}` | [ ] | | "
        f"`{CHECK} toolz/tests/test_{module}.py toolz/tests/test_{name}.py` |\n"
        for id, scope, module, name in _ROWS
    )
)

AGENT = r"""
# An agent that knows three tasks: it reads the prompt, edits the module, adds a test, and runs it.
import pathlib, re, subprocess, sys

module, name = re.search(r"`toolz\.(\w+)\.(\w+)`", sys.stdin.read()).groups()
body, test = {
    "last_but_one": ("(seq):\n    return tuple(seq)[-2]\n", "('abc') == 'b'"),
    "swap": ("(d):\n    return {value: key for key, value in d.items()}\n", "({1: 2}) == {2: 1}"),
    "twice": ("(func, value):\n    return func(func(value))\n", "(abs, -1) == 1"),
}[name]
path = pathlib.Path("toolz") / (module + ".py")
path.write_text(path.read_text() + f"\n\ndef {name}{body}")
path = f"toolz/tests/test_{name}.py"
pathlib.Path(path).write_text(f"from toolz.{module} import {name}\n\n\ndef test_{name}():\n    assert {name}{test}\n")
print("added", name)
sys.exit(subprocess.call([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", path]))
"""


def test_three_tasks_of_a_real_package_land_by_one_push(
    repo: Callable[..., SampleRepository], tmp_path: Path
) -> None:
    made = repo({".gitignore": "__pycache__/\n"})
    spec = importlib.util.find_spec("toolz")
    assert spec is not None
    assert spec.origin is not None
    shutil.copytree(
        Path(spec.origin).parent, made.path / "toolz", ignore=shutil.ignore_patterns("__pycache__")
    )
    agent = tmp_path / "agent.py"
    agent.write_text(AGENT)
    roles = "".join(f'[roles.{role}]\nkind = "none"\n' for role in ("planner", "judge"))
    command = json.dumps([sys.executable, str(agent)])
    made.commit(
        "Begin",
        {
            "tasks/board.md": BOARD,
            "taskyard.toml": f'{roles}[roles.implementer]\nkind = "command"\ncommand = {command}\n'
            # The train waits for all three, however long the slowest takes.
            f'[verify]\ncommand = "{CHECK} toolz"\n[git]\nmax_age = "600s"\n',
        },
    )
    made.git("push", "--quiet")
    done = forked.run(
        [*PROGRAM, "run", "--json"],
        cwd=made.path,
        # Its tests need none of the plugins that ours have, and each start of pytest would load them.
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        timeout=200,
    )
    finished = decode(done.stdout.splitlines()[-1])
    assert isinstance(finished, RunFinished)
    assert (done.returncode, finished.landed, finished.pushes) == (0, 3, 1), done.stdout.decode()[-3000:]
    assert made.pushes("taskyard/board") == 1
    board = made.git("show", "taskyard/board:tasks/board.md", at=made.remote)
    assert board == BOARD.replace("| [ ] |", "| [x] |").rstrip("\n")
    clone = tmp_path / "clone"
    made.git("clone", "--quiet", "--branch", "taskyard/board", str(made.remote), str(clone))
    tests = subprocess.run([*CHECK.split(), "toolz"], cwd=clone, capture_output=True, text=True)
    assert tests.returncode == 0, tests.stdout
    assert "test_swap" in " ".join(path.name for path in clone.rglob("test_*.py"))
