"""The fifth panel: how much is remembered, of how much may be, and the runs of the past, any of which plays again."""

from __future__ import annotations

from textual.app import ComposeResult

from engine.figures import HistoryFigures
from tui.format import safe_text
from tui.frame import Frame
from tui.line import BLANK, Line, bar, cut_line, joined, sparkline, spread, text
from tui.panels.panel import Panel
from tui.plain import ago, count, size
from tui.source.lookups import Lookups
from tui.source.runs import progress_of
from tui.trends import history_fill
from tui.widgets.line_view import LineView
from tui.widgets.run_list import RunList

FULL = 16
"""The lines of the panel from which all figures have room above the list of runs."""


class HistoryPanel(Panel):
    """Entries, bytes and age against their limits, what was archived, the journal's cycle; below, the runs."""

    DEFAULT_CSS = """
    HistoryPanel > #figures { height: auto; }
    """
    NUMBER = 5
    NAME = "History"

    def __init__(self, lookups: Lookups, *, id: str) -> None:
        super().__init__(id=id)
        self._lookups = lookups

    def compose(self) -> ComposeResult:
        """The figures and the runs."""
        figures = LineView(id="figures")
        figures.can_focus = False
        yield figures
        yield RunList(self._lookups, id="runs")

    def draw(self, frame: Frame) -> None:
        """Write the figures; the runs follow by themselves."""
        view = self.query_one("#figures", LineView)
        width, height = self.scrollable_content_region.width, self.scrollable_content_region.height
        lines = history_lines(frame, width)
        if height < FULL and self._lookups.has_runs:
            lines = lines[: max(2, min(4, height - 3))]
        else:
            lines.append(BLANK)
        view.styles.height = len(lines)
        view.show([cut_line(line, width) for line in lines])
        runs = self.query_one(RunList)
        replay = (
            frame.mode == "REPLAY"
        )  # there the list tells how far the run came, not the moment on the screen
        runs.follow(frame.snapshot.run.run, None if replay else progress_of(frame.snapshot))
        self.head("", "enter plays a run again" if self._lookups.has_runs else "")

    def focus_inside(self) -> None:
        """Let keys go to the runs."""
        self.screen.set_focus(self.query_one(RunList))

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


def history_lines(frame: Frame, width: int) -> list[Line]:
    """What is kept against what may be, at the right how that went over the run, and where the rest went."""
    cells, spans = (10, 6) if width < 60 else (24, 24)
    history: HistoryFigures = frame.snapshot.history
    run = frame.snapshot.run
    entries, bytes_ = _share(history.entries, history.max_entries), _share(history.bytes, history.max_bytes)
    fills = history_fill(
        frame.snapshot.samples, frame.since, frame.until, spans, history.max_entries, history.max_bytes
    )
    amounts = (
        ("entries", entries, f"{history.entries:,}", f"{history.max_entries:,}"),
        ("bytes", bytes_, size(history.bytes), size(history.max_bytes)),
    )
    lines: list[Line] = [
        spread(
            (
                (f"{name:<9}", "muted"),
                *bar(share, cells, _tone(share)),
                (f"  {now}", "text"),
                (f" of {limit}", "faint"),
            ),
            sparkline(fill, _tone(share), 1.0),
            width,
        )
        for (name, share, now, limit), fill in zip(amounts, fills, strict=True)
    ]
    archived = (
        f"{history.archived:,} in {count(history.segments, 'segment')}" if history.archived else "nothing yet"
    )
    lines.append(
        (("archived ", "muted"), (archived, "text"), (f"  {count(history.prunes, 'prune')}", "faint"))
    )
    journal = (("journal  ", "muted"), (f"cycle {run.cycle}", "text"))
    lines.append(
        (*journal, (f"  {size(history.journal_bytes)}", "faint")) if history.journal_bytes else journal
    )
    if history.problem:
        lines.insert(2, (("archive  ", "muted"), (safe_text(history.problem), "warn")))
    if history.oldest_at is not None:
        age = max(0.0, frame.until - history.oldest_at)
        lines.append((("oldest   ", "muted"), (ago(age), "text"), (f" of {ago(history.max_age)}", "faint")))
    if run.run:
        words = f"  taken up again {count(run.resumes, 'time')}" if run.resumes else ""
        lines.append((("run      ", "muted"), (safe_text(run.run, 60), "text"), (words, "warn")))
    return lines
