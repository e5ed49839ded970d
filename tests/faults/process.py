"""One `taskyard run` in a process of its own, whose events can be waited for."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from engine.events import AnyEvent, RunFinished, decode
from tests import forked
from tests.cli.taskyard import PROGRAM


class Run:
    """Started at once; what it prints goes to `transcript`, too, for whoever looks for the reason of a failure."""

    def __init__(self, at: Path, env: Mapping[str, str], transcript: Path) -> None:
        self.events: list[AnyEvent] = []
        self._transcript = transcript
        self._heard = threading.Condition()
        self._read = 0
        self._complaints = transcript.with_suffix(".err").open("wb")
        self.process = forked.Popen(
            [*PROGRAM, "run", "--json"],
            cwd=at,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
        )
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self._transcript.open("wb") as transcript:
            for line in self.process.stdout:
                with contextlib.suppress(OSError):  # the disk may be full on purpose
                    transcript.write(line)
                    transcript.flush()
                with (
                    contextlib.suppress(msgspec.DecodeError),
                    self._heard,
                ):  # the last line of a kill may be half
                    self.events.append(decode(line))
                    self._heard.notify_all()
        with self._heard:
            self._heard.notify_all()

    def wait_for(self, reached: Callable[[AnyEvent], bool], timeout: float) -> AnyEvent | None:
        """Wait for an event that nobody has waited for yet; None when the run ended, or time ran out, without it."""
        end = time.monotonic() + timeout
        with self._heard:
            while True:
                while self._read < len(self.events):
                    self._read += 1
                    if reached(self.events[self._read - 1]):
                        return self.events[self._read - 1]
                left = end - time.monotonic()
                if left <= 0 or not self._thread.is_alive():
                    return None
                self._heard.wait(min(left, 0.5))

    def ended_within(self, seconds: float) -> bool:
        """Wait so long for the process to end; gives whether it has."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        self._thread.join(5)
        self._complaints.close()
        return True

    @property
    def alive(self) -> bool:
        """Whether the process runs (or is stopped)."""
        return self.process.poll() is None

    @property
    def finished(self) -> RunFinished | None:
        """What it said last, when it came to an end by itself."""
        last = self.events[-1] if self.events else None
        return last if isinstance(last, RunFinished) else None

    @property
    def complaint(self) -> str:
        """What it wrote to standard error."""
        return self._transcript.with_suffix(".err").read_text(errors="replace").strip()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        if self.alive:
            os.kill(self.process.pid, number)

    def kill(self) -> None:
        """End it by SIGKILL; what it started is left to itself."""
        self.signal(signal.SIGKILL)
        self.ended_within(30)
