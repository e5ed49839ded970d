"""A run that is taken up to land elsewhere: nothing that it had landed at the old place is missing at the new one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.events import Noticed, RunFinished, TaskLanded, decode
from tests import forked
from tests.cli.taskyard import PROGRAM
from tests.e2e.test_limits import BOARD, environment
from tests.sample_repository import SampleRepository

# T2 waits for a child that never ends, until `go` exists.
AGENT = """\
import pathlib, re, subprocess, sys
task = re.search(r"^Task: (\\S+)", sys.stdin.read(), re.MULTILINE)[1]
if task == "T2" and not pathlib.Path(sys.argv[1]).exists():
    subprocess.run([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path(task + ".txt").write_text(task)
"""


@pytest.mark.parametrize(
    ("first", "then", "ref", "words"),
    [
        ((), ("--target", "main"), "main", "and not on main of origin"),
        (("--remote", ""), (), "taskyard/board", "and not on taskyard/board of origin"),
        ((), (), "taskyard/board", ""),
        ((), (), "taskyard/board", "which has it no more"),
    ],
    ids=["another branch", "a remote", "the same place", "a branch that went"],
)
def test_what_has_landed_is_landed_where_the_run_lands_now(
    repo: Callable[..., SampleRepository],
    tmp_path: Path,
    first: tuple[str],
    then: tuple[str],
    ref: str,
    words: str,
) -> None:
    """It was marked as landed on the new branch, which had nothing of it."""
    made = repo({"README.md": "# Shop\n"})
    (tmp_path / "agent.py").write_text(AGENT)
    command = json.dumps([sys.executable, str(tmp_path / "agent.py"), str(tmp_path / "go")])
    roles = "".join(f'[roles.{role}]\nkind = "none"\n' for role in ("planner", "judge"))
    settings = f'{roles}[roles.implementer]\nkind = "command"\ncommand = {command}\n[git]\nmax_age = "0.1s"\n'
    made.commit("Plan", {"tasks/board.md": BOARD, "taskyard.toml": settings})
    made.git("push", "--quiet")

    begun = forked.Popen(
        [*PROGRAM, "run", "--json", *first], cwd=made.path, env=environment(), stdout=subprocess.PIPE
    )
    assert begun.stdout is not None
    assert any(isinstance(decode(line), TaskLanded) for line in begun.stdout), (
        "one has landed, one is at work"
    )
    begun.send_signal(signal.SIGINT)
    begun.communicate(timeout=60)

    if words == "which has it no more":
        made.git("push", "--quiet", "origin", "--delete", ref)
    (tmp_path / "go").touch()
    done = forked.run([*PROGRAM, "run", "--json", *then], cwd=made.path, env=environment(), timeout=80)
    events = [decode(line) for line in done.stdout.splitlines()]
    finished = events[-1]
    assert isinstance(finished, RunFinished)
    assert (done.returncode, finished.landed, finished.total) == (0, 2, 2)
    listed = subprocess.run(
        ["git", "-C", str(made.remote), "ls-tree", "--name-only", ref],
        capture_output=True,
        text=True,
        check=True,
    )
    assert {"T1.txt", "T2.txt"} <= set(listed.stdout.split())
    told = [e.text for e in events if isinstance(e, Noticed) and e.level == "warning"]
    again = [text for text in told if text.endswith("done there once more")]
    assert [words in text and text.startswith("T1 ") for text in again] == [True] * bool(words)
