"""What a newcomer is told once, where it helps: the first steps, and what to do when a task failed."""

from __future__ import annotations

import contextlib
from pathlib import Path

from engine.model import TaskState
from tui.frame import Frame

_START = (
    "new here? enter opens a task, e lists problems, ? every key; esc hides this",
    "? lists every key; esc hides this",
)
_FAILED = (
    "a task failed: e lists what, enter says why, r tries it again; esc hides",
    "enter says why it failed; esc hides",
)
TASK = "< > go through attempts, [ ] calls, logs and files, / finds; ? lists every key"


class Hints:
    """The hints of one user. `file` remembers which were seen; without one there are none."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._shown = ("", "")
        self._seen: set[str] = set()
        if file is not None:
            with contextlib.suppress(OSError, UnicodeDecodeError):
                self._seen = set(file.read_text("utf-8").split())

    def text(self, frame: Frame) -> tuple[str, str]:
        """The hint to show on the main screen now, in full and in few words; empty when there is none."""
        if frame.mode != "LIVE":
            return "", ""
        if frame.snapshot.count(TaskState.FAILED) and self.first_time("failed"):
            self._shown = _FAILED
        elif not self._shown[0] and frame.snapshot.tasks and self.first_time("start"):
            self._shown = _START
        return self._shown

    def first_time(self, name: str) -> bool:
        """Whether this is the first time that the hint is asked for, by this user; it is remembered."""
        if self._file is None or name in self._seen:
            return False
        self._seen.add(name)
        with contextlib.suppress(OSError):  # told once more, then
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.write_text("\n".join(sorted(self._seen)) + "\n", "utf-8")
        return True

    def dismiss(self) -> bool:
        """Hide the hint; gives whether there was one."""
        was, self._shown = self._shown, ("", "")
        return bool(was[0])
