"""Requests, clients, batchers and simulators for the tests of model calls, over HTTP on the loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from engine.llm.batch_calls import BatchState
from engine.llm.batch_flights import Manifest, PollPolicy
from engine.llm.batches import LLMBatcher
from engine.llm.blocks import Text, user
from engine.llm.budget import Budget
from engine.llm.client import ModelClient
from engine.llm.messages import ModelRequest
from engine.llm.retries import RetryPolicy
from engine.llm.sdk import Deadlines
from engine.llm.simulator import Scenario, Simulator
from engine.model import Role

KEY = "sk-ant-test-0123456789abcdef"

Connect = Callable[..., ModelClient]
Simulate = Callable[..., Simulator]


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


class Journal:
    """Hooks that remember what they are told, as a journal would."""

    def __init__(self) -> None:
        self.manifests: dict[str, Manifest] = {}
        self.polls: list[tuple[str, BatchState, float | None]] = []
        self.ends: list[tuple[str, int, int]] = []
        self.notices: list[str] = []
        self.before_submitted: Callable[[], Awaitable[None]] | None = None

    async def creating(self, manifest: Manifest) -> None:
        assert not manifest.batch
        self.manifests[manifest.token] = manifest

    async def submitted(self, manifest: Manifest) -> None:
        if self.before_submitted is not None:
            await self.before_submitted()
        assert manifest.batch
        self.manifests[manifest.token] = manifest

    def polled(self, batch: str, state: BatchState, next_poll_at: float | None) -> None:
        self.polls.append((batch, state, next_poll_at))

    def ended(self, batch: str, succeeded: int, errored: int) -> None:
        self.ends.append((batch, succeeded, errored))

    def notice(self, text: str) -> None:
        self.notices.append(text)


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
async def batch(connect: Connect, journal: Journal) -> Any:
    """Make a batcher over a simulator: `batch(simulator, max_size=...)`."""
    made: list[LLMBatcher] = []

    def make(simulator: Simulator, *, budget: Budget | None = None, **options: Any) -> LLMBatcher:
        options.setdefault("max_age", 0.05)
        options.setdefault("poll", PollPolicy(first=0.02, longest=0.1, grace=2.0, listing=(0.0, 0.05, 0.1)))
        options.setdefault(
            "retry", RetryPolicy(attempts=8, first_wait=0.01, longest_wait=0.05, patience=20.0)
        )
        hooks = options.pop("hooks", journal)
        batcher = LLMBatcher(connect(simulator.url, budget=budget), hooks, **options)
        made.append(batcher)
        return batcher

    yield make
    for batcher in made:
        await batcher.close()
