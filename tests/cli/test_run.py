"""`run` from the outside: bad input, then whole runs by an agent command, in processes of their own."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import IO

import pytest

from engine.events import RunFinished, TaskLanded, decode
from engine.llm.simulator import Simulator
from engine.snapshot import Snapshot
from tests import forked
from tests.cli.taskyard import PROGRAM, Said, taskyard
from tests.e2e.crew import until
from tests.sample_repository import SampleRepository
from tests.tui import sample_run
from tui.cli.dashboard import show_run
from tui.cli.place import find_place

Repo = Callable[..., SampleRepository]

BOARD = """\
# Board

| ID | Scope | Status | Branch | Verification | After |
| --- | --- | --- | --- | --- | --- |
| T1 | Write one.txt | [ ] | | `test -f T1.txt` | |
| T2 | Write two.txt | [ ] | | `test -f T2.txt` | |
| T3 | Write three.txt | [ ] | | `test -f T3.txt` | T1 |
"""

AGENT = """\
import re, sys, pathlib
task = re.search(r"\\bT[0-9]+\\b", sys.stdin.read())[0]
pathlib.Path(task + ".txt").write_text(task)
"""


def settings(command: str = f"{sys.executable} agent.py", more: str = "") -> str:
    argv = json.dumps(command.split())
    return (
        f'[roles.planner]\nkind = "none"\n[roles.judge]\nkind = "none"\n'
        f'[roles.implementer]\nkind = "command"\ncommand = {argv}\n[git]\nmax_age = "200ms"\n{more}'
    )


def project(repo: Repo, board: str = BOARD, agent: str = AGENT, more: str = "") -> SampleRepository:
    """A project whose agent is a script beside it, so that a worktree need not hold it."""
    made = repo({"README.md": "# Shop\n"})
    script = made.path.parent / "agent.py"
    script.write_text(agent)
    made.commit(
        "Plan", {"tasks/board.md": board, "taskyard.toml": settings(f"{sys.executable} {script}", more)}
    )
    made.git("push", "--quiet")
    return made


def nothing_was_written(root: Path) -> bool:
    return not (root / ".git" / "taskyard").exists()


def one_line(said: Said) -> str:
    assert said.status == 2, said
    assert said.err.count("\n") == 1, said.err
    assert said.err.startswith("taskyard: ")
    assert said.out == ""
    return said.err.removeprefix("taskyard: ").rstrip("\n")


def test_no_commit_yet(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "board.md").write_text(BOARD)
    said = one_line(taskyard("run", "--headless", at=tmp_path))
    assert "no commit yet" in said
    assert nothing_was_written(tmp_path)


def test_no_board(repo: Repo) -> None:
    root = repo().path
    said = one_line(taskyard("run", "--json", at=root))
    assert (
        said
        == f"there is no board at {root}/tasks/board.md: run `taskyard init` to make one, or name another"
    )
    assert nothing_was_written(root)


def test_no_board_of_that_name_but_others(repo: Repo) -> None:
    others = {f"plans/{name}.md": BOARD for name in ("a", "b", "c", "d")}
    root = repo(
        {"tasks/board.md": BOARD, "README.md": "# No table\n", ".gitignore": "build/\n"} | others
    ).path
    (root / "build").mkdir()
    (root / "build" / "old.md").write_text(BOARD)
    (root / "new.md").write_text(BOARD)
    said = one_line(taskyard("run", "nope.md", at=root / "plans"))
    assert said == (
        f"there is no board at {root}/plans/nope.md: this repository has ../new.md, a.md, b.md and 3 more; "
        "start with: taskyard run ../new.md"
    )
    assert nothing_was_written(root)


def test_a_board_named_on_the_command_line_is_relative_to_where_one_stands(repo: Repo) -> None:
    root = repo({"src/a.py": ""}).path
    assert f"there is no board at {root}/src/plan.md" in one_line(
        taskyard("run", "plan.md", "--json", at=root / "src")
    )


def test_no_key(repo: Repo) -> None:
    root = repo({"tasks/board.md": BOARD}).path
    said = one_line(taskyard("run", "--headless", at=root))
    assert "API key" in said
    assert "ANTHROPIC_API_KEY" in said
    assert nothing_was_written(root)


def test_an_endpoint_that_cannot_be_reached(repo: Repo) -> None:
    root = repo({"tasks/board.md": BOARD}).path
    with_nobody_there = {"TASKYARD_LLM_BASE_URL": "http://127.0.0.1:9", "ANTHROPIC_API_KEY": "sk-secret"}
    said = one_line(taskyard("run", "--headless", at=root, environ=with_nobody_there))
    assert "127.0.0.1:9" in said
    assert "sk-secret" not in said
    assert nothing_was_written(root)


def test_a_directory_that_cannot_be_written(repo: Repo) -> None:
    made = project(repo)
    subprocess.run(["chmod", "-R", "a-w", str(made.path)], check=True)
    try:
        said = one_line(taskyard("run", "--headless", at=made.path, plain_user=True))
    finally:
        subprocess.run(["chmod", "-R", "u+w", str(made.path)], check=True)
    assert said == (
        f"{made.path}/.git cannot be written to: "
        "mend its permissions, or set [run] state_dir to another folder"
    )


def test_a_home_that_cannot_be_written(repo: Repo, tmp_path: Path) -> None:
    made = project(repo)
    home = tmp_path / "home"
    home.mkdir(mode=0o555)
    said = one_line(
        taskyard("run", "--headless", at=made.path, plain_user=True, environ={"XDG_STATE_HOME": str(home)})
    )
    assert said == (
        f"{home} cannot be written to: mend its permissions, or set [run] worktree_dir to another folder"
    )
    assert nothing_was_written(made.path)


def test_a_board_of_which_nothing_can_run(repo: Repo) -> None:
    board = BOARD.replace("| T1 |\n", "| T9 |\n").replace("| |\n", "| T3 |\n")
    made = project(repo, board)
    assert "nothing on" in one_line(taskyard("run", "--headless", at=made.path))
    assert nothing_was_written(made.path)


def test_rows_that_cannot_run_are_named_by_line_and_the_rest_runs(repo: Repo) -> None:
    board = (
        BOARD + "| T2 | again | [ ] | | `true` | |\n| T4 | waits | [ ] | | `true` | T9 |\n| T5 | short |\n"
        "| T6 | | [-] | | `true` | |\n"
    )
    made = project(repo, board)
    said = taskyard("run", "--headless", at=made.path)
    assert said.status == 1
    for words in (
        "line 6: the id T2 stands in lines 6 and 8",
        "line 9: T4 waits for T9",
        "line 10: the row has 2 cells",
    ):
        assert words in said.out, said.out
    summary = said.out[said.out.index("some not run: 2 of 2 landed, 5 rows not run, in") :]
    for line in (6, 8, 9, 10, 11):
        assert summary.count(f"  not run  tasks/board.md, line {line}: ") == 1, said.out


def test_a_whole_run_as_lines(repo: Repo) -> None:
    made = project(repo)
    said = taskyard("run", "--headless", at=made.path)
    assert said.status == 0, said
    assert said.err == ""
    assert "3 tasks of tasks/board.md, 10 at once; lands on taskyard/board, pushed to origin" in said.out
    assert re.search(r"all landed: 3 of 3 landed, in \d\d:\d\d$", said.out, re.MULTILINE)
    pushes = made.pushes("taskyard/board")
    assert (
        2 <= pushes <= 3
    )  # T3 waits for T1; whether T2 goes with the first depends on how busy the machine is
    assert f"  git      {pushes} pushes for 3 tasks" in said.out
    landed = made.git("show", "taskyard/board:tasks/board.md", at=made.remote)
    assert landed + "\n" == BOARD.replace("[ ]", "[x]")


def test_a_command_of_the_user_hears_of_the_end(repo: Repo, tmp_path: Path) -> None:
    told = tmp_path / "told"
    command = json.dumps(["sh", "-c", f'echo "$1" > {told}', "sh"])
    made = project(repo, more=f"[notify]\ncommand = {command}\n")
    said = taskyard("run", "--headless", at=made.path)
    assert (said.status, said.err) == (0, "")
    assert told.read_text() == "all landed: 3 of 3 landed\n"


def test_a_whole_run_as_json_ends_with_its_figures(repo: Repo) -> None:
    made = project(repo)
    said = taskyard("run", "--json", "--target", "main", "-j", "2", at=made.path)
    assert said.status == 0, said
    events = [decode(line.encode()) for line in said.out.splitlines()]
    assert {event.task for event in events if isinstance(event, TaskLanded)} == {"T1", "T2", "T3"}
    last = events[-1]
    assert isinstance(last, RunFinished)
    assert json.loads(said.out.splitlines()[-1])["event"] == "run_finished"
    assert (last.total, last.landed, last.pushes) == (3, 3, made.pushes("main") - 2)
    snapshot = json.loads(taskyard("status", "--json", at=made.path).out)
    assert snapshot["counts"] == {"landed": 3}
    assert snapshot["run"]["max_concurrency"] == 2


def test_without_a_terminal_progress_is_plain_and_it_is_said(repo: Repo) -> None:
    said = taskyard(at=project(repo).path)
    assert said.status == 0
    assert said.err == "taskyard: no terminal for the dashboard, so progress is printed as plain lines\n"
    assert "all landed: 3 of 3" in said.out


def test_a_task_that_fails_is_status_1_and_marked(repo: Repo) -> None:
    made = project(repo, BOARD.replace("test -f T2.txt", "false"), more="[run]\nmax_attempts = 1\n")
    said = taskyard("run", "--headless", at=made.path)
    assert said.status == 1, said
    assert "2 of 3 landed, 1 failed" in said.out
    assert "  failed   T2  " in said.out


SLOW = """\
import sys, time
sys.stdin.read()
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_stops_the_run_cleanly(repo: Repo, number: int, status: int) -> None:
    made = project(repo, agent=SLOW)
    running = start("run", "--json", at=made.path)
    assert running.stdout is not None
    for line in running.stdout:
        if b'"stage_started"' in line and b'"implement"' in line:
            break
    running.send_signal(number)
    rest = running.stdout.read().splitlines()
    assert running.wait(timeout=200) == status
    running.stdout.close()
    last = decode(rest[-1])
    assert isinstance(last, RunFinished)
    assert (last.status, last.landed) == ("interrupted", 0)
    assert processes_of(made.path.parent / "agent.py") == []

    (made.path.parent / "agent.py").write_text(AGENT)
    again = taskyard("run", "--headless", at=made.path)
    assert again.status == 0, again
    assert "taken up again by process" in again.out


