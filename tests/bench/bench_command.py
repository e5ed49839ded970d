"""The command as a user meets it: how soon it answers, and a whole run by an agent command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from engine.events import RunFinished, decode
from tests.bench import Row
from tests.sample_repository import SampleRepository, make_sample_repository
from tests.tui.terminal import Terminal

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-c", "import sys; from tui.start import main; sys.exit(main())")
TASKS = 9
AGENT = """\
import pathlib, re, sys, time
task = re.search(r"\\bT[0-9]+\\b", sys.stdin.read())[0]
time.sleep(1)
pathlib.Path(task + ".txt").write_text(task)
"""


DEAF = """\
import os, pathlib, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
pathlib.Path(sys.argv[1], str(os.getpid())).touch()
time.sleep(600)
"""


def rows() -> list[Row]:
    """Measure in processes of their own."""
    took, bare = _help(COMMAND), _help((sys.executable, "-c", "pass"))
    shown = min(_first_content() for _ in range(3))
    run_took, finished = _nine_tasks()
    return [
        Row("taskyard --help", "≤ 0.3 s", took, "s", took / bare, took <= 0.3),
        Row("taskyard run: 24 tasks on the screen", "≤ 0.8 s", shown, "s", shown / bare, shown <= 0.8),
        Row(
            "9 tasks of 1 s by an agent command, start to landed",
            "≤ 5 s",
            run_took,
            "s",
            None,
            run_took <= 5.0,
        ),
        Row(
            "pushes for them",
            "1",
            finished.pushes,
            "",
            None,
            (finished.landed, finished.pushes) == (TASKS, 1),
        ),
        _demo(),
        _stopped(),
    ]


def _demo() -> Row:
    """The demo without its pauses, model service included."""
    with tempfile.TemporaryDirectory(prefix="taskyard-bench-") as folder:
        done = subprocess.run(
            [*COMMAND, "demo", "--headless", "--fast", "--json", "--keep", f"{folder}/demo"],
            env=_environment(),
            check=True,
            stdout=subprocess.PIPE,
        )
    finished = decode(done.stdout.splitlines()[-1])
    assert isinstance(finished, RunFinished)
    took = finished.duration_s
    return Row("the demo without its pauses", "≤ 20 s", took, "s", None, took <= 20.0)


def _stopped() -> Row:
    """From a SIGTERM until the dashboard has ended, while its agents hear no signal; none of them may be left."""
    with tempfile.TemporaryDirectory(prefix="taskyard-bench-") as folder:
        begun = Path(folder) / "begun"
        begun.mkdir()
        project = _project(Path(folder), TASKS, agent=DEAF, arguments=(str(begun),))
        with Terminal([*COMMAND[1:], "run"], cwd=project.path, env=_environment(folder)) as terminal:
            terminal.until(lambda _: len(list(begun.iterdir())) == TASKS)
            told = time.perf_counter()
            terminal.process.kill(signal.SIGTERM)
            status = terminal.end(timeout=60)
            took = time.perf_counter() - told
        left = [pid.name for pid in begun.iterdir() if psutil.pid_exists(int(pid.name))]
    met = took <= 5.0 and status == 128 + signal.SIGTERM and not left
    return Row(f"SIGTERM to the end, {TASKS} agents deaf to it", "≤ 5 s", took, "s", None, met)


def _help(command: tuple[str, ...]) -> float:
    def once() -> float:
        begun = time.perf_counter()
        subprocess.run(
            [*command, "--help"], cwd=ROOT, env=_environment(), check=True, stdout=subprocess.DEVNULL
        )
        return time.perf_counter() - begun

    return min(once() for _ in range(7))


def _first_content() -> float:
    """Until the dashboard of a real run shows its tasks, in a terminal; seconds from the fork."""
    with tempfile.TemporaryDirectory(prefix="taskyard-bench-") as folder:
        project = _project(Path(folder), 24)
        begun = time.perf_counter()
        with Terminal(
            [*COMMAND[1:], "run"], width=120, height=40, cwd=project.path, env=_environment(folder)
        ) as terminal:
            terminal.until(lambda text: all(words in text for words in ("LIVE", "of 24", " T5 ")))
            took = time.perf_counter() - begun
            terminal.press("q")
            terminal.until_shows("Quit")
            terminal.press("q")
            terminal.end()
    return took


def _nine_tasks() -> tuple[float, RunFinished]:
    """A run of tasks that each take a second; gives how long the command took, and its last event."""
    with tempfile.TemporaryDirectory(prefix="taskyard-bench-") as folder:
        project = _project(Path(folder), TASKS)
        begun = time.perf_counter()
        done = subprocess.run(
            [*COMMAND, "run", "--json"],
            cwd=project.path,
            env=_environment(folder),
            check=True,
            capture_output=True,
        )
        took = time.perf_counter() - begun
        finished = decode(done.stdout.splitlines()[-1])
    assert isinstance(finished, RunFinished)
    return took, finished


def _project(
    folder: Path, tasks: int, *, agent: str = AGENT, arguments: tuple[str, ...] = ()
) -> SampleRepository:
    """A project whose tasks each go to this agent command: by default one that takes a second."""
    script = folder / "agent.py"
    script.write_text(agent)
    command = json.dumps([sys.executable, str(script), *arguments])
    rows = "".join(f"| T{n} | Write T{n}.txt | [ ] | | `test -f T{n}.txt` |\n" for n in range(1, tasks + 1))
    settings = (
        '[roles.planner]\nkind = "none"\n[roles.judge]\nkind = "none"\n'
        f'[roles.implementer]\nkind = "command"\ncommand = {command}\n'
    )
    header = "| ID | Scope | Status | Branch | Verification |\n| --- | --- | --- | --- | --- |\n"
    return make_sample_repository(
        folder / "project", {"tasks/board.md": header + rows, "taskyard.toml": settings}
    )


def _environment(state: str = "") -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("TASKYARD_", "GIT_"))}
    return {**clean, "PYTHONPATH": str(ROOT), **({"XDG_STATE_HOME": state} if state else {})}
