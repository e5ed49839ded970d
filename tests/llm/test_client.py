"""Single calls over real HTTP: whole answers, typed failures, tries, pauses and deadlines."""

from __future__ import annotations

import asyncio
import traceback
from typing import Any

import msgspec
import pytest

from engine.errors import (
    AuthenticationError,
    ConnectionFailedError,
    DeadlineError,
    LLMError,
    OverloadedError,
    RateLimitedError,
    RequestRejectedError,
    ServiceError,
    TruncatedError,
)
from engine.figures import LimiterFigures
from engine.llm.blocks import Tool
from engine.llm.limiter import Limiter, Limiters
from engine.llm.messages import ModelAnswer, Progress, Thinking
from engine.llm.retries import RetryPolicy
from engine.llm.schemas import json_schema
from engine.llm.sdk import Deadlines
from engine.llm.simulator import Answer, Fault, Limits, RandomFaults, Scenario, ToolCall, Turn, Verdict
from engine.model import Verdict as JudgeVerdict
from tests.llm.conftest import KEY, Connect, Simulate, request
from tests.llm.raw_server import RawServer, sse

ONCE = RetryPolicy(attempts=1, patience=0.0)


class Lookup(msgspec.Struct, frozen=True):
    path: str


async def test_an_answer_arrives_whole_with_its_tokens(simulate: Simulate, connect: Connect) -> None:
    simulator = simulate(Scenario(answers=(Answer(say="All done, as asked.\n— ✓ 完成"),)))
    seen: list[Progress] = []
    answer = await connect(simulator.url).call(request(), on_progress=seen.append)
    assert answer.text == "All done, as asked.\n— ✓ 完成"
    assert answer.stop_reason == "end_turn"
    assert answer.model == "claude-opus-5-5"
    assert answer.usage.input > 0
    assert answer.usage.output > 0
    assert answer.request_id.startswith("req_")
    assert seen[0].kind == "started"
    assert "".join(p.text for p in seen if p.kind == "text") == answer.text
    assert msgspec.json.decode(msgspec.json.encode(answer), type=ModelAnswer) == answer


async def test_a_tool_loop_goes_round(simulate: Simulate, connect: Connect) -> None:
    turns = (
        Turn(say="Let me look.", calls=(ToolCall("read_file", {"path": "src/a.py"}),)),
        Turn(say="It is fine."),
    )
    simulator = simulate(Scenario(answers=(Answer(turns=turns),)))
    client = connect(simulator.url)
    tool = Tool("read_file", "Read a file.", json_schema(Lookup))
    first = await client.call(request(tools=(tool,)))
    (use,) = first.tool_uses
    assert first.stop_reason == "tool_use"
    assert use.decode(Lookup) == Lookup("src/a.py")
    from engine.llm.blocks import ToolResult, user

    again = request(tools=(tool,))
    messages = (*again.messages, first.message, user(ToolResult(use.id, "x = 1")))
    second = await client.call(msgspec.structs.replace(again, messages=messages))
    assert second.text == "It is fine."
    assert simulator.stats().statuses == {"200": 2}


async def test_thinking_comes_back_to_be_sent_again(simulate: Simulate, connect: Connect) -> None:
    simulator = simulate(Scenario(answers=(Answer(say="Yes.", think="Is it? It is."),)))
    answer = await connect(simulator.url).call(request(thinking=Thinking(2_000), max_tokens=4_000))
    thought = msgspec.json.decode(answer.message.content[0].json)  # type: ignore[union-attr]
    assert thought["type"] == "thinking"
    assert thought["thinking"] == "Is it? It is."
    assert thought["signature"]


async def test_an_answer_by_schema_becomes_its_type(simulate: Simulate, connect: Connect) -> None:
    simulator = simulate(Scenario(answers=(Answer(verdict=Verdict(True, "Good.", ("small", "tested"))),)))
    answer = await connect(simulator.url).call(request(output_schema=json_schema(JudgeVerdict)))
    assert answer.decode(JudgeVerdict) == JudgeVerdict(True, "Good.", ("small", "tested"))


