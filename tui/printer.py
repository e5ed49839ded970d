"""Printing the events of a run as they come, from a thread of its own: a slow reader never holds the engine up."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TextIO

from engine import events as ev
from tui.headless import ProgressLines


class EventPrinter:
    """Prints events from a thread of its own: with `lines` for people, without as one JSON object a line.

    `problem` is set when the stream takes no more (its reader has gone, the disk is full); `on_closed` is called then,
    once, from the thread.
    """

    def __init__(
        self, stream: TextIO, lines: ProgressLines | None, *, on_closed: Callable[[], None] | None = None
    ) -> None:
        self.problem: Exception | None = None
        self._stream = stream
        self._lines = lines
        self._on_closed = on_closed
        self._queue: queue.SimpleQueue[ev.Event | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._print_all, name="printer", daemon=True)
        self._thread.start()

    def print(self, event: ev.Event) -> None:
        """Have the event printed soon; returns at once."""
        self._queue.put(event)

    def close(self, timeout: float | None = None) -> bool:
        """Print what waits, for at most `timeout` seconds, and end the thread; gives whether it has ended."""
        self._queue.put(None)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _print_all(self) -> None:
        while (event := self._queue.get()) is not None:
            if self.problem is None:
                try:
                    self._write(event)
                except (OSError, ValueError) as error:
                    self.problem = error
                    if self._on_closed is not None:
                        self._on_closed()

    def _write(self, event: ev.Event) -> None:
        texts = [ev.encode(event).decode()] if self._lines is None else list(self._lines.of(event))
        if texts:
            self._stream.write("".join(f"{text}\n" for text in texts))
            self._stream.flush()
