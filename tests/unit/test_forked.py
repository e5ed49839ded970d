"""What is forked for the tests is a process like any other, for whoever starts it and for itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests import forked

TELLS = """
import json, os, sys, time
print(json.dumps({"pid": os.getpid(), "parent": os.getppid(), "session": os.getsid(0), "cwd": os.getcwd(),
    "argv": sys.argv, "environ": dict(os.environ), "files": sorted(map(int, os.listdir("/proc/self/fd"))),
    "in": sys.stdin.read(), "zone": time.tzname[0], "imported": "anthropic" in sys.modules, "main": __name__}))
"""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere these are processes as usual")


def told(*args: str, **options: Any) -> dict[str, Any]:
    done = forked.run([sys.executable, "-c", TELLS, *args], stdin=subprocess.DEVNULL, timeout=200, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_has_what_it_was_given_and_nothing_else(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "WORD": "ü \udc80", "TZ": "JST-9"}
    said = told("a", "b c", cwd=tmp_path, env=environ)
    assert (said["cwd"], said["argv"], said["environ"]) == (str(tmp_path), ["-c", "a", "b c"], environ)
    assert said["zone"] == "JST"
    assert (said["in"], said["main"], said["imported"]) == ("", "__main__", True)
    assert said["files"] == [0, 1, 2, 3], "the last is the folder that is being listed"


def test_it_is_a_child_of_who_starts_it() -> None:
    said = told()
    assert (said["parent"], said["session"]) == (os.getpid(), os.getsid(0))
    assert said["cwd"] == os.getcwd()
    alone = told(start_new_session=True)
    assert alone["session"] == alone["pid"]


def test_it_ends_as_it_says_or_by_a_signal() -> None:
    assert forked.run([sys.executable, "-c", "raise SystemExit(7)"], timeout=200).returncode == 7
    failed = forked.run([sys.executable, "-c", "1 / 0"], text=True, timeout=200)
    assert failed.returncode == 1
    assert failed.stderr.endswith("ZeroDivisionError: division by zero\n")
    with forked.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as waiting:
        assert waiting.poll() is None
        waiting.send_signal(signal.SIGKILL)
        assert waiting.wait(10) == -signal.SIGKILL


def test_it_runs_a_module(tmp_path: Path) -> None:
    (tmp_path / "file.json").write_text("[1]")
    done = forked.run([sys.executable, "-m", "json.tool", str(tmp_path / "file.json")], timeout=200)
    assert json.loads(done.stdout) == [1]


def test_what_it_leaves_behind_does_not_come_to_who_started_it() -> None:
    leaves = "import subprocess; print(subprocess.Popen(['sleep', '30'], stdout=-3, stderr=-3).pid)"
    done = forked.run([sys.executable, "-c", leaves], timeout=200)
    left = psutil.Process(int(done.stdout))
    try:
        assert left.ppid() != os.getpid()
    finally:
        left.kill()


def test_python_is_started_anew_for_what_it_reads_only_then() -> None:
    assert told(env={**os.environ, "PYTHONHASHSEED": "1"})["imported"] is False
