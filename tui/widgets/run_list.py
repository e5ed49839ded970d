"""The runs of the repository, newest first. It reads them by itself, and how far each is once it comes into sight."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import overload

from textual import events, work
from textual.timer import Timer

from engine.errors import TaskyardError
from tui.format import fit, safe_text
from tui.line import BLANK, Line, cut_line, text
from tui.plain import ago, duration
from tui.source.lookups import Lookups
from tui.source.runs import ListedRun, Listing, Progress, end_of
from tui.sums import END_CELLS, state_in_words
from tui.widgets.pick_list import PickList

READ_EVERY = 5.0
"""Seconds after which the list is read again while something moves on the screen."""

_LOOKS = {
    "running": ("▶", "accent"),
    "died": ("✗", "bad"),
    "landed": ("✓", "good"),
    "failed": ("✗", "bad"),
    "budget": ("!", "warn"),
    "interrupted": ("‖", "warn"),
}


class RunList(PickList):
    """Shows and offers all runs; `Picked.key` is the id of one. `shown` is the run on the screen already."""

    def __init__(self, lookups: Lookups, *, id: str | None = None, process: bool = False) -> None:
        super().__init__(id=id)
        self._lookups = lookups
        self._process = process
        self._listing = Listing(0.0, ())
        self._keys_of: tuple[str, ...] = ()
        self._progress: Mapping[str, Progress] = {}
        self._final: frozenset[tuple[str, float]] = frozenset()  # runs measured after their end, and that end
        self._problem = ""
        self._shown = ""
        self._own: Progress | None = None
        self._later: Timer | None = None
        self._read_at = float("-inf")
        self._known = False

    @property
    def runs(self) -> tuple[ListedRun, ...]:
        """What is listed."""
        return self._listing.runs

    def follow(self, shown: str, own: Progress | None = None) -> None:
        """Show the list, with a mark at the run that is on the screen; read it again when it may have changed.

        `own` is how far that run is, where the screen knows it better than the last reading.
        """
        # At its end, and when it is taken up again, the list says something else at once.
        turned = own is not None and self._own is not None and own.finished != self._own.finished
        again = turned or shown != self._shown or time.monotonic() - self._read_at >= READ_EVERY
        self._shown, self._own = shown, own
        if again:
            self._read_now()
        elif self._later is None:
            # What moved last may be the end, of this run or of another.
            self._later = self.set_timer(READ_EVERY, self._read_now)
        self._draw()

    def _read_now(self) -> None:
        if self._later is not None:
            self._later.stop()
            self._later = None
        if self._lookups.has_runs and self.size.height:
            self._read_at = time.monotonic()
            self._read()

    @work(exclusive=True, group="runs")
    async def _read(self) -> None:
        try:
            listing = await self._lookups.list_runs()
            self._problem = ""
        except TaskyardError as error:
            self._problem = safe_text(str(error))
            self._draw()
            return
        keys = tuple(run.run for run in listing.runs)
        self._listing, self._known = listing, True
        if keys != self._keys_of:
            self._keys_of = keys
        self._draw()
        await self._measure()

    @work(exclusive=True, group="runs")
    async def _measure_anew(self) -> None:
        await self._measure()

    async def _measure(self) -> None:
        """Find out how far the runs in sight are."""
        for row in self.in_sight:
            run = self._listing.runs[row]
            measured = (run.run, run.until)
            if measured in self._final:
                continue
            try:
                progress = await self._lookups.run_progress(run.run)
            except TaskyardError:
                continue  # its events are gone or damaged; the row stays, without its count
            if run.state != "running":
                # What was counted while it ran is not how it ended; and a later process may take it up again.
                self._final |= {measured}
            if self._progress.get(run.run) != progress:
                self._progress = {**self._progress, run.run: progress}
                self._draw()

    def _draw(self) -> None:
        width = self.scrollable_content_region.width
        if self._problem or not self._listing.runs:
            words = self._problem or ("no runs yet" if self._known else "")
            self.offer((), [text(words, "warn" if self._problem else "faint")])
            return
        progress = self._progress if self._own is None else {**self._progress, self._shown: self._own}
        self.offer(self._keys_of, _Rows(self._listing, progress, self._shown, width, self._process))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Other runs come into sight."""
        super().watch_scroll_y(old_value, new_value)
        if self._known:
            self._measure_anew()

    def on_focus(self) -> None:
        """Whoever comes here wants to see how it is now."""
        self._read_at = float("-inf")
        self.follow(self._shown, self._own)

    def on_resize(self, event: events.Resize) -> None:
        """Lay out for the new size; with more room, other runs come into sight."""
        if self._known:
            self._measure_anew()
        self.follow(self._shown, self._own)


@dataclass(frozen=True, slots=True)
class _Rows(Sequence[Line]):
    """The lines of a listing, each made when somebody looks at it."""

    listing: Listing
    progress: Mapping[str, Progress]
    shown: str
    width: int
    process: bool

    def __len__(self) -> int:
        return len(self.listing.runs)

    @overload
    def __getitem__(self, index: int) -> Line: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Line]: ...
    def __getitem__(self, index: int | slice) -> Line | Sequence[Line]:
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        run = self.listing.runs[index]
        return run_line(
            run,
            self.progress.get(run.run),
            self.listing.at,
            self.width,
            here=run.run == self.shown,
            process=self.process,
        )

    def __iter__(self) -> Iterator[Line]:
        return (self[row] for row in range(len(self)))


def run_line(
    run: ListedRun, progress: Progress | None, now: float, width: int, *, here: bool, process: bool
) -> Line:
    """One run: how it stands, since when, how long it took, how far it came, and where there is room what it was.

    With `process` it says whose run it is, else under which id it is kept.
    """
    state = end_of(run, progress)
    finished = progress.finished if progress is not None else None
    glyph, tone = _LOOKS[state]
    word = state_in_words(state, finished)
    took = (now if state == "running" else run.until) - run.started
    if progress is not None:
        took = finished.duration_s if finished is not None else took - progress.idle
    far = f"{progress.landed:,}/{progress.total:,}" if progress is not None else ""
    if state == "running":
        since, age = "now", "now"
    else:
        since = ago(max(0.0, now - (finished.at if finished is not None else run.until)))
        age = f"{since} ago"
    age = fit(age, 11, right=True) if width >= 42 else fit(since, 7, right=True)
    owner = f"pid {run.pid} on {safe_text(run.host, 40)}"
    spans: Line = (
        ("›" if here else " ", "accent strong"),
        (f"{glyph} {word:<{END_CELLS}}", tone),
        (age, "text"),
        (fit(duration(max(0.0, took)), 9 if width >= 46 else 0, right=True), "muted"),
        (fit(far, 9 if width >= 42 else 7, right=True), "text"),
    )
    if width >= 60:
        spans = (*spans, (f"  {fit(safe_text(PurePath(run.board).name), 14)}", "text"))
        spans = (*spans, (f"  {owner if process else safe_text(run.run, 40)}", "faint"))
    if width >= 100 and not process:
        spans = (*spans, (f"  {owner}", "faint"))
    return cut_line(spans, width) if width else BLANK
