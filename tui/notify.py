"""Tell a person who looks elsewhere that the run ended, or needs them: terminal bell, OSC 9, a command of theirs.

notifier = Notifier(settings.notify, environ, write=driver.write)
notifier.look(snapshot)      # after every frame; it tells each thing once
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from engine.model import TaskState
from engine.process import child_environment
from tui.plain import count, one_line
from tui.sums import counts_at_the_end, end_in_words

if TYPE_CHECKING:
    from engine.events import RunFinished
    from engine.settings import NotifySettings
    from engine.snapshot import Snapshot

COMMAND_SECONDS = 4.0
"""How long a person's command may take before it is ended; a quit waits for it, so that it outlives nobody."""


class Notifier:
    """Compares snapshots. What stood in the first one of a run is not news.

    `write` sends bytes to the terminal (None where there is none); `complain` hears of a command that cannot be run,
    from a thread of its own.
    """

    def __init__(
        self,
        settings: NotifySettings,
        environ: Mapping[str, str],
        *,
        write: Callable[[str], object] | None = None,
        complain: Callable[[str], object] | None = None,
    ) -> None:
        self._settings = settings
        self._environ = environ
        self._write = write
        self._complain = complain
        self._before: Snapshot | None = None

    def look(self, snapshot: Snapshot) -> None:
        """Tell what is new since the last look, the gravest of it."""
        if snapshot.run.started is None:
            return
        before, self._before = self._before, snapshot
        words = _news(before, snapshot)
        if words:
            self.tell(words, snapshot.run.run)

    def tell(self, words: str, run: str = "") -> None:
        """Ring, and run the command with the words as its last argument; returns at once."""
        words = one_line(words, 200)
        if self._settings.bell and self._write is not None:
            # Terminals that know OSC 9 show the words, others leave them out; the bell is for all.
            self._write(f"\x1b]9;Taskyard: {words}\x1b\\\a")
        if self._settings.command:
            threading.Thread(target=self._run, args=(words, run), name="notify").start()

    def _run(self, words: str, run: str) -> None:
        problem = run_command(self._settings.command, words, child_environment(self._environ, run))
        if problem and self._complain is not None:
            self._complain(problem)


def run_command(command: tuple[str, ...], words: str, environ: Mapping[str, str]) -> str:
    """Run a person's command with the words as its last argument; gives what went wrong, or nothing. Blocks."""
    try:
        done = subprocess.run(
            [*command, words],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"[notify] command took more than {COMMAND_SECONDS:.0f} s and was ended"
    except OSError as error:
        return f"[notify] command cannot be run ({error.strerror}): {command[0]}"
    return f"[notify] command ended with status {done.returncode}" if done.returncode else ""


def ending(finished: RunFinished) -> str:
    """How a run ended, in a few words."""
    parts = [f"{finished.landed} of {finished.total} landed", *counts_at_the_end(finished)]
    return f"{end_in_words(finished)}: {', '.join(parts)}"


def _news(before: Snapshot | None, now: Snapshot) -> str:
    """What a person should hear of, in a few words: the end of the run, or what stands still without them."""
    finished = now.run.finished
    if finished is not None and (before is None or before.run.finished != finished):
        return "" if finished.status == "interrupted" else ending(finished)
    if before is None:
        return ""
    if now.run.budget_reached and not before.run.budget_reached:
        return f"{now.run.budget_reached}; raise [budget] usd to go on"
    failed = now.count(TaskState.FAILED) - before.count(TaskState.FAILED)
    if failed > 0:
        return _failure(now, failed)
    errors = [each for each in now.notices if each.level == "error" and each.number > before.notice_count]
    if errors:
        return f"{errors[-1].task}: {errors[-1].text}" if errors[-1].task else errors[-1].text
    if now.offer is not None and before.offer is None:
        return "the board was edited: the run asks whether to take it in"
    return ""


def _failure(snapshot: Snapshot, more: int) -> str:
    failed = [view for view in snapshot.tasks if view.state is TaskState.FAILED]
    last = max(failed, key=lambda view: view.ended or 0.0)
    return f"{last.id} failed: {last.problem}" if more == 1 else f"{count(more, 'task')} failed"
