"""One line above the keys for what a person should know now: the run ended, or cannot go on, and what to do then."""

from __future__ import annotations

from engine.events import RunFinished
from engine.snapshot import BoardOffer
from tui.edits import summary
from tui.format import dollars, safe_text
from tui.frame import Frame
from tui.line import BLANK, Line, joined, text
from tui.plain import count


def banner_line(frame: Frame) -> Line:
    """The line; empty while there is nothing to say."""
    run = frame.snapshot.run
    if not frame.health.alive and run.finished is None:
        return text(f"✗ {safe_text(frame.health.text or 'the engine has stopped')}", "bad strong")
    if frame.health.text:
        return text(f"◌ {safe_text(frame.health.text)}", "warn")
    if frame.snapshot.offer is not None:
        return _edited(frame.snapshot.offer, frame.snapshot.run.board)
    if run.finished is not None:
        return _finished(run.finished, frame)
    if run.locks_away:
        head = text("✗ nothing is claimed, nothing lands", "bad strong")
        return joined([head, text(safe_text(run.locks_away), "bad")], ": ")
    if run.budget_reached:
        return text(f"! {safe_text(run.budget_reached)}; raise [budget] usd and run taskyard again", "bad")
    return BLANK


def _edited(offer: BoardOffer, board: str) -> Line:
    head = text(f"± {safe_text(board, 40)} was edited: {summary(offer.change)}", "accent strong")
    return joined([head, text("b shows it", "accent")], " · ")


_HEADS = {
    "landed": ("■ run finished: all landed", "good strong"),
    "failed": ("■ run finished", "warn strong"),
    "budget": ("■ run ended: budget reached", "bad strong"),
    "interrupted": ("■ run interrupted", "warn strong"),
}


def _finished(ended: RunFinished, frame: Frame) -> Line:
    head = text(*_HEADS[ended.status])
    counts = [f"{ended.landed} landed"]
    counts += [f"{n} {word}" for n, word in ((ended.failed, "failed"), (ended.cancelled, "cancelled")) if n]
    if ended.blocked:
        counts.append(f"{ended.blocked} never started")
    parts = [head, text(", ".join(counts), "text"), text(count(ended.pushes, "push", "pushes"), "muted")]
    parts.append(text(f"{dollars(ended.usd)} spent, {dollars(ended.usd_saved)} saved", "muted"))
    live = frame.mode == "LIVE"
    if live and (ended.failed or ended.cancelled):
        parts.append(text("r tries a task again", "accent"))
    parts.append(text("q quits", "accent"))
    return joined(parts, " · ")


def narrow_banner(frame: Frame) -> Line:
    """The same in a few words."""
    run = frame.snapshot.run
    ended = run.finished
    if frame.snapshot.offer is not None and not frame.health.text:
        rows = count(len(frame.snapshot.offer.change.edits), "row")
        return joined([text(f"± board edited: {rows}", "accent strong"), text("b shows it", "accent")], " · ")
    if ended is None and run.budget_reached and not frame.health.text:
        return text("! raise [budget] usd, and run again", "bad")
    if ended is None or frame.health.text:
        return banner_line(frame)
    return joined([text(*_HEADS[ended.status]), text("q quits", "accent")], " · ")
