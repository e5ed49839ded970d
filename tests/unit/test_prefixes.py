"""Who writes a shared prompt prefix, and who waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from engine.llm.messages import Prefix
from engine.llm.prefixes import PrefixLeader, Turn

SHARED = Prefix("shared", 50_000, "5m")


class Calls:
    """Calls that stay at their turn until the test moves them on."""

    def __init__(self, leader: PrefixLeader) -> None:
        self.leader = leader
        self.turns: dict[str, Turn] = {}
        self._ends: dict[str, asyncio.Event] = {}

    async def start(self, name: str, *prefixes: Prefix) -> None:
        self._ends[name] = asyncio.Event()
        self._task = asyncio.create_task(self._run(name, prefixes))
        await settle()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await settle()

    async def _run(self, name: str, prefixes: Sequence[Prefix]) -> None:
        async with self.leader.turn(prefixes) as turn:
            self.turns[name] = turn
            turn.sent()
            await self._ends[name].wait()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_the_others_wait_until_the_first_streams_and_then_all_go() -> None:
    calls = Calls(PrefixLeader())
    for name in ("a", "b", "c"):
        await calls.start(name, SHARED)
    assert list(calls.turns) == ["a"]
    assert calls.turns["a"].expected is None
    calls.turns["a"].streaming()
    await settle()
    assert list(calls.turns) == ["a", "b", "c"]
    assert calls.turns["b"].expected == SHARED


async def test_when_the_leader_fails_one_of_the_others_leads() -> None:
    calls = Calls(PrefixLeader())
    for name in ("a", "b", "c"):
        await calls.start(name, SHARED)
    await calls.end("a")
    assert list(calls.turns) == ["a", "b"]
    calls.turns["b"].streaming()
    await settle()
    assert list(calls.turns) == ["a", "b", "c"]


async def test_a_leader_whose_answer_does_not_begin_loses_the_lead() -> None:
    calls = Calls(PrefixLeader(patience=0.02))
    for name in ("a", "b", "c"):
        await calls.start(name, SHARED)
    async with asyncio.timeout(30):
        while "b" not in calls.turns:
            await asyncio.sleep(0.005)
    assert "c" not in calls.turns
    # The late one begins after all: nobody needs to wait for the second any more.
    calls.turns["a"].streaming()
    await settle()
    assert "c" in calls.turns


async def test_the_end_of_a_late_leader_does_not_end_the_lead_of_the_next() -> None:
    calls = Calls(PrefixLeader(patience=0.02))
    for name in ("a", "b"):
        await calls.start(name, SHARED)
    async with asyncio.timeout(30):
        while "b" not in calls.turns:
            await asyncio.sleep(0.005)
    calls.leader.patience = 60.0
    await calls.end("b")
    await calls.start("c", SHARED)
    await calls.end("a")
    await calls.start("d", SHARED)
    assert "c" in calls.turns
    assert "d" not in calls.turns


async def test_different_prefixes_and_small_ones_wait_for_nobody() -> None:
    calls = Calls(PrefixLeader())
    await calls.start("a", SHARED)
    await calls.start("b", Prefix("other", 50_000, "5m"))
    await calls.start("c", Prefix("small", 500, "5m"))
    await calls.start("d", Prefix("small", 500, "5m"))
    await calls.start("e")
    assert list(calls.turns) == ["a", "b", "c", "d", "e"]


async def test_a_longer_prefix_waits_for_the_shorter_one_in_it() -> None:
    calls = Calls(PrefixLeader())
    await calls.start("a", SHARED)
    await calls.start("b", SHARED, Prefix("own", 60_000, "5m"))
    assert list(calls.turns) == ["a"]
    calls.turns["a"].streaming()
    await settle()
    assert calls.turns["b"].expected == SHARED


@pytest.mark.parametrize(("ttl", "life"), [("5m", 300.0), ("1h", 3_600.0)])
async def test_a_prefix_stays_warm_for_its_time_since_it_was_last_read(ttl: str, life: float) -> None:
    now = 0.0
    prefix = Prefix("kept", 50_000, "5m" if ttl == "5m" else "1h")
    calls = Calls(PrefixLeader(monotonic=lambda: now))
    await calls.start("a", prefix)
    calls.turns["a"].streaming()
    now = life - 1
    await calls.start("b", prefix)
    calls.turns["b"].streaming()
    now = 2 * life - 2
    await calls.start("c", prefix)
    assert calls.turns["c"].expected == prefix
    now = 2 * life + 1
    await calls.start("d", prefix)
    assert calls.turns["d"].expected is None


async def test_a_cancelled_leader_lets_go() -> None:
    calls = Calls(PrefixLeader())
    await calls.start("a", SHARED)
    leader = calls._task
    await calls.start("b", SHARED)
    leader.cancel()
    await settle()
    assert list(calls.turns) == ["a", "b"]
