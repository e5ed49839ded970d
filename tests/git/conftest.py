"""A repository, its remote and a train between them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.git.trains import BOARD, TARGET, Yard, board, make_yard
from tests.sample_repository import SampleRepository

Make = Callable[..., SampleRepository]
Open = Callable[..., Awaitable[Yard]]

CHECK = "#!/bin/sh\ntest ! -e broken && ! { test -e left && test -e right; }\n"


@pytest.fixture
def yard(repo: Make, tmp_path: Path) -> Open:
    async def make(count: int = 3, target: str = TARGET) -> Yard:
        sample = repo({"shared.txt": "1\n2\n3\n", BOARD: board(count), "check": CHECK})
        (sample.path / "check").chmod(0o755)
        sample.commit("Make the check run")
        sample.git("push", "--quiet", "origin", "main")
        return await make_yard(sample, tmp_path / "work", target)

    return make
