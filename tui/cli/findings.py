"""What `taskyard doctor` finds, one thing at a time."""

from __future__ import annotations

from typing import Literal

from engine.errors import TaskyardError

Level = Literal["ok", "warning", "error"]

MARKS: dict[Level, str] = {"ok": "✓", "warning": "!", "error": "✗"}


class Finding:
    """One thing that was looked at. `hint` says what to do when it is not well."""

    __slots__ = ("about", "hint", "level", "text")

    def __init__(self, level: Level, about: str, text: str, hint: str = "") -> None:
        self.level = level
        self.about = about
        self.text = text
        self.hint = hint

    def __str__(self) -> str:
        line = f"{MARKS[self.level]} {self.about:<11} {self.text}"
        return f"{line}: {self.hint}" if self.hint else line

    def report(self) -> dict[str, str]:
        """The finding for JSON."""
        return {"level": self.level, "about": self.about, "text": self.text, "hint": self.hint}


def of_error(about: str, error: TaskyardError) -> Finding:
    """The finding that tells an error."""
    return Finding("error", about, error.message, error.hint)
