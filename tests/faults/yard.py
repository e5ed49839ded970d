"""A project to hurt: repository, remote, board, model service and the runs at work on it, all below one folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from engine.events import AnyEvent
from engine.llm.simulator import Simulator
from engine.paths import StatePaths
from engine.store.journal_reader import JournalReader
from tests.faults.boards import Board
from tests.faults.cable import Cable
from tests.faults.process import Run
from tests.locks.servers import Server

MARK = "FAULTS_YARD"
"""In the environment of every run, and so of all that it starts: whose process is it?"""

TARGET = "taskyard/board"
_ROOT = Path(__file__).parents[2]


class Yard:
    """`slots` holds the runs at work, one for each orchestrator.

    `room` bounds the disk in bytes, by a file system of its own; None where nothing is to be mounted.
    """

    def __init__(
        self,
        folder: Path,
        board: Board,
        *,
        orchestrators: int = 1,
        redis: bool = False,
        room: int | None = None,
    ) -> None:
        self.folder = folder
        self.board = board
        self.disk = folder / "disk"
        self.path = self.disk / "project"
        self.remote = self.disk / "project.git"
        self.slots: list[Run | None] = [None] * orchestrators
        self.runs: list[Run] = []
        self._room = room
        self.simulator = Simulator(board.scenario) if board.scenario is not None else None
        self.redis = Server(folder, durable=True) if redis else None
        self.service_cables: list[Cable] = []
        self.redis_cables: list[Cable] = []

    def __enter__(self) -> Self:
        self.disk.mkdir(parents=True)
        if self._room:
            mount(self.disk, self._room)
        try:
            self._make()
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def _make(self) -> None:
        if self.redis is not None:
            self.redis.start()
            self.redis_cables = [Cable(("127.0.0.1", self.redis.port)) for _ in self.slots]
        if self.simulator is not None:
            self.simulator.start()
            host, _, port = self.simulator.url.removeprefix("http://").partition(":")
            self.service_cables = [Cable((host, int(port))) for _ in self.slots]
        (self.folder / "gitconfig").write_text(
            "[user]\n\tname = Ada\n\temail = ada@example.org\n[gc]\n\tauto = 0\n"
        )
        for name, text in self.board.files.items():
            file = self.path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("init", "--quiet", "--bare", "--initial-branch=main", str(self.remote))
        self.git("config", "core.logAllRefUpdates", "always", at=self.remote)
        self.git("remote", "add", "origin", str(self.remote))
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "Begin")
        self.git("push", "--quiet", "--set-upstream", "origin", "main")
        # Somebody is at work in the checkout, and stays at it.
        (self.path / "shared.txt").write_text("being edited\n")
        (self.path / "untracked.txt").write_text("untracked\n")
        self.git("status")  # The index takes note of the files' times now, and not during the run.

    def _leave(self) -> None:
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()
        for run in self.runs:
            run.ended_within(10)
        for cable in (*self.service_cables, *self.redis_cables):
            cable.close()
        if self.simulator is not None:
            self.simulator.stop()
        if self.redis is not None:
            self.redis.kill()
        if self._room:
            subprocess.run(["umount", "--lazy", str(self.disk)], check=True)

    # The runs

    def environment(self, slot: int) -> dict[str, str]:
        """What a run is started with."""
        ours = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(_ROOT),
            "GIT_CONFIG_GLOBAL": str(self.folder / "gitconfig"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "XDG_STATE_HOME": str(self.disk / "state"),
            MARK: str(self.folder),
        }
        if self.service_cables:
            ours["ANTHROPIC_API_KEY"] = "demo"
            ours["TASKYARD_LLM_BASE_URL"] = f"http://127.0.0.1:{self.service_cables[slot].port}"
        if self.redis_cables:
            ours["TASKYARD_LOCKS_URL"] = f"redis://127.0.0.1:{self.redis_cables[slot].port}/0"
        elif len(self.slots) > 1:
            ours["TASKYARD_LOCKS_SHARED"] = "true"
        return ours

    def start(self, slot: int, more: Mapping[str, str] | None = None) -> Run:
        """Start the command, in place of one that has ended."""
        transcript = self.folder / f"run-{len(self.runs) + 1:02}-{slot}.jsonl"
        run = Run(self.path, self.environment(slot) | dict(more or {}), transcript)
        self.slots[slot] = run
        self.runs.append(run)
        return run

    @property
    def at_work(self) -> list[tuple[int, Run]]:
        """The runs that have not ended, with their slots."""
        return [(slot, run) for slot, run in enumerate(self.slots) if run is not None and run.alive]

    def processes(self) -> list[psutil.Process]:
        """Everything that any run of this yard has started and that still lives, the runs included."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.pid != os.getpid() and process.environ().get(MARK) == str(self.folder):
                    found.append(process)
        return found

    # What is known

    @property
    def paths(self) -> StatePaths:
        """Where the runs keep their state."""
        return StatePaths.of(self.path / ".git", self.environment(0))

    def journal(self) -> dict[str, list[AnyEvent]]:
        """All journaled events, by run."""
        if not self.paths.state_db.exists():
            return {}
        reader = JournalReader(self.paths.state_db, self.paths.archive)
        try:
            return {
                row.run: [event for _, event in reader.poll(row.run, 0, limit=1_000_000)]
                for row in reader.runs()
            }
        finally:
            reader.close()

    def git(self, *args: str, at: Path | None = None, check: bool = True) -> str:
        """Run git in the checkout (or `at`), and give its output without the last newline."""
        env = {
            "PATH": os.environ["PATH"],
            "GIT_CONFIG_GLOBAL": str(self.folder / "gitconfig"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_OPTIONAL_LOCKS": "0" if args[0] != "status" else "1",
        }
        done = subprocess.run(
            ["git", "-C", str(at or self.path), *args], env=env, capture_output=True, text=True
        )
        assert done.returncode == 0 or not check, f"git {' '.join(args)}: {done.stderr}"
        return done.stdout.rstrip("\n")


def mount(folder: Path, size: int) -> None:
    """Put a small file system of its own on a folder. Raises OSError where nobody lets us."""
    if shutil.which("mount") is None or os.geteuid() != 0:
        raise OSError("only root may mount")
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "taskyard-faults", str(folder)],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise OSError(done.stderr.strip())


def can_mount() -> bool:
    """Whether this process may put a file system on a folder."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            mount(Path(folder), 1 << 20)
        except OSError:
            return False
        subprocess.run(["umount", folder], check=True)
    return True


def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait for a condition, so many seconds at most; gives whether it came."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
