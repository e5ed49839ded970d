"""The engine in this thread, its events on standard output: what `run --headless` and `run --json` do."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Self

from engine.bus import Bus
from engine.errors import StoreError, TaskyardError
from engine.orchestrator import Orchestrator
from engine.process import child_environment
from engine.settings import Settings
from tui.cli.console import complain, give_up_stdout
from tui.headless import ProgressLines
from tui.notify import ending, run_command
from tui.printer import EventPrinter

PATIENCE = 2.0
"""Seconds for a reader that has stopped reading, once the run is to end."""

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def run_and_print(
    settings: Settings, *, as_json: bool, environ: Mapping[str, str], kept: bool = True
) -> int:
    """Run the board, print its events on standard output, and give the exit status.

    The first SIGINT, SIGTERM or SIGHUP stops the run cleanly, a second SIGINT or SIGTERM at once; a reader that goes
    away stops it cleanly, too.
    Raises UsageError before anything is written.
    """
    bus = Bus()
    goes_on = "; the same command goes on from here" if kept else ""
    with _Interruption(goes_on) as interruption:
        try:
            orchestrator = await Orchestrator.open(settings, bus=bus, environ=environ)
            interruption.stop_with(orchestrator.commands.stop)
            lines = None if as_json else ProgressLines(bus.state.snapshot(), kept=kept)
            printer = EventPrinter(sys.stdout, lines, on_closed=interruption.stop_from_thread)
            bus.subscribe(printer.print)
            try:
                finished = await orchestrator.run()
            except TaskyardError as error:
                if lines is not None and _told(bus, error) and _same_reader():
                    return error.exit_status
                raise
            finally:
                if not printer.close(PATIENCE if interruption.signal else None):
                    # The thread hangs in a write that nobody reads, and would hold the interpreter's end up too.
                    os._exit(interruption.exit_status)
        except asyncio.CancelledError:
            if not interruption.signal:
                raise
            return interruption.exit_status
    if printer.problem is not None:
        if isinstance(printer.problem, BrokenPipeError):
            raise BrokenPipeError
        give_up_stdout()
        raise StoreError(
            f"standard output cannot be written ({printer.problem})", "the run was stopped; start it again"
        )
    if finished.status == "interrupted":
        return interruption.exit_status
    if settings.notify.command:
        child = child_environment(environ, "")
        problem = await asyncio.to_thread(run_command, settings.notify.command, ending(finished), child)
        if problem:
            complain(problem)
    return finished.exit_status


def _told(bus: Bus, error: TaskyardError) -> bool:
    """Whether the run has told this error among its events, before it ended by it."""
    return any(notice.text == str(error) for notice in bus.state.snapshot().notices)


def _same_reader() -> bool:
    """Whether standard output and standard error go to one place, so that nothing need be said on both."""
    try:
        out, err = (os.fstat(stream.fileno()) for stream in (sys.stdout, sys.stderr))
    except (OSError, ValueError):
        return False
    return (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino)


class _Interruption:
    """Turns signals into a request to stop. What was ignored when we started (nohup, a background job) stays so."""

    def __init__(self, goes_on: str) -> None:
        self.signal = 0
        self._goes_on = goes_on
        self._begun = False
        self._loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        self._end: Callable[[], object] = task.cancel
        self._stop: Callable[[], object] = task.cancel
        self._caught = [number for number in _STOPPING if signal.getsignal(number) is not signal.SIG_IGN]

    @property
    def exit_status(self) -> int:
        """What a shell expects of a process that such a signal ended."""
        return 128 + (self.signal or signal.SIGINT)

    def stop_with(self, stop: Callable[[], object]) -> None:
        """Call this at the first signal, from now on: the run has begun."""
        self._stop = stop
        self._begun = True

    def stop_from_thread(self) -> None:
        """Stop the run, from another thread."""
        self._loop.call_soon_threadsafe(self._stop)

    def _received(self, number: int) -> None:
        if self.signal and number == signal.SIGHUP:
            return  # a terminal that is closed sends two, which is nobody's second wish
        if self.signal:
            self._end()
            told = f"ended at once{self._goes_on}"
        else:
            self.signal = number
            self._stop()
            told = "stopping; again to end at once" if self._begun else "interrupted before the run began"
        with contextlib.suppress(OSError):  # After SIGHUP the terminal may have gone.
            complain(told)

    def __enter__(self) -> Self:
        for number in self._caught:
            self._loop.add_signal_handler(number, self._received, number)
        return self

    def __exit__(self, *_: object) -> None:
        for number in self._caught:
            self._loop.remove_signal_handler(number)
