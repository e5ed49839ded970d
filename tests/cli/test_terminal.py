"""Commands on a terminal: a real one, as far as the program can tell."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pexpect
import pyte
import pytest

from engine.store.owner import Owner
from tests.cli.taskyard import PROGRAM
from tests.cli.test_run import BOARD, SLOW, processes_of, project, settings
from tests.sample_repository import SampleRepository
from tests.samples import record, short_run

Repo = Callable[..., SampleRepository]
LEAVES = b"\x1b[?1049l"


class Terminal:
    """A command on a terminal of 120×40, and what stands on its screen."""

    def __init__(self, *args: str, at: Path, **environ: str) -> None:
        env = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "TERM": "xterm-256color",
            **environ,
        }
        self.child = pexpect.spawn(
            sys.executable, [*PROGRAM[1:], *args], cwd=str(at), env=env, dimensions=(40, 120), timeout=30
        )
        self.said = b""
        self._screen = pyte.Screen(120, 40)
        self._stream = pyte.ByteStream(self._screen)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.child.close(force=True)

    def _read(self) -> bool:
        """Take in what comes within a moment; False when the command has ended."""
        try:
            data = self.child.read_nonblocking(65536, timeout=0.2)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.said += data
        self._stream.feed(data)
        return True

    def wait_for(self, text: str, seconds: float = 30) -> None:
        """Wait until the text stands on the screen."""
        deadline = time.monotonic() + seconds
        while text not in "\n".join(self._screen.display):
            assert self._read(), self.said[-2000:]
            assert time.monotonic() < deadline, "\n".join(self._screen.display)

    def end(self, seconds: float = 30) -> int | None:
        """Wait for the end; gives the exit status."""
        deadline = time.monotonic() + seconds
        while self._read():
            assert time.monotonic() < deadline, "\n".join(self._screen.display)
        self.child.close()
        status: int | None = self.child.exitstatus
        return status


def test_a_missing_board_is_told_before_the_screen_changes(repo: Repo) -> None:
    root = repo().path
    with Terminal("run", at=root) as terminal:
        assert terminal.end() == 2
    assert terminal.said.startswith(f"taskyard: there is no board at {root}/tasks/board.md: ".encode())
    assert terminal.said.count(b"\n") == 1


def test_a_dumb_terminal_gets_plain_lines(repo: Repo) -> None:
    with Terminal("run", at=project(repo).path, TERM="dumb") as terminal:
        assert terminal.end() == 0
    assert b"no terminal for the dashboard" in terminal.said
    assert b"all landed: 3 of 3 landed" in terminal.said
    assert b"\x1b" not in terminal.said


def test_what_ends_a_run_is_told_once_to_who_reads_both_outputs(repo: Repo) -> None:
    made = repo({"tasks/board.md": BOARD, "taskyard.toml": settings("no-such-agent")})
    with Terminal("run", "--headless", at=made.path) as terminal:
        assert terminal.end() == 2
    assert terminal.said.count(b"cannot start no-such-agent") == 1


def test_what_came_of_a_run_stays_when_the_dashboard_is_left(repo: Repo) -> None:
    with Terminal("run", at=project(repo).path) as terminal:
        terminal.wait_for("all landed")
        terminal.child.send("q")
        assert terminal.end() == 0
    after = terminal.said[terminal.said.rindex(LEAVES) :]
    assert b"all landed: 3 of 3 landed" in after


@pytest.mark.parametrize(
    ("command", "shown", "status"), [("watch", "finished, some failed", 1), ("replay", "REPLAY", 0)]
)
def test_looking_at_a_run_of_the_past(repo: Repo, command: str, shown: str, status: int) -> None:
    root = repo().path
    record(root, short_run(), owner=Owner.of_this_process())
    with Terminal(command, at=root) as terminal:
        terminal.wait_for(shown)
        terminal.child.send("q")
        assert terminal.end() == status
    assert LEAVES in terminal.said


def test_a_state_folder_that_is_removed_under_the_dashboard_is_told_there(repo: Repo) -> None:
    made = project(repo, agent=SLOW)
    with Terminal("run", at=made.path) as terminal:
        terminal.wait_for("implement")
        shutil.rmtree(made.path / ".git" / "taskyard")
        terminal.wait_for("! 1 error")
        terminal.child.send("n")
        terminal.wait_for("was removed while")
        terminal.child.kill(signal.SIGTERM)
        assert terminal.end() == 143
    assert LEAVES in terminal.said
    assert processes_of(made.path.parent / "agent.py") == []


def test_a_full_disk_under_the_journal_ends_the_dashboard_with_words(repo: Repo) -> None:
    made = project(repo, agent=SLOW)
    with Terminal("run", at=made.path) as terminal:
        terminal.wait_for("implement")
        # No file may grow any more: what a full disk does to whoever writes.
        resource.prlimit(terminal.child.pid, resource.RLIMIT_FSIZE, (0, 0))
        terminal.child.send("p")
        assert terminal.end() == 1
    after = terminal.said[terminal.said.rindex(LEAVES) :]
    assert after.count(b"taskyard: ") == 1, after
    assert b"state.db" in after, after
    assert b"Traceback" not in after
    assert processes_of(made.path.parent / "agent.py") == []


def test_ctrl_c_stops_plain_progress_and_every_process(repo: Repo) -> None:
    made = project(repo, agent=SLOW)
    with Terminal("run", "--headless", at=made.path) as terminal:
        terminal.wait_for("T1     started")
        terminal.child.sendintr()
        assert terminal.end() == 130
    assert b"interrupted; the same command goes on from here: 0 of 3 landed" in terminal.said
    assert processes_of(made.path.parent / "agent.py") == []
