"""The engine in a thread of its own, with its own event loop, for whoever shows it.

engine = EngineThread(settings, environ)
engine.start()
engine.latest()            # a Snapshot, at any time, from any thread
engine.control.pause()
engine.stop()
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from engine.bus import Bus
from engine.commands import Commands
from engine.errors import TaskyardError
from engine.events import Event, RunFinished
from engine.model import Lane
from engine.orchestrator import Orchestrator
from engine.scarcity import scarcity
from engine.settings import Settings
from engine.snapshot import Snapshot


class Control:
    """The commands, from any thread; they return at once and are ignored before the run began and after it ended."""

    def __init__(self, send: Callable[[Callable[[Commands], None]], None]) -> None:
        self._send = send

    def pause(self) -> None:
        """Start no more tasks."""
        self._send(lambda do: do.pause())

    def resume(self) -> None:
        """Start tasks again."""
        self._send(lambda do: do.resume())

    def drain(self) -> None:
        """Let what runs end, and then the run."""
        self._send(lambda do: do.drain())

    def cancel(self, task_ids: Iterable[str] | None = None) -> None:
        """Cancel these tasks, or all."""
        chosen = None if task_ids is None else tuple(task_ids)
        self._send(lambda do: do.cancel(chosen))

    def retry(self, task_ids: Iterable[str]) -> None:
        """Try these tasks again."""
        chosen = tuple(task_ids)
        self._send(lambda do: do.retry(chosen))

    def set_concurrency(self, limit: int) -> None:
        """Change how many tasks may run at once."""
        self._send(lambda do: do.set_concurrency(limit))

    def set_lane(self, task_id: str, lane: Lane) -> None:
        """Move a task to another lane."""
        self._send(lambda do: do.set_lane(task_id, lane))

    def take_board(self, number: int) -> None:
        """Take in the edits of the board that were offered by this number."""
        self._send(lambda do: do.take_board(number))

    def leave_board(self, number: int) -> None:
        """Leave the edits of the board that were offered by this number to the next run."""
        self._send(lambda do: do.leave_board(number))

    def cancel_batches(self) -> None:
        """Cancel the batches at the model service when the run stops."""
        self._send(lambda do: do.cancel_batches())

    def land_now(self) -> None:
        """Let the train leave."""
        self._send(lambda do: do.land_now())


class EngineThread:
    """Runs one board in a daemon thread. `listener` gets every event, on the engine's thread."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        *,
        linger: bool = True,
        clock: Callable[[], float] = time.time,
        listener: Callable[[Event], None] | None = None,
    ) -> None:
        self._settings = settings
        self._environ = environ
        self._linger = linger
        self._bus = Bus(clock)
        if listener is not None:
            self._bus.subscribe(listener)
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._orchestrator: Orchestrator | None = None
        self._stop = threading.Event()
        self.control = Control(self._send)
        self.error: BaseException | None = None
        self.finished: RunFinished | None = None

    def start(self) -> None:
        """Start the thread; returns at once."""
        self._thread.start()

    def latest(self) -> Snapshot:
        """The newest published state."""
        return self._bus.latest

    @property
    def done(self) -> bool:
        """Whether the engine has ended, well or by `error`."""
        return not self._thread.is_alive() and self._thread.ident is not None

    def stop(self, timeout: float = 5.0) -> bool:
        """End the run and join the thread; gives whether it ended within `timeout` seconds. Work is kept."""
        self._stop.set()
        self._send(lambda do: do.stop())
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _send(self, command: Callable[[Commands], None]) -> None:
        loop, run = self._loop, self._orchestrator
        if loop is not None and run is not None:
            # The loop may close at any moment; then there is nobody left to command.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._do, command, run.commands)

    def _do(self, command: Callable[[Commands], None], commands: Commands) -> None:
        """Do a command; what is wrong with it is told like any other notice, not printed over the screen."""
        try:
            command(commands)
        except Exception as error:
            self._bus.notice("error", f"that cannot be done: {error}")

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:  # whatever it is, the one who shows the engine must hear of it
            self.error = error if isinstance(error, TaskyardError) else scarcity(error) or error

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        opening = asyncio.ensure_future(
            Orchestrator.open(self._settings, bus=self._bus, environ=self._environ, linger=self._linger)
        )
        while not opening.done():
            await asyncio.wait({opening}, timeout=0.05)
            if self._stop.is_set():
                opening.cancel()
        if opening.cancelled():
            return
        self._orchestrator = opening.result()
        if self._stop.is_set():
            self._orchestrator.commands.stop()
        self.finished = await self._orchestrator.run()
