"""Numbers and lists in sentences."""

from __future__ import annotations

from collections.abc import Iterable

SHOWN = 6  # names of a list


def count_of(number: int, noun: str) -> str:
    """Give `1 branch`, `2 branches`; the noun's plural must be a regular one."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}{'es' if noun.endswith(('ch', 's', 'x')) else 's'}"


def shortened(names: Iterable[str]) -> str:
    """Give `T1, T2, T3`, of many only the first few and how many more."""
    all_ = list(names)
    return (
        ", ".join(all_)
        if len(all_) <= SHOWN
        else f"{', '.join(all_[: SHOWN - 1])} and {len(all_) - SHOWN + 1} more"
    )
