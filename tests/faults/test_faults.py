"""A short form of the soak: one round of each kind of fault. `make soak` plays many."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.rounds import CELLS, play
from tests.faults.yard import can_mount

SEED = 1


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", CELLS)
def test_nothing_is_lost_or_doubled(name: str, tmp_path: Path) -> None:
    if CELLS[name].room and not can_mount():
        pytest.skip("a small file system has to be mounted, and only root may do that")
    outcome = play(CELLS[name], 0, SEED, tmp_path)
    assert outcome.ok, {what: found for what, found in outcome.losses.items() if found}
    assert outcome.where, "no fault was injected"