FAULTS = [
    ("rate_limited", RateLimitedError),
    ("spend_limit", RequestRejectedError),
    ("overloaded", OverloadedError),
    ("server_error", ServiceError),
    ("timeout", ServiceError),
    ("unauthorized", AuthenticationError),
    ("not_found", RequestRejectedError),
    ("unanswered", ConnectionFailedError),
    ("dropped", ConnectionFailedError),
    ("stalled", DeadlineError),
    ("truncated", TruncatedError),
    ("error_event", LLMError),
    ("bad_json", ServiceError),
    ("html", ServiceError),
    ("empty_object", ServiceError),
]


@pytest.mark.parametrize(("kind", "error"), FAULTS)
async def test_every_failure_of_the_service_is_one_typed_error_with_a_text(
    simulate: Simulate, connect: Connect, kind: Any, error: type[LLMError]
) -> None:
    simulator = simulate(Scenario(faults=(Fault(kind=kind),)))
    with pytest.raises(error) as caught:
        await connect(simulator.url, retry=ONCE, **deadlines(kind)).call(request())
    assert len(str(caught.value)) > 20
    assert KEY not in "".join(traceback.format_exception(caught.value))


def deadlines(kind: str) -> dict[str, Any]:
    """Wait for a silent service only where it is silent on purpose: elsewhere a slow machine is no failure."""
    return {"deadlines": Deadlines(idle=2.0)} if kind == "stalled" else {}


RETRYABLE = [kind for kind, _ in FAULTS if kind not in ("spend_limit", "unauthorized", "not_found")]


@pytest.mark.parametrize("kind", RETRYABLE)
async def test_a_failure_that_may_pass_is_tried_again_and_told(
    simulate: Simulate, connect: Connect, kind: Any
) -> None:
    simulator = simulate(Scenario(faults=(Fault(kind=kind, retry_after=0.05),)))
    told: list[tuple[LLMError, float | None]] = []
    answer = await connect(simulator.url, **deadlines(kind)).call(
        request(), on_failure=lambda error, wait, _: told.append((error, wait))
    )
    assert answer.stop_reason == "end_turn"
    ((_, wait),) = told
    assert wait is not None
    assert list(simulator.stats().answered.values()) == [1]
    assert sum(simulator.stats().calls.values()) == 2


@pytest.mark.parametrize("kind", ["spend_limit", "unauthorized", "not_found"])
async def test_what_cannot_succeed_is_sent_once(simulate: Simulate, connect: Connect, kind: Any) -> None:
    simulator = simulate(Scenario(faults=(Fault(kind=kind, times=9),)))
    told: list[float | None] = []
    with pytest.raises(LLMError):
        await connect(simulator.url).call(request(), on_failure=lambda _, wait, wasted: told.append(wait))
    assert told == [None]
    assert sum(simulator.stats().calls.values()) == 1


async def test_a_call_is_given_up_after_its_tries(simulate: Simulate, connect: Connect) -> None:
    simulator = simulate(Scenario(faults=(Fault(kind="server_error", times=99),)))
    told: list[float | None] = []
    with pytest.raises(ServiceError):
        await connect(simulator.url).call(request(), on_failure=lambda _, wait, wasted: told.append(wait))
    assert len(told) == 6
    assert told[-1] is None
    assert all(wait is not None for wait in told[:-1])


async def test_a_pause_after_a_429_is_kept_by_all(simulate: Simulate, connect: Connect) -> None:
    pause = 0.6
    simulator = simulate(Scenario(faults=(Fault(kind="rate_limited", task="T0", retry_after=pause),)))
    client = connect(simulator.url)
    await client.call(request("warm"))
    hit = asyncio.Event()
    refused = asyncio.create_task(client.call(request("T0"), on_failure=lambda *_: hit.set()))
    await hit.wait()
    assert client.limiters.of("claude-opus-5-5").figures.paused_until is not None
    await asyncio.gather(refused, *(client.call(request(f"T{n}")) for n in range(1, 12)))
    log = simulator.log
    at = next(entry.at for entry in log if entry.fault == "rate_limited")
    later = [entry.at - at for entry in log if entry.at > at]
    assert len(later) == 12
    assert min(later) >= pause - 0.05
    assert simulator.stats().statuses["429"] == 1


async def test_a_limit_of_the_service_is_kept_rather_than_run_into(
    simulate: Simulate, connect: Connect
) -> None:
    # 20 requests are there at the start, which take no time, and another one every three seconds.
    simulator = simulate(Scenario(limits=Limits(requests_per_minute=20)))
    seen: list[LimiterFigures] = []
    limiters = Limiters(lambda name: Limiter(name, maximum=1, on_change=seen.append))
    client = connect(simulator.url, limiters=limiters)
    await asyncio.gather(*(client.call(request(f"T{n}")) for n in range(21)))
    assert simulator.stats().statuses == {"200": 21}
    assert "limit of requests used up" in {figures.reason for figures in seen}


