"""The fifth panel: how much is remembered, of how much may be."""

from __future__ import annotations

from engine.figures import HistoryFigures
from tui.format import safe_text
from tui.frame import Frame
from tui.line import Line, bar, joined, text
from tui.panels.panel import Panel
from tui.plain import ago, count, size


class HistoryPanel(Panel):
    """Entries, bytes and age against their limits, what was archived, and the journal's cycle."""

    NUMBER = 5
    NAME = "History"

    def lines(self, frame: Frame, width: int, height: int) -> list[Line]:
        """The figures."""
        return history_lines(frame, 10 if width < 60 else 24)

    def summary(self, frame: Frame) -> Line:
        """Entries, bytes and the cycle."""
        history = frame.snapshot.history
        return joined(
            [
                text(f"{history.entries:,} of {history.max_entries:,}", "text"),
                text(f"{size(history.bytes)} of {size(history.max_bytes)}", "text"),
                text(f"cycle {frame.snapshot.run.cycle}", "muted"),
            ],
            " · ",
        )


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _tone(share: float | None) -> str:
    return "warn" if share is not None and share >= 0.9 else "accent"


def history_lines(frame: Frame, cells: int) -> list[Line]:
    """What is kept against what may be, and where the rest went."""
    history: HistoryFigures = frame.snapshot.history
    run = frame.snapshot.run
    entries, bytes_ = _share(history.entries, history.max_entries), _share(history.bytes, history.max_bytes)
    lines: list[Line] = [
        (
            ("entries  ", "muted"),
            *bar(entries, cells, _tone(entries)),
            (f"  {history.entries:,}", "text"),
            (f" of {history.max_entries:,}", "faint"),
        ),
        (
            ("bytes    ", "muted"),
            *bar(bytes_, cells, _tone(bytes_)),
            (f"  {size(history.bytes)}", "text"),
            (f" of {size(history.max_bytes)}", "faint"),
        ),
    ]
    if history.oldest_at is not None:
        age = max(0.0, frame.until - history.oldest_at)
        lines.append((("oldest   ", "muted"), (ago(age), "text"), (f" of {ago(history.max_age)}", "faint")))
    archived = (
        f"{history.archived:,} in {count(history.segments, 'segment')}" if history.archived else "nothing yet"
    )
    lines.append(
        (("archived ", "muted"), (archived, "text"), (f"  {count(history.prunes, 'prune')}", "faint"))
    )
    if history.problem:
        lines.append((("archive  ", "muted"), (safe_text(history.problem), "warn")))
    journal = (("journal  ", "muted"), (f"cycle {run.cycle}", "text"))
    lines.append(
        (*journal, (f"  {size(history.journal_bytes)}", "faint")) if history.journal_bytes else journal
    )
    if run.run:
        words = f"  resumed {count(run.resumes, 'time')}" if run.resumes else ""
        lines.append((("run      ", "muted"), (safe_text(run.run, 60), "text"), (words, "warn")))
    return lines
