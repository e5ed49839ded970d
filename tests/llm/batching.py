"""Scenarios and questions for the tests of batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from engine.llm.batches import LLMBatcher
from engine.llm.simulator import Answer, Batches, Fault, Scenario
from tests.llm.conftest import request

CREATE = "POST /v1/messages/batches"
SINGLE = "POST /v1/messages"


def scenario(*faults: Fault, seconds: float = 0.1, **fields: Any) -> Scenario:
    answers = tuple(Answer(task=f"T{n}", say=f"answer {n}") for n in range(20))
    how = Batches(seconds=seconds, results="reversed")
    return Scenario(answers=answers, faults=faults, batches=fields.pop("batches", how), **fields)


async def ask(batcher: LLMBatcher, *numbers: int) -> list[str]:
    answers = await asyncio.gather(*(batcher.submit(request(f"T{n}")) for n in numbers))
    return [answer.text for answer in answers]


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.005)
