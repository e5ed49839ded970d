"""A real terminal for a real process: what it writes is read by a terminal emulator, keys are typed into its pty."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pexpect  # type: ignore[import-untyped]
import pyte

ROOT = Path(__file__).parents[2]
PATIENCE = 45.0
"""Seconds for what has to come: what comes never is what tests look for, and a busy machine is slow."""


class Terminal:
    """Runs `python ARGS` in a pty of `width` by `height` cells."""

    def __init__(
        self,
        args: Sequence[str],
        *,
        width: int = 100,
        height: int = 30,
        cwd: Path = ROOT,
        env: dict[str, str] | None = None,
    ) -> None:
        environ = {
            **os.environ,
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "PYTHONPATH": str(ROOT),
            **(env or {}),
        }
        self.process = pexpect.spawn(
            sys.executable, list(args), dimensions=(height, width), cwd=str(cwd), env=environ, timeout=5
        )
        self.process.delaybeforesend = None
        self._begin(width, height)
        self.raw = b""
        self._over = False

    def _begin(self, width: int, height: int) -> None:
        self._screen = pyte.Screen(width, height)
        self._stream = pyte.ByteStream(self._screen)

    @property
    def text(self) -> str:
        """What stands on the screen."""
        return "\n".join(line.rstrip() for line in self._screen.display)

    def read(self, seconds: float = 0.05, *, draw: bool = True) -> bytes:
        """Take in what is written within so long; gives it. Without `draw` it does not come to the emulator's screen:
        drawing takes longer than writing, and whoever measures must not measure that."""
        if self.process.ptyproc.fileobj.closed:
            time.sleep(seconds)
            return b""
        try:
            data: bytes = self.process.read_nonblocking(1 << 16, timeout=seconds)
        except pexpect.TIMEOUT:
            return b""
        except pexpect.EOF:
            self._over = True
            return b""
        self.raw += data
        # pyte knows neither private CSI prefixes such as "<u" nor synchronized output; they draw nothing.
        if draw:
            self._stream.feed(data)
        return data

    def until(self, condition: Callable[[str], bool], timeout: float = PATIENCE) -> str:
        """Wait until the screen satisfies the condition; gives it. Fails with what stands there instead."""
        deadline = time.monotonic() + timeout
        while not condition(self.text):
            assert not self._over, f"ended before:\n{self.text}"
            assert time.monotonic() < deadline, f"not reached in {timeout} s:\n{self.text}"
            self.read()
        return self.text

    def until_gone(self, words: str, timeout: float = PATIENCE) -> str:
        """Wait until these words stand on the screen no more."""
        return self.until(lambda text: words not in text, timeout)

    def until_shows(self, words: str, timeout: float = PATIENCE) -> str:
        """Wait until these words stand on the screen."""
        return self.until(lambda text: words in text, timeout)

    def press(self, keys: str) -> None:
        """Type."""
        self.process.send(keys)

    def wheel(self, x: int, y: int, *, down: bool) -> None:
        """Turn the mouse wheel by one notch over a cell, counted from 1."""
        self.press(f"\x1b[<{65 if down else 64};{x};{y}M")

    def click(self, words: str) -> None:
        """Press and release the mouse on the first cell of these words, once they stand on the screen."""
        self.until_shows(words)
        row, line = next((n, line) for n, line in enumerate(self._screen.display, 1) if words in line)
        column = line.index(words) + 1
        self.press(f"\x1b[<0;{column};{row}M\x1b[<0;{column};{row}m")

    def resize(self, width: int, height: int) -> None:
        """Make the window another size."""
        # An emulator's own idea of what stays when it shrinks differs; the dashboard draws everything anew.
        self._begin(width, height)
        self.process.setwinsize(height, width)

    def end(self, timeout: float = PATIENCE) -> int:
        """Wait for the process to end; gives its exit status (or minus the signal that killed it)."""
        deadline = time.monotonic() + timeout
        while self.process.isalive():
            assert time.monotonic() < deadline, f"still alive after {timeout} s:\n{self.text}"
            self.read(0.02)
        while self.read():
            pass
        status = self.process.exitstatus
        return int(status) if status is not None else -int(self.process.signalstatus)

    def hang_up(self) -> int:
        """Close the terminal, as its window is closed, and wait for the process to end; gives its exit status."""
        terminal = self.process.ptyproc
        terminal.fileobj.close()
        deadline = time.monotonic() + PATIENCE
        while terminal.isalive():
            assert time.monotonic() < deadline, f"process {terminal.pid} lives on without a terminal"
            time.sleep(0.02)
        return int(terminal.exitstatus)

    @property
    def restored(self) -> bool:
        """Whether the alternate screen was left and the cursor and mouse given back, in that order."""
        return all(self.raw.rfind(off) > self.raw.rfind(on) for on, off in _PAIRS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Not by pexpect, which waits a moment for a killed process and then calls it one that cannot be killed.
        for number, patience in ((signal.SIGHUP, 5.0), (signal.SIGKILL, PATIENCE)):
            deadline = time.monotonic() + patience
            while self.process.isalive() and time.monotonic() < deadline:
                self.process.kill(number)
                self.read(0.05)
        self.process.close()


_PAIRS = ((b"\x1b[?1049h", b"\x1b[?1049l"), (b"\x1b[?25l", b"\x1b[?25h"), (b"\x1b[?1000h", b"\x1b[?1000l"))
