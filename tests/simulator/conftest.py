"""Simulators that are stopped when the test ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from engine.llm.simulator import Scenario, Simulator


@pytest.fixture
def simulate() -> Iterator[Callable[..., Simulator]]:
    """Start a simulator without any waiting: `simulate(faults=(...))` or `simulate(scenario)`."""
    with ExitStack() as stack:

        def start(scenario: Scenario | None = None, *, pace: float = 0.0, **fields: Any) -> Simulator:
            options = {key: fields.pop(key) for key in ("batch_file", "clock", "port") if key in fields}
            return stack.enter_context(Simulator(scenario or Scenario(**fields), pace=pace, **options))

        yield start
