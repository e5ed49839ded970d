"""Measurements beside their targets. `python -m tests.bench [NAME…]` runs them and prints one table.

Each `bench_<name>.py` here has a function `rows() -> list[Row]`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
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


def best(run: Callable[[], object], *, times: int, rounds: int = 5) -> float:
    """Seconds that one `run()` takes: the best of some rounds, since noise only ever adds."""

    def one_round() -> float:
        started = time.perf_counter()
        for _ in range(times):
            run()
        return (time.perf_counter() - started) / times

    return min(one_round() for _ in range(rounds))
