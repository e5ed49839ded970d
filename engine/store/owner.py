"""Which process owns a run, and whether it still lives.

A process id alone is not enough: the kernel gives it out again. So an owner also carries a mark that no other process
with that id has: the boot and the tick at which it started.
"""

from __future__ import annotations

import os
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

FOREIGN_SILENCE = 60.0
"""Seconds without a heartbeat after which an owner on another host counts as dead."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A process on a host. `mark` tells it from later processes with the same id; it is empty when unknown."""

    host: str
    pid: int
    mark: str = ""

    @classmethod
    def of_this_process(cls) -> Owner:
        """This process."""
        pid = os.getpid()
        return cls(socket.gethostname(), pid, process_mark(pid) or "")

    def is_alive(self, *, silent_for: float) -> bool:
        """Whether the process still runs. On another host only the silence of its heartbeat (seconds) can tell."""
        if self.host != socket.gethostname():
            return silent_for < FOREIGN_SILENCE
        mark = process_mark(self.pid)
        return mark is not None and (mark == self.mark or not self.mark)


def process_mark(pid: int) -> str | None:
    """What sets this process apart from others that get the same id; None when there is no such process."""
    if not Path("/proc/self/stat").exists():
        return _mark_by_ps(pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may hold spaces and parentheses itself. After it: state, …, start in ticks since boot.
    fields = stat[stat.rindex(")") + 2 :].split()
    if fields[0] in "ZX":
        return None
    return f"{_boot_id()}:{fields[19]}"


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _mark_by_ps(pid: int) -> str | None:
    asked = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    state, _, started = asked.stdout.strip().partition(" ")
    return None if not started or state.startswith("Z") else started.strip()
