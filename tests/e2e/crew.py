"""Several orchestrators on one board, each a process: over one checkout, or each with a clone of its own."""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from engine.events import AnyEvent, RunFinished, RunStarted, decode
from engine.process import end_strays
from tests import forked
from tests.cli.taskyard import PROGRAM
from tests.sample_repository import SampleRepository, make_sample_repository

ROOT = Path(__file__).parents[2]
TARGET = "taskyard/board"
AGENT = """#!/bin/sh
# Write the task's file, after a while, and note who worked on what. While there is a file `hold`, nobody goes on.
id=$(grep -o 'file number [0-9]*' | head -1 | tr -dc 0-9)
echo "T$id $TASKYARD_RUN" >> {worked}
while [ -e {hold} ]; do sleep 0.05; done
sleep {seconds}
echo "$id" > "t$id.txt"
"""


@dataclass
class Member:
    """One orchestrator; what it prints goes to files."""

    process: subprocess.Popen[bytes]
    out: Path
    err: Path

    @property
    def events(self) -> list[AnyEvent]:
        """What it has told so far."""
        return [
            decode(line) for line in self.out.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")
        ]

    @property
    def run(self) -> str:
        """The id of its run; empty before it has begun."""
        return next((event.run for event in self.events if isinstance(event, RunStarted)), "")

    def told(self, kind: type[AnyEvent]) -> list[AnyEvent]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def finished(self) -> RunFinished:
        last = next(reversed(self.events), None)
        assert isinstance(last, RunFinished), self.err.read_text()
        return last

    def kill(self) -> None:
        """Kill it, as a power cut would, and wait until it is gone."""
        self.process.kill()
        self.process.wait()

    def notices(self) -> str:
        return "\n".join(getattr(event, "text", "") for event in self.events)


@dataclass
class Crew:
    """A project whose tasks each take `seconds`, and the orchestrators at work on it."""

    folder: Path
    sample: SampleRepository
    members: list[Member] = field(default_factory=list)

    @classmethod
    def make(
        cls,
        folder: Path,
        tasks: int,
        *,
        seconds: float,
        settings: str = "",
        slots: int = 4,
        lease: float = 600.0,
        url: str = "",
    ) -> Crew:
        agent, worked = folder / "agent.sh", folder / "worked"
        agent.write_text(AGENT.format(worked=worked, hold=folder / "hold", seconds=seconds))
        agent.chmod(0o755)
        worked.touch()
        rows = ["| ID | Scope | Status | Branch | Verification |", "|---|---|---|---|---|"]
        rows += [
            f"| T{n} | Write the file number {n} | [ ] | | `test -s t{n}.txt` |" for n in range(1, tasks + 1)
        ]
        text = (
            f'[run]\nmax_concurrency = {slots}\n[roles.planner]\nkind = "none"\n[roles.judge]\nkind = "none"\n'
            f'[roles.implementer]\nkind = "command"\ncommand = ["{agent}"]\n'
            f'[locks]\nshared = true\nlease = "{lease:g}s"\n'
        )
        text += (f'url = "{url}"\n' if url else "") + settings
        sample = make_sample_repository(
            folder / "repo", {"tasks/board.md": "\n".join([*rows, ""]), "taskyard.toml": text}
        )
        return cls(folder, sample)

    def clone(self) -> Path:
        """Another clone of the project, as another host has it."""
        at = self.folder / f"clone{len(list(self.folder.glob('clone*')))}"
        self.sample.git("clone", "--quiet", str(self.sample.remote), str(at))
        return at

    def start(self, at: Path | None = None, **more: str) -> Member:
        """Start one more orchestrator, in the checkout or at a clone."""
        number = len(self.members)
        out, err = self.folder / f"out{number}", self.folder / f"err{number}"
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **more}
        with out.open("wb") as out_file, err.open("wb") as err_file:
            process = forked.Popen(
                [*PROGRAM, "run", "--json"],
                cwd=at or self.sample.path,
                env=environment,
                stdout=out_file,
                stderr=err_file,
            )
        self.members.append(Member(process, out, err))
        return self.members[-1]

    def wait(self, *members: Member, timeout: float = 200.0) -> None:
        """Wait until these, or all, have ended."""
        until(lambda: all(member.process.poll() is not None for member in members or self.members), timeout)

    def close(self) -> None:
        for member in self.members:
            if member.process.poll() is None:
                member.process.kill()
                member.process.wait()
            if member.run:
                end_strays(member.run)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let no agent go on, so that what has to be there meanwhile is there, however slow the machine."""
        hold = self.folder / "hold"
        hold.touch()
        yield
        hold.unlink()

    @property
    def worked(self) -> list[tuple[str, str]]:
        """Each time an agent was started: for which task, in which run."""
        lines = (self.folder / "worked").read_text().splitlines()
        return [(task, run) for task, _, run in (line.partition(" ") for line in lines)]

    def in_work(self, member: Member) -> set[str]:
        """The tasks that the member has begun and not landed."""
        run, landed = member.run, self.landed() if self.pushes else {}
        return {task for task, by in self.worked if by == run and task not in landed}

    def landed(self) -> Counter[str]:
        """How often each task was landed on the target, by the merges that are there."""
        log = self.sample.git(
            "log", "--merges", "--first-parent", "--format=%(trailers:key=Taskyard-Task,valueonly,separator=%x2C)",
            TARGET, at=self.sample.remote,
        )  # fmt: skip
        return Counter(line for line in log.splitlines() if line)

    @property
    def pushes(self) -> int:
        return self.sample.pushes(TARGET)

    def left_behind(self, places: Sequence[Path]) -> list[str]:
        """Worktrees and branches of tasks that are still there."""
        left = []
        for place in places:
            left += self.sample.git("worktree", "list", "--porcelain", at=place).split("\nworktree ")[1:]
            left += self.sample.git(
                "for-each-ref", "--format=%(refname)", "refs/heads/task", at=place
            ).split()
        return left


def until(true: Callable[[], object], timeout: float = 120.0) -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)