def test_a_reader_that_goes_away_stops_the_run(repo: Repo) -> None:
    made = project(repo, agent=SLOW)
    running = start("run", "--json", at=made.path)
    assert running.stdout is not None
    running.stdout.readline()
    running.stdout.close()
    assert running.wait(timeout=200) == 141
    assert processes_of(made.path.parent / "agent.py") == []


def test_an_output_that_cannot_be_written_stops_the_run(repo: Repo) -> None:
    made = project(repo, agent=SLOW)
    with open("/dev/full", "w") as full:
        done = forked.run(
            [*PROGRAM, "run", "--json"],
            cwd=made.path,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=200,
        )
    assert done.returncode == 1
    assert b"taskyard: standard output cannot be written (" in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_signal_before_the_run_has_begun(repo: Repo) -> None:
    made = repo({"tasks/board.md": BOARD})
    with socket.create_server(("127.0.0.1", 0)) as silent:  # a remote that answers nothing holds it there
        made.git("remote", "set-url", "origin", f"git://127.0.0.1:{silent.getsockname()[1]}/shop")
        running = forked.Popen(
            [*PROGRAM, "run", "--headless"],
            cwd=made.path,
            env=environment(),
            stderr=subprocess.PIPE,
            text=True,
        )
        silent.settimeout(30)
        connection, _ = silent.accept()
        running.send_signal(signal.SIGTERM)
        assert running.communicate(timeout=200)[1] == "taskyard: interrupted before the run began\n"
        assert running.returncode == 143
        connection.close()
    assert nothing_was_written(made.path)


