"""Requests, clients and simulators for the tests of model calls. Everything goes over real HTTP on the loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from engine.llm.client import ModelClient
from engine.llm.messages import ModelRequest, Text, user
from engine.llm.retries import RetryPolicy
from engine.llm.sdk import Deadlines
from engine.llm.simulator import Scenario, Simulator
from engine.model import Role

KEY = "sk-ant-test-0123456789abcdef"


def request(task: str = "T1", text: str = "Do it.", **fields: Any) -> ModelRequest:
    """Make a request as the roles do, for `task`."""
    prompt = f"{text}\nRole: implementer\nTask: {task}\nAttempt: 1"
    values: dict[str, Any] = {
        "role": Role.IMPLEMENTER,
        "model": "claude-opus-5-5",
        "system": (Text("You write code."),),
        "messages": (user(Text(prompt)),),
        "max_tokens": 1_000,
        "task_id": task,
    }
    return ModelRequest(**(values | fields))


@pytest.fixture
def simulate() -> Any:
    """Start a simulator for the test: `simulate(Scenario(...))`. Without waiting, unless the scenario asks for it."""
    running: list[Simulator] = []

    def start(scenario: Scenario | None = None, *, pace: float = 0.0) -> Simulator:
        simulator = Simulator(scenario or Scenario(), pace=pace)
        simulator.start()
        running.append(simulator)
        return simulator

    yield start
    for simulator in running:
        simulator.stop()


@pytest.fixture
async def connect() -> AsyncIterator[Callable[..., ModelClient]]:
    """Make a client that the test need not close: `connect(simulator.url, retry=..., ...)`."""
    clients: list[ModelClient] = []

    def make(url: str, **options: Any) -> ModelClient:
        options.setdefault(
            "retry", RetryPolicy(attempts=6, first_wait=0.01, longest_wait=0.05, patience=30.0)
        )
        options.setdefault("deadlines", Deadlines(total=30.0, idle=10.0, connect=5.0, quick=20.0))
        options.setdefault("environ", {})
        client = ModelClient(url, KEY, **options)
        clients.append(client)
        return client

    yield make
    for client in clients:
        await client.close()
