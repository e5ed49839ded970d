"""Measurements beside their targets. `python -m tests.bench [NAME…]` runs them and prints one table.

Each `bench_<name>.py` here has a function `rows() -> list[Row]`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `target` is text (`≤ 60`); `ratio` compares with the plain way in the same run."""

    what: str
    target: str
    measured: float
    unit: str
    ratio: float | None
    ok: bool
