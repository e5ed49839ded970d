"""A dashboard over a made-up run, as a process of its own: `python -m tests.tui.stage MODE`, or `replay`.

With a folder behind the mode there are lessons, and `implement.log` of the folder is the log of T2.10.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace

from engine import events as ev
from engine.errors import StoreError
from engine.model import Lane, Stage, Task
from engine.snapshot import Snapshot
from engine.state import RunState
from tests.tui import sample_run
from tui.show import show
from tui.source import Health, Lookups, ReplaySource
from tui.source.protocol import Mode

BURST_EVERY = 0.05  # seconds
PER_BURST = 250  # events: 5,000 a second
CROWD = 10_000  # tasks
AT_WORK = 40  # of the crowd, at once


class Control:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []

    def pause(self) -> None:
        self.calls.append(("pause", None))

    def resume(self) -> None:
        self.calls.append(("resume", None))

    def drain(self) -> None:
        self.calls.append(("drain", None))

    def cancel(self, task_ids: Iterable[str] | None = None) -> None:
        self.calls.append(("cancel", None if task_ids is None else tuple(task_ids)))

    def retry(self, task_ids: Iterable[str]) -> None:
        self.calls.append(("retry", tuple(task_ids)))

    def set_concurrency(self, limit: int) -> None:
        self.calls.append(("set_concurrency", limit))

    def set_lane(self, task_id: str, lane: Lane) -> None:
        self.calls.append(("set_lane", (task_id, lane)))

    def cancel_batches(self) -> None:
        self.calls.append(("cancel_batches", None))

    def take_board(self, number: int) -> None:
        self.calls.append(("take_board", number))

    def leave_board(self, number: int) -> None:
        self.calls.append(("leave_board", number))

    def land_now(self) -> None:
        self.calls.append(("land_now", None))


class StagedSource:
    """A live run in a thread.

    `mode`: still (no events), watch (the same of another process), busy (many), crowd (as many, on a board of ten
    thousand tasks), finished (it is over), broken (ends with an error after a while), crash (drawing fails).
    """

    playback = None
    choice = None

    def __init__(self, mode: str, folder: Path | None = None) -> None:
        self._mode = mode
        self.mode: Mode = "WATCH" if mode == "watch" else "LIVE"
        self._state = RunState().apply_all(_crowd() if mode == "crowd" else sample_run.events_until(95))
        if folder is not None:
            self._state.apply_all(sample_run.begins_to_log(folder, "T2.10", sample_run.BEGIN + 95))
        self._snapshot = self._state.snapshot()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.control = None if mode == "watch" else Control()
        self.lookups = Lookups()
        self.error: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        self._end.set()
        if self._thread.ident is not None:  # it was started before the dashboard was to end
            self._thread.join()
        with contextlib.suppress(OSError):  # the terminal may be gone
            print("stopped", file=sys.stderr)

    def latest(self) -> Snapshot:
        if self._mode == "crash" and self._thread.is_alive():
            raise RuntimeError("no such \x1b[31mpanel")
        return self._snapshot

    def now(self) -> float:
        return sample_run.BEGIN + 95 if self._mode in ("finished", "watch") else time.time()

    def health(self) -> Health:
        return Health()

    def _run(self) -> None:
        if self._mode == "finished":
            self._state.apply(sample_run.finished(sample_run.BEGIN + 95))
            self._snapshot = self._state.snapshot()
        begin = time.monotonic()
        for number in itertools.count():
            # By the clock, so that as many events happen as are said to, however long each takes.
            if self._end.wait(max(0.0, begin + BURST_EVERY * (number + 1) - time.monotonic())):
                return
            if self._mode == "busy":
                for _ in range(PER_BURST):
                    self._state.apply(ev.Progressed(at=time.time(), task="T2.10", text=f"step {number}"))
                self._snapshot = self._state.snapshot()
            if self._mode == "crowd":
                self._state.apply_all(_bustle(number))
                self._snapshot = self._state.snapshot()
            if self._mode == "broken" and number == 20:
                self.error = StoreError("the journal cannot be written: disk full", "free some space")


def _crowd() -> Iterator[ev.Event]:
    """A run of ten thousand tasks, forty of them at work."""
    begin = next(e for e in sample_run.events() if isinstance(e, ev.RunStarted))
    yield replace(begin, at=time.time(), tasks=tuple(Task(f"T{n:05}", f"Task {n}") for n in range(CROWD)))
    for number in range(AT_WORK):
        yield from _put_to_work(number)


def _put_to_work(number: int) -> Iterator[ev.Event]:
    name, now = f"T{number:05}", time.time()
    yield ev.AttemptStarted(at=now, task=name, attempt=1, branch="", base="")
    yield ev.StageStarted(at=now, task=name, attempt=1, stage=Stage.IMPLEMENT)


def _bustle(number: int) -> Iterator[ev.Event]:
    """One task lands, the next begins, and all that are at work say something."""
    name, now = f"T{number:05}", time.time()
    yield ev.StageFinished(at=now, task=name, attempt=1, stage=Stage.IMPLEMENT, ok=True)
    yield ev.TaskLanded(at=now, task=name, commit=f"{number:07x}", train=1)
    yield from _put_to_work(number + AT_WORK)
    for event in range(PER_BURST - 4):
        talking = number + 1 + event % AT_WORK
        yield ev.Progressed(at=now, task=f"T{talking:05}", text=f"step {number}")


if __name__ == "__main__":
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    replayed = sys.argv[1] == "replay"
    source = ReplaySource(sample_run.events()) if replayed else StagedSource(sys.argv[1], folder)
    if folder is not None:
        from tests.tui import moments

        source.lookups = moments.lessons(folder)
    sys.exit(show(source, logs=folder))