def test_a_run_that_could_not_begin_is_not_told_of(repo: Repo) -> None:
    """One that was interrupted while it opened its state neither died nor is there anything to take up."""
    made = project(repo)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        locks = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        running = start("run", "--headless", at=made.path, TASKYARD_LOCKS_URL=locks)
        silent.settimeout(30)
        connection, _ = silent.accept()
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=200)
        assert running.returncode == 130
        connection.close()
    said = taskyard("status", at=made.path)
    assert "nothing was run here yet" in said.err


def _deaf(begun: Path) -> str:
    """What an agent begins with that hears no SIGTERM, and tells that it is so by a file."""
    return (
        f"import pathlib, signal\nsignal.signal(15, signal.SIG_IGN)\npathlib.Path({str(begun)!r}).touch()\n"
    )


def test_a_second_signal_ends_the_run_at_once_and_says_so(repo: Repo, tmp_path: Path) -> None:
    begun, err = tmp_path / "begun", tmp_path / "err"
    made = project(repo, agent=_deaf(begun) + SLOW)
    with err.open("wb") as file:
        running = start("run", "--json", at=made.path, stderr=file)
    until(begun.exists)
    running.send_signal(signal.SIGINT)
    running.send_signal(signal.SIGTERM)  # Another one, for two of a kind may arrive as one.
    running.communicate(timeout=200)
    assert running.returncode in (130, 143)
    assert err.read_text().splitlines() == [
        "taskyard: stopping; again to end at once",
        "taskyard: ended at once; the same command goes on from here",
    ]
    assert processes_of(made.path.parent / "agent.py") == []


def test_a_terminal_that_is_closed_stops_the_run_cleanly_by_both_of_its_signals(
    repo: Repo, tmp_path: Path
) -> None:
    """The shell sends one to what it has started, and the kernel another once the shell has gone."""
    begun, err = tmp_path / "begun", tmp_path / "err"
    made = project(repo, agent=_deaf(begun) + SLOW)
    with err.open("wb") as file:
        running = start("run", "--json", at=made.path, stderr=file)
    until(begun.exists)
    running.send_signal(signal.SIGHUP)
    until(lambda: "stopping" in err.read_text())
    running.send_signal(signal.SIGHUP)
    told, _ = running.communicate(timeout=200)
    assert running.returncode == 129
    assert err.read_text() == "taskyard: stopping; again to end at once\n"
    last = decode(told.splitlines()[-1])
    assert isinstance(last, RunFinished)
    assert last.status == "interrupted"
    assert processes_of(made.path.parent / "agent.py") == []


