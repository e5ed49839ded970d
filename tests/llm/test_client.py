"""Single calls over real HTTP: whole answers, typed failures, pauses, deadlines, and a key that never shows."""

from __future__ import annotations

import asyncio
import socket
import traceback
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from engine.errors import (
    AuthenticationError,
    BudgetReachedError,
    ConnectionFailedError,
    DeadlineError,
    LLMError,
    OverloadedError,
    RateLimitedError,
    RequestRejectedError,
    ServiceError,
    SettingsError,
    TruncatedError,
)
from engine.figures import LimiterFigures
from engine.llm.budget import Budget
from engine.llm.client import ModelClient
from engine.llm.endpoint import is_loopback
from engine.llm.limiter import Limiter, Limiters
from engine.llm.messages import ModelAnswer, Progress, Text, Thinking, Tool, json_schema
from engine.llm.prefixes import PrefixLeader
from engine.llm.retries import RetryPolicy
from engine.llm.sdk import Deadlines
from engine.llm.simulator import (
    Answer,
    Fault,
    Limits,
    RandomFaults,
    Scenario,
    Simulator,
    ToolCall,
    Turn,
    Verdict,
)
from engine.model import Role
from engine.model import Verdict as JudgeVerdict
from tests.llm.conftest import KEY, request
from tests.llm.raw_server import RawServer, sse

Connect = Callable[..., ModelClient]
Simulate = Callable[..., Simulator]
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
    from engine.llm.messages import ToolResult, user

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
    return {"deadlines": Deadlines(idle=0.5)} if kind == "stalled" else {}


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
    # 60 requests are there at the start, and another one every second.
    simulator = simulate(Scenario(limits=Limits(requests_per_minute=60)))
    seen: list[LimiterFigures] = []
    limiters = Limiters(lambda name: Limiter(name, maximum=1, on_change=seen.append))
    client = connect(simulator.url, limiters=limiters)
    await asyncio.gather(*(client.call(request(f"T{n}")) for n in range(62)))
    assert simulator.stats().statuses == {"200": 62}
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
    async with asyncio.timeout(10):
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


# The prompt cache


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


# Money


async def test_a_call_past_the_budget_is_not_sent(simulate: Simulate, connect: Connect) -> None:
    simulator = simulate()
    # 1,000 tokens of output alone may cost 0.02.
    client = connect(simulator.url, budget=Budget(run_usd=0.015))
    with pytest.raises(BudgetReachedError):
        await client.call(request())
    assert simulator.stats().calls == {}


async def test_a_budget_is_spent_by_what_calls_cost_and_never_passed(
    simulate: Simulate, connect: Connect
) -> None:
    simulator = simulate(Scenario(answers=(Answer(say="word " * 300),)))
    budget = Budget(run_usd=0.12)
    client = connect(simulator.url, budget=budget)
    results = await asyncio.gather(
        *(client.call(request(f"T{n}")) for n in range(40)), return_exceptions=True
    )
    answers = [r for r in results if isinstance(r, ModelAnswer)]
    refused = [r for r in results if isinstance(r, BudgetReachedError)]
    assert len(answers) + len(refused) == 40
    assert refused
    costs = [client.cost_of(answer) for answer in answers]
    assert budget.spent == pytest.approx(sum(cost.usd for cost in costs if cost is not None))
    assert 0.08 < budget.spent <= 0.12
    assert budget.reserved == 0.0
    assert sum(simulator.stats().calls.values()) == len(answers)


async def test_a_long_prompt_is_counted_by_the_service_before_it_is_refused(
    simulate: Simulate, connect: Connect
) -> None:
    simulator = simulate()
    # 100,000 bytes could be as many tokens (0.40 dollars) but are about 25,000 (0.10).
    prompt = request(text="four" * 25_000)
    client = connect(simulator.url, budget=Budget(run_usd=0.2))
    await client.call(prompt)
    assert simulator.stats().requests["POST /v1/messages/count_tokens"] == 1


async def test_tokens_of_a_broken_answer_are_paid_for_too(simulate: Simulate, connect: Connect) -> None:
    simulator = simulate(Scenario(faults=(Fault(kind="truncated"),), answers=(Answer(say="word " * 100),)))
    budget = Budget(run_usd=5.0)
    client = connect(simulator.url, budget=budget)
    answer = await client.call(request())
    assert answer.wasted.input == answer.usage.input
    cost = client.cost_of(answer)
    plain = client.money.prices.price(answer.model, answer.usage)
    assert cost is not None
    assert plain is not None
    assert cost.usd > plain
    assert budget.spent == pytest.approx(cost.usd)


async def test_an_answer_under_another_name_is_paid_for_as_what_was_asked_for(connect: Connect) -> None:
    async with RawServer() as server:
        server.answers(sse("hello", model="gateway/opus@eu"))
        client = connect(server.url, budget=Budget(run_usd=1.0))
        answer = await client.call(request())
        assert (answer.model, answer.served_by) == ("claude-opus-5-5", "gateway/opus@eu")
        assert client.money.budget.spent == pytest.approx((10 * 4 + 5 * 20) / 1e6)


