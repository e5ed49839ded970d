"""Clocks, keys, answers and other processes for the tests of the result cache."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from engine.store.cache import CacheKey, Computed, digest


class Clock:
    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def key(n: object = 1, *, task: str = "T1", activity: str = "judge", model: str = "m") -> CacheKey:
    return CacheKey(activity, task, digest(str(n)), model)


def answer(value: bytes = b"yes", **cost: float):
    calls = []

    async def compute() -> Computed:
        calls.append(1)
        await asyncio.sleep(0)
        return Computed(value, **cost)

    compute.calls = calls
    return compute


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