async def test_a_529_halves_what_is_in_flight(simulate: Simulate, connect: Connect) -> None:
    simulator = simulate(Scenario(faults=(Fault(kind="overloaded", task="T0"),)))
    client = connect(simulator.url)
    await client.call(request("T0"))
    assert client.limiters.of("claude-opus-5-5").figures.limit == 8


async def test_an_answer_without_end_meets_the_deadline_and_is_not_paid_twice(
    simulate: Simulate, connect: Connect
) -> None:
    slow = simulate(
        Scenario(answers=(Answer(say="word " * 2_000),), latency=0.0, tokens_per_second=50.0), pace=1.0
    )
    client = connect(slow.url, deadlines=Deadlines(total=0.6, idle=5.0))
    told: list[float | None] = []
    async with asyncio.timeout(30):
        with pytest.raises(DeadlineError, match="no whole answer"):
            await client.call(request(), on_failure=lambda _, wait, wasted: told.append(wait))
    assert told == [None]


async def test_a_cancelled_call_leaves_nothing_in_flight(simulate: Simulate, connect: Connect) -> None:
    simulator = simulate(
        Scenario(answers=(Answer(say="word " * 500),), latency=0.0, tokens_per_second=20.0), pace=1.0
    )
    client = connect(simulator.url)
    begun = asyncio.Event()
    calls = [
        asyncio.create_task(client.call(request(f"T{n}"), on_progress=lambda _: begun.set()))
        for n in range(4)
    ]
    async with asyncio.timeout(15):
        await begun.wait()
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        while simulator.stats().in_flight:
            await asyncio.sleep(0.02)
    figures = client.limiters.of("claude-opus-5-5").figures
    assert (figures.in_flight, figures.waiting) == (0, 0)
    assert simulator.stats().answered == {}


async def test_a_proxy_of_the_environment_does_not_stand_before_the_loopback(
    simulate: Simulate, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    simulator = simulate()
    assert (await connect(simulator.url).call(request())).stop_reason == "end_turn"


async def test_a_storm_of_failures_costs_few_requests_and_no_answer_twice(
    simulate: Simulate, connect: Connect
) -> None:
    simulator = simulate(Scenario(random_faults=RandomFaults(rate=0.35, seed=11, times=2, retry_after=0.05)))
    client = connect(simulator.url)
    gate = asyncio.Semaphore(32)

    async def one(number: int) -> ModelAnswer:
        async with gate:
            return await client.call(request(f"T{number}"))

    async with asyncio.timeout(50):
        answers = await asyncio.gather(*(one(number) for number in range(200)))
    stats = simulator.stats()
    assert len(answers) == 200
    assert len(stats.answered) == 200
    assert set(stats.answered.values()) == {1}
    faults = sum(stats.faults.values())
    assert faults > 50
    assert sum(stats.calls.values()) <= 1.2 * (200 + faults)


async def test_an_answer_of_nothing_but_a_beginning_is_truncated(connect: Connect) -> None:
    async with RawServer() as server:
        server.answers((200, "text/event-stream", 'event: message_start\ndata: {"type":"message_start"}\n\n'))
        with pytest.raises(TruncatedError):
            await connect(server.url, retry=ONCE).call(request())


async def test_events_that_nobody_knows_are_passed_over(connect: Connect) -> None:
    async with RawServer() as server:
        odd = 'event: moon_phase\ndata: {"type":"moon_phase","phase":3}\n\nevent: ping\ndata: {"type":"ping"}\n\n'
        status, kind, body = sse("hello")
        server.answers((status, kind, odd + body))
        assert (await connect(server.url).call(request())).text == "hello"


async def test_a_tool_input_cut_off_by_max_tokens_is_kept_as_it_came(connect: Connect) -> None:
    async with RawServer() as server:
        server.answers(sse(tool='{"path": "a.py", "content": "x = ', stop_reason="max_tokens"))
        answer = await connect(server.url).call(request())
        (use,) = answer.tool_uses
        assert use.input == '{"path": "a.py", "content": "x = '
        with pytest.raises(msgspec.DecodeError):
            use.decode(Lookup)