async def test_an_unknown_model_runs_without_a_budget_and_not_with_one(connect: Connect) -> None:
    async with RawServer() as server:
        server.answers(sse("hello", model="qwen3:8b"))
        client = connect(server.url)
        answer = await client.call(request(model="qwen3:8b"))
        assert client.cost_of(answer) is None
        limited = connect(server.url, budget=Budget(run_usd=100.0))
        with pytest.raises(BudgetReachedError, match=r"qwen3:8b"):
            await limited.call(request(model="qwen3:8b"))


# Endpoints that are not what they should be


async def test_an_error_that_echoes_the_key_does_not_show_it(connect: Connect) -> None:
    async with RawServer() as server:
        body = f'{{"type":"error","error":{{"type":"authentication_error","message":"bad key {KEY}\\u001b[2J"}}}}'
        server.answers((401, "application/json", body))
        with pytest.raises(AuthenticationError) as caught:
            await connect(server.url).call(request())
        shown = "".join(traceback.format_exception(caught.value)) + str(caught.value)
        assert KEY not in shown
        assert "\x1b" not in str(caught.value)
        assert "[key]" in shown
        assert server.authorizations == [f"Bearer {KEY}"]


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (200, "text/html", "<html>Sign in</html>"),
        (200, "application/json", "{}"),
        (200, "text/event-stream", ""),
        (200, "text/event-stream", "event: message_start\ndata: {broken\n\n"),
        (200, "text/event-stream", 'event: content_block_delta\ndata: {"type":"content_block_delta"}\n\n'),
        (502, "text/html", "<html>Bad gateway</html>"),
    ],
)
async def test_what_is_no_answer_is_a_service_error(
    connect: Connect, status: int, kind: str, body: str
) -> None:
    async with RawServer() as server:
        server.answers((status, kind, body))
        with pytest.raises(ServiceError) as caught:
            await connect(server.url, retry=ONCE).call(request())
        assert caught.value.retryable


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


async def test_the_check_tells_the_models_and_what_is_wrong(simulate: Simulate, connect: Connect) -> None:
    assert "claude-opus-5-5" in await connect(simulate().url).check()
    locked = simulate(Scenario(api_key="another"))
    with pytest.raises(AuthenticationError, match="ANTHROPIC_API_KEY"):
        await connect(locked.url).check()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(ConnectionFailedError, match="base_url"):
        await connect(f"http://127.0.0.1:{port}").check()


async def test_an_endpoint_without_a_list_of_models_passes_the_check(connect: Connect) -> None:
    async with RawServer() as server:
        server.answers((404, "text/plain", "404 page not found"))
        assert await connect(server.url).check() == ()


@pytest.mark.parametrize(
    ("kind", "body"),
    [("text/html", "<html>Sign in</html>"), ("application/json", "{}"), ("application/json", "{")],
)
async def test_a_page_that_is_no_list_of_models_fails_the_check(
    connect: Connect, kind: str, body: str
) -> None:
    async with RawServer() as server:
        server.answers((200, kind, body))
        with pytest.raises(ServiceError, match="no answer"):
            await connect(server.url).check()


async def test_without_a_key_the_error_says_what_to_set(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    async with ModelClient("https://models.invalid", None, environ={}) as client:
        with pytest.raises(AuthenticationError, match="ANTHROPIC_API_KEY"):
            await client.check()


@pytest.mark.parametrize(
    ("environ", "header"),
    [
        ({"ANTHROPIC_API_KEY": " key-of-the-environment\n"}, "Bearer key-of-the-environment"),
        ({"ANTHROPIC_AUTH_TOKEN": "token-of-a-gateway"}, "Bearer token-of-a-gateway"),
    ],
)
async def test_a_gateway_on_this_machine_gets_the_credentials_of_the_environment(
    environ: dict[str, str], header: str
) -> None:
    async with RawServer() as server:
        server.answers(sse("hello"))
        async with ModelClient(server.url, None, environ=environ) as client:
            await client.call(request())
        assert server.authorizations == [header]


async def test_an_address_that_ends_in_v1_already_is_understood(simulate: Simulate) -> None:
    async with ModelClient(f"{simulate().url}/v1/", None, environ={}) as client:
        assert (await client.call(request())).stop_reason == "end_turn"


async def test_a_server_on_this_machine_needs_no_key(simulate: Simulate) -> None:
    async with ModelClient(simulate().url, None, environ={}) as client:
        assert (await client.call(request())).stop_reason == "end_turn"


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1:8000", True),
        ("http://[::1]:8000/x", True),
        ("http://localhost", True),
        ("https://api.anthropic.com", False),
        ("https://localhost.example.com", False),
        ("http://10.0.0.1", False),
    ],
)
def test_loopback(url: str, local: bool) -> None:
    assert is_loopback(url) is local


@pytest.mark.parametrize("url", ["nonsense", "http://[bad", "ftp://host", "http://"])
def test_what_is_no_address_is_an_error_of_the_settings(url: str) -> None:
    with pytest.raises(SettingsError, match="base_url"):
        ModelClient(url, KEY, environ={})


async def test_a_refusal_that_is_no_missing_list_fails_the_check(connect: Connect) -> None:
    async with RawServer() as server:
        server.answers((400, "text/html", "<html>The proxy does not like you</html>"))
        with pytest.raises(RequestRejectedError):
            await connect(server.url).check()
