"""A machine that runs out of something stops the run, and no row is marked failed for it."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.events import RunFinished, TaskEnded, decode
from tests.cli.taskyard import taskyard
from tests.cli.test_run import AGENT, processes_of, project, start
from tests.sample_repository import SampleRepository
from tui.cli import main

WAITING = (
    """\
import pathlib, time
go = pathlib.Path(__file__).with_name("go")
while not go.exists():
    time.sleep(0.02)
"""
    + AGENT
)


def test_files_that_run_out_stop_the_run(repo: Callable[..., SampleRepository]) -> None:
    made = project(repo, agent=WAITING, more="[run]\nmax_attempts = 1\nmax_concurrency = 1\n")
    script = made.path.parent / "agent.py"
    running = start("run", "--json", at=made.path, stderr=subprocess.PIPE)
    assert running.stdout is not None
    assert running.stderr is not None
    for line in running.stdout:
        if b'"stage_started"' in line and b'"implement"' in line:
            break
    usual = resource.prlimit(running.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(running.pid, resource.RLIMIT_NOFILE, (3, usual[1]))
    script.with_name("go").touch()
    heard = [decode(line) for line in running.stdout.read().splitlines()]
    said = running.stderr.read().decode()
    assert running.wait(20) == 2, said
    running.stdout.close()
    running.stderr.close()
    assert "ulimit -n" in said
    assert "Traceback" not in said
    assert not [event for event in heard if isinstance(event, TaskEnded)]
    assert isinstance(heard[-1], RunFinished)
    assert heard[-1].failed == 0
    assert processes_of(script) == []

    again = taskyard("run", "--headless", at=made.path)
    assert again.status == 0, again


def test_a_command_that_can_open_nothing_says_so(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status"]) == 2  # nothing was run yet; all that it needs is imported now
    capsys.readouterr()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open(os.devnull) as lowest:
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest.fileno() + 1, limits[1]))
        try:
            assert main(["status"]) == 2
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert capsys.readouterr().err == (
        "taskyard: too many open files: allow more open files (ulimit -n), or fewer tasks at once (-j), and run again\n"
    )
