"""The line of a replay: where it is on the tape, how fast it goes, and its keys."""

from __future__ import annotations

from tui.line import Line, bar, shed, text, width
from tui.plain import duration
from tui.source.protocol import Playback

LEAST_BAR = 8
"""Cells that the bar keeps, whatever else there would be to say."""


LEAVE = "esc leaves the replay"


def tape_line(tape: Playback, cells: int, *, over: bool = False) -> Line:
    """The line in `cells` cells: of what stands beside the bar, what helps least goes first.

    `over`: whether the replay covers a run that escape goes back to.
    """
    state = "▶" if tape.playing else "‖"
    left = text(f" {state} {duration(tape.position)} ", "batch strong")
    parts = (
        *(((1, LEAVE),) if over else ()),
        (0, duration(tape.length)),
        (1, f"×{tape.speed:g}"),
        (2, "p play/pause"),
        (3, "[ ] jump"),
        (4, "< > speed"),
    )
    room = cells - width(left) - 2
    right = shed([(turn, text(words, "muted")) for turn, words in parts], room - LEAST_BAR)
    done = tape.position / tape.length if tape.length else 1.0
    whole = bar(done, max(0, room - width(right)), "batch")
    return (*left, *whole, (" ", "text"), *right, (" ", "text"))
