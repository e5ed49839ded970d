"""A clock, events and other processes for the tests of the journal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec

from engine.events import Progressed
from engine.snapshot import Snapshot

STATE = msgspec.json.encode(Snapshot())


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def note(n: int) -> Progressed:
    return Progressed(at=float(n), task="A", text=f"step {n} 漢字 👩‍💻")


def start_child(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=Path(__file__).parents[2], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
