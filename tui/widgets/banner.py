"""One line above the keys for what a person should know now: the run ended, or cannot go on, and what to do then."""

from __future__ import annotations

from engine.events import RunFinished
from engine.snapshot import BoardOffer
from tui.edits import summary
from tui.format import dollars, safe_text
from tui.frame import Frame
from tui.line import BLANK, Line, joined, shed, text, width
from tui.plain import count
from tui.sums import counts_at_the_end, end_in_words, plus_unpriced, why_stopped
from tui.tape import LEAVE


def banner_line(frame: Frame, cells: int) -> Line:
    """The line, in `cells` cells if it can be; empty while there is nothing to say."""
    run = frame.snapshot.run
    if not frame.health.alive and run.finished is None:
        return text(f"✗ {safe_text(frame.health.text or 'the engine has stopped')}", "bad strong")
    if frame.health.text:
        return text(f"◌ {safe_text(frame.health.text)}", "warn")
    if frame.snapshot.offer is not None:
        return _edited(frame.snapshot.offer, run.board, cells)
    if run.finished is not None:
        return _finished(run.finished, frame, cells)
    if run.locks_away:
        head = text("✗ nothing is claimed, nothing lands", "bad strong")
        return joined([head, text(safe_text(run.locks_away), "bad")], ": ")
    if run.budget_reached:
        full = text(f"! {safe_text(run.budget_reached)}; raise [budget] usd and run taskyard again", "bad")
        return full if width(full) <= cells else text("! raise [budget] usd, and run again", "bad")
    return BLANK


def _edited(offer: BoardOffer, board: str, cells: int) -> Line:
    how = text("b shows it", "accent")
    head = text(f"± {safe_text(board, 40)} was edited: {summary(offer.change)}", "accent strong")
    full = joined([head, how], " · ")
    if width(full) <= cells:
        return full
    rows = count(len(offer.change.edits), "row")
    return joined([text(f"± board edited: {rows}", "accent strong"), how], " · ")


_TONES = {
    "landed": "good strong",
    "failed": "warn strong",
    "budget": "bad strong",
    "interrupted": "warn strong",
}


def _finished(ended: RunFinished, frame: Frame, cells: int) -> Line:
    """How it ended, what may be done about it, and the sums."""
    counts = [f"{ended.landed} landed", *counts_at_the_end(ended)]
    again = frame.mode == "LIVE" and bool(ended.failed or ended.cancelled)
    how, told = end_in_words(ended), ", ".join(counts)
    spent = f"{dollars(ended.usd)} spent{plus_unpriced(ended.unpriced)}"
    # Where there is little room, that it is over has to be seen from the mark.
    over = "run finished: " if cells >= len(f"■ run finished: {how} · {told} · r tries a task again") else ""
    parts = [
        (0, text(f"■ {over}{how}", _TONES[ended.status])),
        (2, text(told, "text")),
        (1, text(safe_text(why_stopped(frame.snapshot)), "bad")),
        (5, text(count(ended.pushes, "push", "pushes"), "muted")),
        (4, text(f"{spent}, {dollars(ended.usd_saved)} saved", "muted")),
        (1, text("r tries a task again", "accent") if again else BLANK),
        (1, text("n says why", "accent") if frame.snapshot.refused else BLANK),
        (1, text(LEAVE, "accent")) if frame.over else (3, text("q quits", "accent")),
    ]
    return shed(parts, cells, " · ")
