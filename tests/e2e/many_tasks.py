"""A project of any number of small tasks and the command run on it, against a simulator that counts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from engine.events import AnyEvent, RunFinished, decode
from engine.llm.simulator.scenario import Answer, Edit
from tests import forked
from tests.cli.taskyard import PROGRAM
from tests.sample_repository import SampleRepository, make_sample_repository

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
ANSWERS = (
    Answer(
        task="*",
        role="implementer",
        summary="Write it.",
        edits=(Edit("{slug}.txt", "{task}\n"),),
        check=False,
    ),
)
"""Every task's file, for both lanes; plans and verdicts are those of a simulator that was told nothing."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run printed, and its exit status."""

    status: int
    events: tuple[AnyEvent, ...]
    errors: str

    @property
    def finished(self) -> RunFinished:
        last = self.events[-1] if self.events else None
        assert isinstance(last, RunFinished), self.errors
        return last

    def of(self, kind: type[T]) -> list[T]:
        return [event for event in self.events if isinstance(event, kind)]


def make_project(
    path: Path,
    tasks: int,
    *,
    lane: str = "fast",
    kinds: Mapping[str, str] | None = None,
    settings: str = "",
    files: Mapping[str, str] | None = None,
) -> SampleRepository:
    """Make it, with tasks T1 … Tn. `kinds` are the kinds of the roles that are not models; `settings` go on top."""
    rows = ["| ID | Scope | Status | Branch | Verification | Lane |", "|---|---|---|---|---|---|"]
    rows += [
        f"| T{n} | Write the file number {n} | [ ] | | `test -f t{n}.txt` | {lane} |"
        for n in range(1, tasks + 1)
    ]
    roles = dict.fromkeys(("planner", "implementer", "judge"), "anthropic") | dict(kinds or {})
    tables = "".join(f'[roles.{role}]\nkind = "{kind}"\n' for role, kind in roles.items())
    return make_sample_repository(
        path,
        {"tasks/board.md": "\n".join([*rows, ""]), "taskyard.toml": settings + tables, **(files or {})},
    )


def environment(url: str, **more: str) -> dict[str, str]:
    service = {"TASKYARD_LLM_BASE_URL": url, "ANTHROPIC_API_KEY": "demo"}
    return {**os.environ, "PYTHONPATH": str(ROOT), **service, **more}


def start(at: Path, url: str, *args: str, **more: str) -> subprocess.Popen[bytes]:
    """Start a run that prints its events."""
    return forked.Popen(
        [*PROGRAM, "run", "--json", *args],
        cwd=at,
        env=environment(url, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def run(at: Path, url: str, *args: str, timeout: float = 200.0, **more: str) -> Ran:
    """Run to the end."""
    process = start(at, url, *args, **more)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
    return Ran(process.returncode, tuple(map(decode, out.splitlines())), err.decode())
