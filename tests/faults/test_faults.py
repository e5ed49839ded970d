"""A short form of the soak: a round each of some kinds of faults. `make soak` plays many of all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.rounds import CELLS, play
from tests.faults.yard import can_mount

SEED = 1
SHORT = {
    "SIGKILL at a journaled step": 2,
    "SIGKILL of all processes": 2,
    "disk full": 1,
    "2 orchestrators: SIGKILL at a journaled step": 2,
    "2 orchestrators, Redis: Redis killed": 1,
}
"""How many faults of each."""


@pytest.mark.parametrize(("name", "most"), SHORT.items())
def test_nothing_is_lost_or_doubled(name: str, most: int, tmp_path: Path) -> None:
    if CELLS[name].room and not can_mount():
        pytest.skip("a small file system has to be mounted, and only root may do that")
    outcome = play(CELLS[name], 0, SEED, tmp_path, most=most)
    assert outcome.ok, {what: found for what, found in outcome.losses.items() if found}
    assert outcome.where, "no fault was injected"
