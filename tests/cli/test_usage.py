"""The command line itself: help, versions, mistakes, and what it imports."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import forked
from tests.cli.shell_agent import settings
from tests.cli.taskyard import PROGRAM, Said, taskyard
from tests.sample_repository import SampleRepository
from tests.samples import record, short_run
from tui.cli import main

Repo = Callable[..., SampleRepository]
ROOT = Path(__file__).parents[2]
COMMANDS = (
    *("run", "demo", "init", "watch", "replay", "status", "doctor", "locks", "worktrees", "simulate"),
    *("cache", "lessons", "history"),
)


def test_help_names_every_command(tmp_path: Path) -> None:
    said = taskyard("--help", at=tmp_path)
    assert said.status == 0
    assert all(f"\n  {command} " in said.out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: taskyard {command} ")


def test_help_loads_nothing_heavy_and_so_is_quick() -> None:
    heavy = {"pydantic", "textual", "rich", "anthropic", "git", "jinja2", "msgspec", "asyncio", "apsw"}
    check = (
        f"import sys, tui.cli; tui.cli.main(['--help']); print(*{heavy} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: taskyard ")
    assert done.stderr.strip() == ""


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == "taskyard 0.1.0\n"


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["statsu"], "No such command 'statsu'. Did you mean 'status'?: see taskyard --help"),
        (["run", "--colour"], "No such option: --colour: see taskyard run --help"),
        (
            ["run", "-j", "0"],
            "Invalid value for '--max-concurrency' / '-j': 0 is not in the range x>=1",
        ),
        (["cache", "invalidate"], "nothing to forget was named: give one of KEY, --task ID"),
        (
            ["cache", "invalidate", "--task", "T1", "--activity", "judge"],
            "--task and --activity together: give one",
        ),
        (["--colour"], "No such option: --colour: see taskyard run --help"),
        (["history", "list", "--since", "soon"], "'soon' is no age: write it as"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_status_2(
    args: list[str],
    problem: str,
    repo: Repo,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(repo().path)
    assert main(args) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"taskyard: {problem}")
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_a_shell_completes_commands(tmp_path: Path) -> None:
    asked = {"_TASKYARD_COMPLETE": "complete_bash", "COMP_WORDS": "taskyard ca", "COMP_CWORD": "1"}
    assert taskyard(at=tmp_path, environ=asked) == Said(0, "cache\n", "")


@pytest.mark.parametrize(
    "command",
    [
        "history list --task",
        "history list --run",
        "history show",
        "cache list --task",
        "cache list --model",
        "cache invalidate --task",
        "lessons list --type",
        "lessons show",
    ],
)
def test_a_name_of_any_bytes_is_looked_up_or_refused_in_one_line(repo: Repo, command: str) -> None:
    root = repo().path
    record(root, short_run())
    said = taskyard(*command.split(), "\udcff", at=root)
    assert said.status in (0, 2)
    assert "Traceback" not in said.err
    assert said.err.count("\n") <= 1


@pytest.mark.parametrize("command", ["lessons top", "lessons list", "history list", "cache list"])
def test_no_number_is_too_great_for_the_command_line(repo: Repo, command: str) -> None:
    root = repo().path
    record(root, short_run())
    (root / ".git/taskyard/lessons.jsonl").write_text('{"id": "a", "failure_msg": "x"}\n')
    said = taskyard(*command.split(), "--limit", "9" * 20, at=root)
    assert said.status == 2
    assert said.err.startswith("taskyard: Invalid value for '--limit'")
    assert said.err.count("\n") == 1


def test_an_interrupt_while_the_command_is_still_being_read_leaves_no_traceback(tmp_path: Path) -> None:
    interrupt = "import os, signal; os.kill(os.getpid(), signal.SIGINT)\n"
    (tmp_path / "typer.py").write_text(interrupt)  # the first that is imported of what takes its time
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    module, name = (ROOT / "pyproject.toml").read_text().split('\ntaskyard = "')[1].split('"')[0].split(":")
    begin = [sys.executable, "-c", f"import sys; from {module} import {name}; sys.exit({name}())", "status"]
    done = subprocess.run(begin, cwd=tmp_path, env=environ, capture_output=True)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", [["--help"], ["status"], ["replay", "--json"]])
def test_an_output_on_a_full_disk_is_told_in_one_line(
    repo: Repo, command: list[str], unbuffered: str
) -> None:
    root = repo().path
    record(root, short_run() * 300)
    with open("/dev/full", "w") as full:
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": unbuffered}
        done = forked.run([*PROGRAM, *command], cwd=root, stdout=full, text=True, timeout=200, env=environ)
    assert done.stderr == (
        "taskyard: standard output cannot be written ([Errno 28] No space left on device)\n"
    )
    assert done.returncode == 1


@pytest.mark.parametrize("command", ["status", "lessons top", "lessons check --json", "doctor", "cache"])
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_the_shell_has_closed_changes_no_status(repo: Repo, command: str, closed: str) -> None:
    root = repo({"taskyard.toml": settings("true")}).path  # `doctor` has no model to ask for
    record(root, short_run())
    (root / ".git/taskyard/lessons.jsonl").write_text(f'{{"id": "a", "failure_msg": "{"x" * 30}"}}\n')
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    program = f"{shlex.join(PROGRAM)} {command}"

    def status(*more: str) -> int:
        script = " ".join((program, *more))
        done = subprocess.run(["/bin/sh", "-c", script], cwd=root, env=environ, capture_output=True)
        assert b"Traceback" not in done.stderr
        return done.returncode

    assert status(closed) == status()


def test_a_reader_that_goes_away_ends_the_command_quietly(repo: Repo) -> None:
    root = repo().path
    record(root, short_run() * 300)
    replaying = forked.Popen(
        [*PROGRAM, "replay", "--json"],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert replaying.stdout is not None
    replaying.stdout.readline()
    replaying.stdout.close()
    assert replaying.stderr is not None
    assert replaying.stderr.read() == b""
    replaying.stderr.close()
    assert replaying.wait(timeout=200) == 141


def test_an_output_that_knows_no_unicode_gets_substitutes(repo: Repo) -> None:
    root = repo().path
    record(root, short_run())
    said = taskyard("replay", "--headless", at=root, environ={"PYTHONIOENCODING": "latin-1"})
    assert (said.status, said.err) == (0, "")
    assert "changed 2 files, +41 ?7" in said.out
