"""Calls with one prompt prefix: the first writes it to the service's cache, the others read it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from engine.errors import ServiceError
from engine.llm.blocks import Text, Tool
from engine.llm.messages import ModelAnswer
from engine.llm.prefixes import PrefixLeader
from engine.llm.simulator import Fault, Scenario
from engine.model import Role
from tests.llm.conftest import Connect, Simulate, request
from tests.llm.raw_server import RawServer, sse


def shared(task: str) -> Any:
    context = Text("The repository. " * 5_000, cache="5m")  # 80 kB, about 20,000 tokens
    return request(task, system=(Text("You write code."), context))


@pytest.mark.parametrize(("leading", "writes"), [(True, 1), (False, 16)])
async def test_one_call_writes_the_shared_prefix_and_the_others_read_it(
    simulate: Simulate, connect: Connect, leading: bool, writes: int
) -> None:
    simulator = simulate(Scenario(latency=1.2, tokens_per_second=1_000.0), pace=1.0)
    leader = None if leading else NobodyLeads()
    client = connect(simulator.url, leader=leader)
    answers = await asyncio.gather(*(client.call(shared(f"T{n}")) for n in range(16)))
    wrote = [answer.usage.cache_write_5m for answer in answers if answer.usage.cache_write_5m]
    read = [answer.usage.cache_read for answer in answers if answer.usage.cache_read]
    assert (len(wrote), len(read)) == (writes, 16 - writes)
    assert min(wrote) > 15_000
    assert len({*wrote, *read}) == 1


class NobodyLeads(PrefixLeader):
    """What would happen without the lead call: the measure of what it saves."""

    def turn(self, prefixes: Any) -> Any:
        return super().turn(())


async def test_the_lead_passes_on_when_the_first_call_fails(simulate: Simulate, connect: Connect) -> None:
    simulator = simulate(Scenario(faults=(Fault(kind="server_error", task="T0", times=99),)))
    client = connect(simulator.url)
    results = await asyncio.gather(*(client.call(shared(f"T{n}")) for n in range(4)), return_exceptions=True)
    assert isinstance(results[0], ServiceError)
    rest = [answer.usage for answer in results[1:] if isinstance(answer, ModelAnswer)]
    assert sorted(bool(usage.cache_write_5m) for usage in rest) == [False, False, True]


async def test_a_prefix_that_stops_matching_is_reported_with_the_reason(
    simulate: Simulate, connect: Connect
) -> None:
    told: list[str] = []
    client = connect(simulate().url, notice=told.append)
    await client.call(shared("T1"))
    await client.call(shared("T2"))
    assert told == []
    context = Text("Another repository. " * 5_000, cache="5m")
    await client.call(request("T3", system=(Text("You write code."), context)))
    (notice,) = told
    assert "system block 2 changed" in notice
    tool = Tool("look", "Look.", '{"type": "object", "properties": {}}')
    await client.call(request("T4", system=(Text("You write."), context), tools=(tool,)))
    assert "system block 1 and the tools changed" in told[1]


async def test_a_service_that_keeps_nothing_is_reported_once(connect: Connect) -> None:
    told: list[str] = []
    async with RawServer() as server:
        server.answers(sse("hello"))
        client = connect(server.url, notice=told.append)
        for text in ("one", "one", "two", "two"):
            context = Text(text * 10_000, cache="5m")
            await client.call(request(role=Role.JUDGE if text == "one" else Role.PLANNER, system=(context,)))
    (notice,) = told
    assert "read nothing" in notice
