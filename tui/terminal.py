"""The terminal that the dashboard is drawn on, which may be closed at any moment, and programs that borrow it.

app.driver_class = TerminalDriver       what is written to a terminal that has gone is lost, and stops nobody
number = lend(["less", path])           the signal that came meanwhile to end the dashboard, or None
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import IO, Any, cast

from textual import events
from textual._xterm_parser import XTermParser
from textual.drivers import linux_driver
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals that end the dashboard."""

_TYPED = (signal.SIGINT, signal.SIGQUIT)
"""Those that a terminal sends at a key: while a program has the terminal they are for that program."""

_BURST = 100
"""Keys that may wait for the dashboard at once."""

_PATIENCE = 1.0
"""Seconds in which a program may end by itself once it was told to."""


class _Ear:
    """Takes what is written, also where nobody reads it any more.

    Textual 8 writes from a thread of its own: an error would end the thread, and whoever writes would wait for ever as
    soon as its queue of thirty pieces is full.
    """

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> None:
        """Write, if there is still somebody who reads it."""
        with contextlib.suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        """The same for what was kept back."""
        with contextlib.suppress(OSError):
            self._file.flush()

    def fileno(self) -> int:
        """The number of the file."""
        return self._file.fileno()


class _Keys(XTermParser):
    """Takes an escape that a letter follows at once for the escape key.

    Typed quickly, or over a slow line, the two arrive together. Textual takes them for the letter with alt, which does
    nothing here, and loses the escape before other signs.
    """

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        if alt and sequence not in _INTRODUCERS:
            yield events.Key("escape", "\x1b")
        yield from super()._sequence_to_key_events(sequence)


_INTRODUCERS = "[O]P_"
"""What follows an escape in the sequences of a terminal, which a slow line may break in two."""

linux_driver.XTermParser = _Keys  # type: ignore[attr-defined]


class TerminalDriver(LinuxDriver):
    """Textual's driver, which a terminal that has gone does not stop."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._file = cast("Any", _Ear(cast("IO[str]", sys.__stderr__)))
        self._taken = 0

    def write(self, data: str) -> None:
        """Write; while another program has the terminal there is nothing to write to."""
        if self._writer_thread is not None and self._writer_thread.is_alive():
            super().write(data)

    def release(self) -> None:
        """Let its threads end, in whatever way the dashboard did: the interpreter would wait for them for ever."""
        self.exit_event.set()
        if self._writer_thread is not None and self._writer_thread.is_alive():
            self._writer_thread.stop()

    def process_message(self, message: Message) -> None:
        """Hand on what was typed, no faster than it is worked off: what waits longer waits in the terminal.

        Else minutes of work pile up behind a key that is stuck or a paste in single keys, and a signal comes last.
        """
        super().process_message(message)
        self._taken += 1
        if self._taken % _BURST or threading.current_thread() is not self._key_thread:
            return
        caught_up = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop)
        queue: asyncio.Queue[Message | None] = self._app._message_queue
        while not self.exit_event.is_set() and (not caught_up.done() or queue.qsize() > _BURST):
            time.sleep(0.002)


def lend(command: Sequence[str]) -> int | None:
    """Run a program on the terminal and wait for it. A signal that ends the dashboard ends the program as well.

    Gives that signal, or SIGHUP when the terminal has gone by the end; None when the dashboard may go on.
    """
    told: list[int] = []
    child: subprocess.Popen[bytes] | None = None

    def tell_child() -> None:
        if child is None:
            return
        child.send_signal(told[0])
        killer = threading.Timer(_PATIENCE, child.kill)
        killer.daemon = True
        killer.start()

    def hear(number: int) -> None:
        if number not in _TYPED:
            told.append(number)
            if len(told) == 1:
                tell_child()

    stop_hearing = hear_endings(hear)
    try:
        child = subprocess.Popen(command)
        if told:  # it came before there was a child to tell
            tell_child()
        _wait_for(child)
    finally:
        stop_hearing()
    if told:
        return told[0]
    return signal.SIGHUP if _gone() else None


def _wait_for(child: subprocess.Popen[bytes]) -> None:
    """Wait until the child has ended; handlers of signals are called meanwhile, whichever thread a signal comes to.

    As a terminal is closed the kernel sends two signals at once, and may give both to another thread. Python calls
    handlers in the main thread alone, which would hear nothing of it in `Popen.wait`: a byte in a pipe wakes it.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    ended = signal.signal(signal.SIGCHLD, lambda *_: None)
    woken = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        while child.poll() is None:
            os.read(reader, 512)
    finally:
        signal.set_wakeup_fd(woken)
        signal.signal(signal.SIGCHLD, ended)
        os.close(reader)
        os.close(writer)


def hear_endings(tell: Callable[[int], None]) -> Callable[[], None]:
    """Call `tell` with each signal that ends the dashboard, in the middle of whatever goes on; gives what stops that.

    asyncio would hear of none while thousands of keys wait: each of them fills the pipe that signals come by.
    """
    before = {n: handler for n in ENDING if (handler := signal.getsignal(n)) not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, lambda number, _: tell(number))

    def stop() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    return stop


def _gone() -> bool:
    """Whether the terminal was closed: what is left of one is no terminal any more."""
    return sys.__stdin__ is None or not os.isatty(sys.__stdin__.fileno())
