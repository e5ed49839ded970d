"""kill -9 around a batch: one batch at the service, every answer used once."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.llm.simulator import Answer, Batches, Scenario, Simulator
from tests import forked

ROOT = Path(__file__).parents[2]


async def child(url: str, folder: Path, moment: str) -> int:
    command = [sys.executable, "-m", "tests.llm.batch_child", url, str(folder), moment]
    return (await asyncio.to_thread(forked.run, command, cwd=ROOT, stdout=None, stderr=None)).returncode


@pytest.mark.parametrize("moment", ["creating", "created", "polling", "stored"])
async def test_a_killed_process_leaves_a_batch_that_the_next_one_finishes(
    simulate: Callable[..., Simulator], tmp_path: Path, moment: str
) -> None:
    answers = tuple(Answer(task=f"T{n}", say=f"answer {n}") for n in (1, 2, 3))
    simulator = simulate(Scenario(answers=answers, batches=Batches(seconds=0.5)), pace=1.0)
    assert await child(simulator.url, tmp_path, moment) == -signal.SIGKILL
    assert await child(simulator.url, tmp_path, "never") == 0
    assert [(tmp_path / f"T{n}.answer").read_text() for n in (1, 2, 3)] == [
        "answer 1",
        "answer 2",
        "answer 3",
    ]
    stats = simulator.stats()
    assert len(stats.batches) == 1
    assert stats.batch_items == 3
    assert set(stats.answered.values()) == {1}
    assert "POST /v1/messages" not in stats.requests
    # A third process would find nothing left to ask for.
    assert (tmp_path / f"{stats.batches[0]}.ended").exists()
