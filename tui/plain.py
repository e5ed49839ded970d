"""Words and figures as plain text, for lines that go to pipes, logs and terminals without a dashboard."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from engine.model import LATEST, Usage

SHOWN = 400
"""The most characters of one text that came from a model, a tool or a file."""


def one_line(text: str, limit: int = SHOWN) -> str:
    """The text as one line that is safe to print: no control bytes, no line breaks, at most `limit` characters."""
    if not text.isprintable():
        text = " ".join("".join(_shown(c) for c in text[: 4 * limit]).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _shown(char: str) -> str:
    # Joiners hold emoji and scripts together; everything else that is not printable may move the cursor.
    if char.isprintable() or char in "\u200c\u200d":
        return char
    return " " if char.isspace() or char < " " or "\x7f" <= char <= "\x9f" else "\ufffd"


def short_model(model: str) -> str:
    """A model's name where there is little room: "claude-opus-5-5" and "claude-opus-5-5-20260101" are "opus-5-5"."""
    return re.sub(r"-20\d{6}$", "", one_line(model).rpartition("claude-")[2])


def count(number: int, one: str, many: str = "") -> str:
    """A number with its noun: "1 task", "3 tasks"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def money(usd: float, *, among: float = 0.0) -> str:
    """Dollars, to a cent from ten cents on, finer below; never a minus before nothing.

    `among`: the sum that it is a part of, and is told no finer than.
    """
    amount = abs(usd)
    if amount < 0.00005:
        return "$0.00"
    if max(amount, abs(among)) < 0.1:
        return ("−" if usd < 0 else "") + f"${amount:.4f}"
    if amount < 0.005:
        return "<$0.01" if usd > 0 else "$0.00"
    return ("−" if usd < 0 else "") + f"${amount:,.2f}"


def rate_in_words(rate: float) -> str:
    """A price for a million tokens, to the cent, or as fine as it is: "$4.00", "$0.125"."""
    cents = f"{rate:.2f}"
    return f"${cents}" if float(cents) == rate else f"${rate:g}"


def duration(seconds: float) -> str:
    """Minutes and seconds, or hours, minutes and seconds: "04:12", "1:04:12"."""
    whole = max(0, int(seconds))
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60:02}:{rest % 60:02}"


def size(number: int) -> str:
    """Bytes in powers of ten: "812 B", "4.1 kB", "41 MB"."""
    value = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5 or unit == "GB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" or value >= 9.95 else f"{value:.1f} {unit}"


def thousands(number: int) -> str:
    """A count of tokens: "812", "4.1k", "1.2M"."""
    if number < 1000:
        return str(number)
    value, unit = (number / 1e3, "k") if number < 999_500 else (number / 1e6, "M")
    return f"{value:.0f}{unit}" if value >= 99.5 else f"{value:.1f}{unit}"


def tokens_by_class(usage: Usage) -> str:
    """All classes of tokens that occurred: "input 4.1k, cache read 31k, output 2.0k"."""
    written = usage.cache_write_5m + usage.cache_write_1h
    classes = (
        ("input", usage.input),
        ("cache written", written),
        ("cache read", usage.cache_read),
        ("output", usage.output),
    )
    return ", ".join(f"{name} {thousands(number)}" for name, number in classes if number)


def when(at: float) -> str:
    """A moment, in seconds since the epoch, as the clock on the wall shows it: "2026-01-31 09:30:00".

    One that no calendar knows, as damaged files may hold, is "no date".
    """
    if not 0 <= at < LATEST:
        return "no date"
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def ago(seconds: float) -> str:
    """How long something is past: "5 s", "12 min", "3 h", "9 d"."""
    for limit, unit, length in ((60, "s", 1), (3600, "min", 60), (86_400, "h", 3600)):
        if seconds < limit:
            return f"{max(0, int(seconds / length))} {unit}"
    return f"{int(min(seconds, LATEST) / 86_400)} d"


def table(
    header: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, right: frozenset[int] = frozenset()
) -> list[str]:
    """Rows in columns under a header; the columns in `right` stand to the right. The last column is never padded."""
    from rich.cells import cell_len

    cells = [header, *[tuple(one_line(cell) for cell in row) for row in rows]]
    widths = [max(cell_len(row[column]) for row in cells) for column in range(len(header))]
    lines = []
    for row in cells:
        parts = []
        for column, cell in enumerate(row):
            gap = " " * (widths[column] - cell_len(cell))
            parts.append(gap + cell if column in right else cell + gap)
        lines.append("  ".join(parts).rstrip())
    return lines
