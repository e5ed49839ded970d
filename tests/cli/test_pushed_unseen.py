"""A run that is killed between its push and the journal's word of it counts that push when it goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cli.shell_agent import BOARD, settings
from tests.cli.taskyard import taskyard
from tests.sample_repository import SampleRepository

AGENT = 'echo $PPID > {at}/pid; name=$(sed -n "s/^Task: //p"); echo x > $name.txt'


@pytest.mark.parametrize("recorded", [False, True])
def test_the_push_is_counted_and_its_train_is_credited(
    repo: Callable[..., SampleRepository], recorded: bool
) -> None:
    made = repo({"tasks/board.md": BOARD})
    made.commit(
        "Settings",
        {"taskyard.toml": settings(AGENT.format(at=made.path.parent), '[git]\nmax_age = "600s"\n')},
    )
    made.git("push", "--quiet", "origin", "main")
    hook = made.remote / "hooks" / "post-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\nkill -9 $(cat {made.path.parent}/pid)\n")
    hook.chmod(0o755)
    assert taskyard("run", "--headless", at=made.path).status == -9
    hook.unlink()
    if recorded:
        # As right before the journal is told: the refs say already what has landed.
        made.git("fetch", "--quiet")
        for ref in made.git("for-each-ref", "--format=%(refname)", "refs/taskyard/queue").splitlines():
            made.git("update-ref", ref.replace("/queue/", "/landed/"), ref)
            made.git("update-ref", "-d", ref)
    said = taskyard("run", "--headless", at=made.path)
    assert said.status == 0, said
    assert "1 push for 2 tasks, 1 saved" in said.out
    assert "train 1" in said.out
    assert made.pushes("taskyard/board") == 1