def test_a_second_run_of_the_same_board_is_refused(repo: Repo) -> None:
    made = project(repo, agent=SLOW)
    running = start("run", "--json", at=made.path)
    assert running.stdout is not None
    running.stdout.readline()
    said = one_line(taskyard("run", "--headless", at=made.path))
    assert said.startswith(f"process {running.pid} on ")
    assert said.endswith("look on with: taskyard watch")
    running.terminate()
    running.communicate(timeout=200)
    assert running.returncode == 143


def test_a_budget_that_is_too_small_is_status_3(repo: Repo) -> None:
    made = repo({"tasks/board.md": BOARD})
    with Simulator() as simulator:
        service = {"TASKYARD_LLM_BASE_URL": simulator.url}
        said = taskyard("run", "--headless", "--budget", "0.0001", at=made.path, environ=service)
        assert sum(simulator.stats().calls.values()) == 0
    assert said.status == 3, said
    assert "budget of the run reached: $0.0000 of $0.0001, next call up to $0." in said.out
    assert "budget reached: 0 of 3 landed" in said.out


def test_names_with_spaces_and_other_letters(repo: Repo) -> None:
    made = repo({"README.md": ""}, name="mein Lädchen 漢")
    agent = made.path.parent / "agent.py"
    agent.write_text(AGENT)
    rows = BOARD.replace("T3", "T3 ü/x").replace("test -f T3 ü/x.txt", "true")
    made.commit(
        "Plan", {"Aufgaben/Brett eins.md": rows, "taskyard.toml": settings(f"{sys.executable} {agent}")}
    )
    made.git("push", "--quiet")
    said = taskyard("run", "Aufgaben/Brett eins.md", "--headless", at=made.path)
    assert said.status == 0, said
    assert "3 tasks of Aufgaben/Brett eins.md" in said.out
    assert "all landed: 3 of 3" in said.out


def start(*args: str, at: Path, stderr: IO[bytes] | None = None, **more: str) -> subprocess.Popen[bytes]:
    return forked.Popen(
        [*PROGRAM, *args], cwd=at, stdout=subprocess.PIPE, stderr=stderr, env=environment(**more)
    )


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **more}


def processes_of(script: Path) -> list[str]:
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listing.splitlines() if str(script) in line]


def test_tasks_that_see_some_folders_only_land_beside_all_others(repo: Repo) -> None:
    agent = (
        "import pathlib, sys\n"
        "assert 'Only these folders of it are checked out: src;' in sys.stdin.read()\n"
        "assert not pathlib.Path('docs').exists()\n"
        "pathlib.Path('src/new.txt').write_text('new')\n"
    )
    board = BOARD[: BOARD.index("| T1 |")] + "| T1 | Add a file | [ ] | | `test -f src/new.txt` | |\n"
    made = project(
        repo,
        board,
        agent,
        'sparse = ["src"]\n[verify]\ncommand = "test -f docs/guide.md -a -f src/new.txt"\n',
    )
    made.commit("Some folders", {"docs/guide.md": "guide\n", "src/old.txt": "old\n"})
    made.git("push", "--quiet")
    config = (made.path / ".git" / "config").read_bytes()
    said = taskyard("run", "--headless", at=made.path)
    assert said.status == 0, said
    landed = made.git("ls-tree", "-r", "--name-only", "taskyard/board", at=made.remote).split()
    assert {"docs/guide.md", "src/old.txt", "src/new.txt"} <= set(landed)
    assert (made.path / ".git" / "config").read_bytes() == config


@pytest.mark.parametrize(
    ("left_with", "status", "exit_status", "given"),
    [
        (130, "landed", 0, 0),
        (130, "failed", 1, 1),
        (130, "interrupted", 130, 130),
        (143, "landed", 0, 143),
        (0, "landed", 0, 0),
    ],
)
def test_a_run_that_ended_by_itself_while_it_was_left_has_its_own_status(
    left_with: int, status: str, exit_status: int, given: int, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repo().path
    monkeypatch.chdir(root)
    place = find_place(start=root)
    finished = sample_run.finished(time.time(), status=status, exit_status=exit_status)
    engine = SimpleNamespace(finished=finished, latest=Snapshot)
    monkeypatch.setattr("engine.thread.EngineThread", lambda *_: engine)
    monkeypatch.setattr("tui.show.show", lambda *_, **__: left_with)
    assert show_run(place, os.environ) == given
