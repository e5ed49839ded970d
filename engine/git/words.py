"""Numbers in sentences."""

from __future__ import annotations


def count_of(number: int, noun: str) -> str:
    """Give `1 branch`, `2 branches`; the noun's plural must be a regular one."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}{'es' if noun.endswith(('ch', 's', 'x')) else 's'}"
