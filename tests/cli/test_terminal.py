"""Commands on a terminal: a real one, as far as the program can tell."""

from __future__ import annotations

import resource
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.store.owner import Owner
from tests.cli.taskyard import PROGRAM
from tests.cli.test_run import BOARD, SLOW, processes_of, project, settings
from tests.sample_repository import SampleRepository
from tests.samples import record, short_run
from tests.tui.terminal import Terminal

Repo = Callable[..., SampleRepository]
LEAVES = b"\x1b[?1049l"


def on_terminal(*args: str, at: Path, **environ: str) -> Terminal:
    """A command on a terminal of 120×40."""
    return Terminal([*PROGRAM[1:], *args], width=120, height=40, cwd=at, env=environ)


def test_a_missing_board_is_told_before_the_screen_changes(repo: Repo) -> None:
    root = repo().path
    with on_terminal("run", at=root) as terminal:
        assert terminal.end() == 2
    assert terminal.raw.startswith(f"taskyard: there is no board at {root}/tasks/board.md: ".encode())
    assert terminal.raw.count(b"\n") == 1


def test_a_dumb_terminal_gets_plain_lines(repo: Repo) -> None:
    with on_terminal("run", at=project(repo).path, TERM="dumb") as terminal:
        assert terminal.end() == 0
    assert b"no terminal for the dashboard" in terminal.raw
    assert b"all landed: 3 of 3 landed" in terminal.raw
    assert b"\x1b" not in terminal.raw


def test_what_ends_a_run_is_told_once_to_who_reads_both_outputs(repo: Repo, tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    agent.write_text("#!/nowhere/python\n")
    agent.chmod(0o755)
    made = repo({"tasks/board.md": BOARD, "taskyard.toml": settings(str(agent))})
    with on_terminal("run", "--headless", at=made.path) as terminal:
        assert terminal.end() == 2
    assert terminal.raw.count(f"cannot start {agent}".encode()) == 1


def test_what_came_of_a_run_stays_when_the_dashboard_is_left(repo: Repo) -> None:
    with on_terminal("run", at=project(repo).path) as terminal:
        terminal.until_shows("all landed")
        terminal.press("q")
        assert terminal.end() == 0
    after = terminal.raw[terminal.raw.rindex(LEAVES) :]
    assert b"all landed: 3 of 3 landed" in after


@pytest.mark.parametrize(
    ("command", "shown", "status"), [("watch", "some failed", 1), ("replay", "REPLAY", 0)]
)
def test_looking_at_a_run_of_the_past(repo: Repo, command: str, shown: str, status: int) -> None:
    root = repo().path
    record(root, short_run(), owner=Owner.of_this_process())
    with on_terminal(command, at=root) as terminal:
        terminal.until_shows(shown)
        terminal.press("q")
        assert terminal.end() == status
    assert LEAVES in terminal.raw


def test_a_state_folder_that_is_removed_under_the_dashboard_is_told_there(repo: Repo) -> None:
    made = project(repo, agent=SLOW)
    with on_terminal("run", at=made.path) as terminal:
        terminal.until_shows("implement")
        # At one blow: whoever removes file by file meets those that the run makes meanwhile.
        shutil.rmtree((made.path / ".git" / "taskyard").rename(made.path.parent / "removed"))
        terminal.until_shows("! 1 error")
        terminal.press("n")
        terminal.until_shows("was removed while")
        terminal.process.kill(signal.SIGTERM)
        assert terminal.end() == 143
    assert LEAVES in terminal.raw
    assert processes_of(made.path.parent / "agent.py") == []


def test_a_full_disk_under_the_journal_ends_the_dashboard_with_words(repo: Repo) -> None:
    made = project(repo, agent=SLOW)
    with on_terminal("run", at=made.path) as terminal:
        terminal.until_shows("implement")
        # No file may grow any more: what a full disk does to whoever writes.
        resource.prlimit(terminal.process.pid, resource.RLIMIT_FSIZE, (0, 0))
        terminal.press("p")
        assert terminal.end() == 1
    after = terminal.raw[terminal.raw.rindex(LEAVES) :]
    assert after.count(b"taskyard: ") == 1, after
    assert b"state.db" in after, after
    assert b"Traceback" not in after
    assert processes_of(made.path.parent / "agent.py") == []


def test_ctrl_c_stops_plain_progress_and_every_process(repo: Repo) -> None:
    made = project(repo, agent=SLOW)
    with on_terminal("run", "--headless", at=made.path) as terminal:
        terminal.until_shows("T1     started")
        terminal.process.sendintr()
        assert terminal.end() == 130
    assert b"interrupted; the same command goes on from here: 0 of 3 landed" in terminal.raw
    assert processes_of(made.path.parent / "agent.py") == []
