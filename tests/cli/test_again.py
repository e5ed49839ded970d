"""A board run again: after a refused push, a move of the repository, an edit of its rows."""

from __future__ import annotations

from collections.abc import Callable

from tests.cli.taskyard import taskyard
from tests.cli.test_run import project
from tests.sample_repository import SampleRepository

Repo = Callable[..., SampleRepository]
HEAD = "| ID | Scope | Status | Branch | Verification |\n|---|---|---|---|---|\n"


def rows(*names: str, scope: str = "Write", state: str = " ") -> str:
    return "".join(f"| {name} | {scope} {name} | [{state}] | | `test -f {name}.txt` |\n" for name in names)


def test_what_a_refused_push_left_leaves_together(repo: Repo) -> None:
    made = project(repo, HEAD + rows("T1", "T2", "T3", "T4"))
    hook = made.remote / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    assert taskyard("run", "--headless", at=made.path).status == 1
    hook.unlink()
    said = taskyard("run", "--headless", at=made.path)
    assert said.status == 0, said
    assert made.pushes("taskyard/board") == 1
    assert "1 push in 1 train for 4 tasks, 3 saved" in said.out
