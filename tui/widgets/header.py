"""The first line of the dashboard: what is looked at, how far it is, what it cost, and whether all is well."""

from __future__ import annotations

import math
from pathlib import PurePath

from engine.model import TaskState
from tui.estimates import Estimate, throughput
from tui.format import dollars, safe_text
from tui.frame import Frame
from tui.line import Line, bar, shed, sparkline, spread, text, width
from tui.peers import crew_of, headcount
from tui.plain import count, duration
from tui.sums import end_in_words, plus_unpriced

RUNNING: Line = (("● running", "good"),)
NEEDED = 3
"""Parts up to this turn (see `_parts`) come before the word for a run that simply goes on."""

_MODES = {"LIVE": "good", "WATCH": "info", "REPLAY": "batch"}


def header_line(frame: Frame, cells: int, estimate: Estimate | None = None) -> Line:
    """The header in `cells` cells: what matters least goes first when there is less room."""
    health, room = health_of(frame), cells - 4
    parts = _parts(frame, estimate)
    needed = [part for part in parts if part[0] <= NEEDED]
    if health == RUNNING and width(shed(needed, cells)) > room - width(health):
        health = ()  # where there is too little room, only what is not as it should be has a word
    left = shed(parts, room - width(health))
    return spread(((" ", "text"), *left), (*health, (" ", "text")), cells)


def health_of(frame: Frame) -> Line:
    """How the run is, in words; what needs a person first."""
    run, health = frame.snapshot.run, frame.health
    if not health.alive:
        return (("✗ died" if frame.mode == "WATCH" else "✗ stopped", "bad"),)
    if run.finished is not None:
        ended = run.finished
        tone = "good" if ended.status == "landed" else "warn"
        return ((f"■ {end_in_words(ended)}", tone),)
    if health.text:
        # A long word on the source's health stands in the banner.
        return ((f"◌ {safe_text(health.text)}" if len(health.text) < 16 else "◌ waiting", "warn"),)
    if run.locks_away:
        return (("✗ locks away", "bad"),)
    if run.budget_reached:
        return (("! budget reached", "bad"),)
    if run.started is None:
        return (("◌ starting", "muted"),)
    if run.dispatch == "paused":
        return (("‖ paused", "warn"),)
    if run.dispatch == "draining":
        return (("↓ draining", "warn"),)
    paused = [
        limiter
        for limiter in frame.snapshot.limiters
        if limiter.paused_until and limiter.paused_until > frame.now
    ]
    if paused:
        seconds = max((limiter.paused_until or 0.0) - frame.now for limiter in paused)
        return ((f"◌ service asks to wait {seconds:.0f} s", "warn"),)
    return RUNNING


def landed_of(frame: Frame) -> Line:
    """How many tasks have landed."""
    return (
        (f"{frame.snapshot.count(TaskState.LANDED)}/{frame.snapshot.total}", "text strong"),
        (" landed", "muted"),
    )


def spend_of(frame: Frame) -> Line:
    """What was spent by all who share the board, of what may be.

    Calls without a known price are named: they are not in the sum.
    """
    snapshot = frame.snapshot
    budget = snapshot.run.budget_usd
    totals = snapshot.totals
    tone = "text"
    if budget:
        share = snapshot.usd_of_all / budget
        tone = "bad" if share >= 1 or snapshot.run.budget_reached else "warn" if share >= 0.8 else "text"
    spans = [(dollars(snapshot.usd_of_all), tone)]
    if budget is not None:
        spans.append((f" of {dollars(budget)}", "muted"))
    if totals.unpriced:
        spans.append((plus_unpriced(totals.unpriced), "warn"))
    return tuple(spans)


def _parts(frame: Frame, estimate: Estimate | None) -> list[tuple[int, Line]]:
    """What stands there from left to right, each with the turn in which it stays: the greatest goes first."""
    snapshot = frame.snapshot
    board = safe_text(PurePath(snapshot.run.board).name, 28)
    crew = crew_of(snapshot)
    total, landed = snapshot.total, snapshot.count(TaskState.LANDED)
    failed = snapshot.count(TaskState.FAILED)
    errors = text(f"! {count(frame.errors, 'error')}", "bad") if frame.errors else ()  # told, not dismissed
    known = snapshot.run.started is not None  # before that, nobody has read the board
    return [
        (12, text("taskyard", "accent strong")),
        (10, text(board)),
        (3, text(frame.mode, f"{_MODES[frame.mode]} strong")),
        (4, text(duration(frame.elapsed))),
        (6, eta_of(estimate if frame.moving else None)),
        (9, bar(landed / total if total else None, 10, "good") if known else ()),
        (0, landed_of(frame) if known else ()),
        (1, text(f"✗ {failed:,} failed", "bad") if failed else ()),
        (7 if failed else 2, errors),
        (5, spend_of(frame)),
        (8, text(headcount(crew), "info") if crew else ()),
        (11, pace_of(frame)),
    ]


def eta_of(estimate: Estimate | None) -> Line:
    """The time that is left, and how sure that is; never nothing while something is left."""
    if estimate is None:
        return ()
    seconds, off = estimate.seconds, estimate.give_or_take
    if off >= seconds:  # all that is known is when it will be over at the latest
        return (("< ", "muted"), (duration(max(1.0, math.ceil(seconds + off))), "text"), (" left", "muted"))
    about = f" ±{duration(max(1.0, off))}"
    return ((duration(max(1.0, seconds)), "text"), (" left", "muted"), (about, "muted"))


def pace_of(frame: Frame) -> Line:
    """How fast tasks landed over the last minutes."""
    pace = throughput(frame.snapshot, frame.until) if frame.snapshot.landings else None
    return (*sparkline(pace.counts), (f" {pace.in_words}", "muted")) if pace is not None else ()
