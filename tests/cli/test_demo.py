"""`demo` and `simulate` as commands; what the demo lands is for the tests from end to end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import urllib.request
from collections import Counter
from pathlib import Path

from engine.demo import find_demo
from engine.events import TaskLanded, decode
from tests import forked
from tests.cli.taskyard import PROGRAM, taskyard
from tui.cli.demo import another_folder

ENVIRON = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


def git(at: Path, *args: str) -> str:
    return subprocess.run(
        ["git", "-C", str(at), *args], capture_output=True, text=True, check=True
    ).stdout.rstrip("\n")


def test_the_folder_for_another_demo_is_a_free_one_with_a_short_name(tmp_path: Path) -> None:
    names = []
    folder = tmp_path / "cart"
    for _ in range(3):
        folder.mkdir()
        names.append(folder.name)
        folder = another_folder(folder)
    assert names == ["cart", "cart-2", "cart-3"]
    (tmp_path / "cart-4").mkdir()
    assert another_folder(tmp_path / "cart-3") == tmp_path / "cart-5"
    assert another_folder(tmp_path / "a-b") == tmp_path / "a-b-2"


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("")
    said = taskyard("demo", "--headless", "--keep", str(tmp_path), at=tmp_path)
    assert (said.status, said.err) == (
        2,
        f"taskyard: {tmp_path} is not empty: name a new folder, or one that an earlier demo was kept in\n",
    )
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_demo_that_was_killed_goes_on_with_the_same_command(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    command = ("demo", "--fast", "--tasks", "8", "--keep", str(folder))
    first = forked.Popen([*PROGRAM, *command, "--json"], cwd=tmp_path, stdout=subprocess.PIPE, env=ENVIRON)
    assert first.stdout is not None
    for line in first.stdout:
        if isinstance(decode(line), TaskLanded):
            break
    first.send_signal(signal.SIGKILL)
    first.communicate()
    said = taskyard(*command, "--headless", at=tmp_path, timeout=200)
    assert said.status == 0, said
    assert "taken up again by process" in said.out
    assert "all landed: 8 of 8 landed" in said.out
    demo = find_demo(folder)
    assert demo is not None
    landed = Counter(
        re.findall(r"Taskyard-Task: (\S+)", git(demo.remote, "log", "--no-merges", "main..taskyard/board"))
    )
    assert landed == Counter(f"CART-{number}" for number in range(1, 9))
    left = json.loads(taskyard("worktrees", "--json", at=demo.root).out)["worktrees"]
    assert [each for each in left if each["unlanded"] or each["dirty"]] == []

    # A finished demo has nothing more to do, and is a project to look around in.
    again = taskyard(*command, "--headless", at=tmp_path)
    assert again.status == 0
    assert "all landed: 8 of 8 landed" in again.out
    assert f"kept in {folder}" in again.out

    other = taskyard("demo", "--headless", "--tasks", "3", "--keep", str(folder), at=tmp_path)
    assert (other.status, other.err) == (
        2,
        f"taskyard: the demo in {folder} has 8 tasks, not 3: leave --tasks out, or name a new folder\n",
    )


def test_an_interrupted_demo_that_is_not_kept_does_not_promise_to_go_on(tmp_path: Path) -> None:
    running = forked.Popen(
        [*PROGRAM, "demo", "--headless"], cwd=tmp_path, stdout=subprocess.PIPE, env=ENVIRON, text=True
    )
    assert running.stdout is not None
    running.stdout.readline()
    running.send_signal(signal.SIGINT)
    rest, _ = running.communicate(timeout=200)
    assert running.returncode == 130
    assert re.search(r"^interrupted: \d+ of 14 landed", rest, re.MULTILINE), rest
    assert rest.endswith(
        "the sample project is gone; to look around in one afterwards: taskyard demo --keep DIR\n"
    )


def test_an_ended_demo_leaves_nothing_behind(tmp_path: Path) -> None:
    running = forked.Popen(
        [*PROGRAM, "demo", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        env={**ENVIRON, "TMPDIR": str(tmp_path)},
    )
    assert running.stdout is not None
    running.stdout.readline()
    assert [path.name.startswith("taskyard-demo-") for path in tmp_path.iterdir()] == [True]
    running.terminate()
    rest, _ = running.communicate(timeout=200)
    assert running.returncode == 143
    assert json.loads(rest.splitlines()[-1])["status"] == "interrupted"
    assert list(tmp_path.iterdir()) == []


def test_simulate_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.toml"
    scenario.write_text('name = "mine"\n')
    serving = forked.Popen(
        [*PROGRAM, "simulate", "--port", "0", "--scenario", str(scenario)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        env=ENVIRON,
        text=True,
    )
    assert serving.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:(\d+)", serving.stdout.readline())
    assert found is not None
    with urllib.request.urlopen(f"{found[0]}/_simulator/stats", timeout=10) as answer:
        assert answer.status == 200
    taken = taskyard("simulate", "--port", found[1], at=tmp_path)
    assert taken.status == 2
    assert taken.err.startswith(f"taskyard: cannot listen on 127.0.0.1:{found[1]} (")
    serving.send_signal(signal.SIGINT)
    assert serving.wait(timeout=200) == 0
    serving.stdout.close()


def test_a_scenario_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "scenario.toml").write_text('nmae = "mine"\n')
    said = taskyard("simulate", "--scenario", "scenario.toml", at=tmp_path)
    assert said.status == 2
    assert said.err.count("\n") == 1
    assert "nmae" in said.err
