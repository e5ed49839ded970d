"""Text from models, tools and files made safe to show, and cut by the cells it takes on the screen.

Nothing here reads markup: what comes out are plain strings that the line widgets draw as they are.
"""

from __future__ import annotations

import re

from rich.cells import cell_len, set_cell_size

from tui.plain import one_line

TAB = 4  # cells
LONGEST = 2000
"""The most characters of one shown line; the rest is never looked at."""

# CSI, OSC, the other string sequences, and two-byte escapes; an unfinished one at the end goes too.
ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*(?:[@-~]|$)|\][^\x07\x1b]*(?:\x07|\x1b\\|$)|[PX^_][^\x1b]*(?:\x1b\\|$)|[ -/]*[0-~]?)"
    r"|\x9b[0-?]*[ -/]*[@-~]?"
)


def safe_text(text: str, limit: int = 400) -> str:
    """The text as one line without escape sequences, control bytes or line breaks, at most `limit` characters."""
    if text.isprintable() and len(text) <= limit:
        return text
    return one_line(ESCAPES.sub("", text[: 8 * limit]), limit)


def safe_lines(text: str) -> list[str]:
    """The text line by line as a terminal would have left it: overwritten starts are gone, tabs are blanks."""
    return [_safe_line(line) for line in text.removesuffix("\n").split("\n")] if text else []


def _safe_line(line: str) -> str:
    if line.isprintable() and len(line) <= LONGEST:
        return line
    line = line[: 4 * LONGEST].rstrip("\r")
    line = ESCAPES.sub("", line[line.rfind("\r") + 1 :]).expandtabs(TAB)
    # A character of its own for each one kept: columns of a table in a log stay columns.
    kept = "".join(c if c.isprintable() or c in "\u200c\u200d" else _replacement(c) for c in line)
    return kept if len(kept) <= LONGEST else kept[: LONGEST - 1] + "…"


def _replacement(char: str) -> str:
    return "" if char < " " or "\x7f" <= char <= "\x9f" else "\ufffd"


def fit(text: str, width: int, *, right: bool = False) -> str:
    """The text in exactly `width` cells: cut with an ellipsis, or padded (on the left when `right`)."""
    if width <= 0:
        return ""
    length = cell_len(text)
    if length > width:
        # A wide character that would be halved leaves a blank behind.
        return set_cell_size(text, width - 1) + "…"
    gap = " " * (width - length)
    return gap + text if right else text + gap


def dollars(usd: float) -> str:
    """Dollars to the cent, as wide as they must be and no wider; what is less than half a cent says so.

    A sum saved can be below nothing: writing a prompt cache costs more than it saves until later calls read it.
    """
    if 0 < usd < 0.005:
        return "<$0.01"
    return f"−${-usd:,.2f}" if usd <= -0.005 else f"${max(0.0, usd):,.2f}"


def cut(text: str, width: int) -> str:
    """The text in at most `width` cells."""
    return text if cell_len(text) <= width else fit(text, width).rstrip()
