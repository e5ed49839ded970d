"""Nothing on a snapshot may depend on the time, the machine or the run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tui.still import standing_still


@pytest.fixture(autouse=True)
def _still() -> Iterator[None]:
    with standing_still():
        yield
