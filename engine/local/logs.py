"""What a stage says while it works: all of it in its log, and the newest line on the screen."""

from __future__ import annotations

import os
from pathlib import Path

from engine import events as ev
from engine.activities import Attempt
from engine.bus import Bus
from engine.git.names import slug
from engine.log_times import LogTimes
from engine.model import Stage

PROGRESS_EVERY = 0.25
"""Seconds between two lines of one task that are told: output can be fast, and nobody reads faster."""

LONGEST_LINE = 200
"""Characters of a line that are told; the log has it whole."""


class StageLogs:
    """The logs of one run, a file for each stage of each attempt below `folder`."""

    def __init__(self, folder: Path, bus: Bus) -> None:
        self._root = folder
        self._bus = bus
        self._told_at: dict[str, float] = {}
        self._times: dict[str, LogTimes] = {}

    def folder(self, attempt: Attempt) -> Path:
        """The folder of the attempt's logs and of its exact prompts and answers."""
        return self._root / slug(attempt.task.id) / str(attempt.number)

    def path(self, attempt: Attempt, stage: Stage) -> Path:
        """Where the stage's log is, or would be."""
        return self.folder(attempt) / f"{stage}.log"

    def progress(self, attempt: Attempt, text: str) -> None:
        """Tell the task's last line, at most once in `PROGRESS_EVERY` seconds."""
        if not any(char.isalnum() for char in text):
            return  # dots and lines say nothing
        now = self._bus.clock()
        if now - self._told_at.get(attempt.task.id, 0.0) >= PROGRESS_EVERY:
            self._told_at[attempt.task.id] = now
            self._bus.emit(ev.Progressed(at=now, task=attempt.task.id, text=text[:LONGEST_LINE]))

    def keep(self, attempt: Attempt, name: str, data: bytes) -> str:
        """Keep a record beside the attempt's logs; gives its path, or nothing where a full disk left no room."""
        path = self.folder(attempt) / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError:
            return ""
        return str(path)

    def mark(self, attempt: Attempt, stage: Stage, words: str) -> None:
        """Part what follows in the stage's log from what is in it, by a line of its own; nothing in an empty one."""
        path = self.path(attempt, stage)
        try:
            with path.open("rb") as file:
                if file.seek(0, os.SEEK_END):
                    file.seek(-1, os.SEEK_END)
                    end = "" if file.read() == b"\n" else "\n"
                else:
                    return
        except OSError:
            return
        self.write(attempt, stage, f"{end}── {words} ──\n")

    def write(self, attempt: Attempt, stage: Stage, text: str) -> None:
        """Add to the stage's log."""
        path = self.path(attempt, stage)
        times = self._times.get(attempt.task.id)
        if times is None or times.log != path:
            times = self._times[attempt.task.id] = LogTimes(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                times.note(file.tell(), self._bus.clock())
                file.write(text.encode(errors="replace"))
        except OSError:
            # A full disk must not stop the work; the journal's own error tells the user.
            return
