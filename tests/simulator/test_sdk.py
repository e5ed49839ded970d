"""The real SDK against the simulator: what it accepts, and what it makes of each fault."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import anthropic
import httpx2
import pytest
from pydantic import BaseModel

from engine.llm.simulator import Answer, Batches, Edit, Fault, Simulator, Verdict
from tests.simulator.wire import TOOLS, prompt

MODEL = "claude-opus-5-5"


@pytest.fixture
async def connect() -> AsyncIterator[Callable[..., anthropic.AsyncAnthropic]]:
    """Make a client that is closed when the test ends."""
    clients = []

    def make(simulator: Simulator, **options: Any) -> anthropic.AsyncAnthropic:
        http = anthropic.DefaultAsyncHttpxClient(trust_env=False)
        settings = {"api_key": "k", "max_retries": 0, "timeout": 30.0} | options
        clients.append(anthropic.AsyncAnthropic(base_url=simulator.url, http_client=http, **settings))
        return clients[-1]

    yield make
    for client in clients:
        await client.close()


def user(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


async def test_a_streamed_tool_loop(simulate: Callable[..., Simulator], connect: Callable[..., Any]) -> None:
    answer = Answer(edits=(Edit("a.py", "x = '漢字'\n", "x = 1\n"),), summary="Done.", think="First I read.")
    client = connect(simulate(answers=(answer,)))
    messages: list[dict[str, Any]] = user(prompt("implementer", "A"))
    used = []
    while True:
        async with client.messages.stream(
            model=MODEL, max_tokens=2000, messages=messages, tools=TOOLS, thinking={"type": "adaptive"}
        ) as stream:
            message = await stream.get_final_message()
        calls = [block for block in message.content if block.type == "tool_use"]
        used += [(call.name, call.input) for call in calls]
        if not calls:
            break
        messages.append({"role": "assistant", "content": message.content})
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": "ok"} for call in calls]
        messages.append({"role": "user", "content": results})
    assert used == [
        ("read_file", {"path": "a.py"}),
        ("edit_file", {"path": "a.py", "old": "x = 1\n", "new": "x = '漢字'\n"}),
        ("run_check", {}),
    ]
    assert message.content[0].text == "Done."
    assert message.stop_reason == "end_turn"


class Judged(BaseModel):
    approved: bool
    reason: str


async def test_structured_output(simulate: Callable[..., Simulator], connect: Callable[..., Any]) -> None:
    client = connect(simulate(answers=(Answer(verdict=Verdict(True, "Fine.")),)))
    parsed = await client.messages.parse(
        model=MODEL, max_tokens=100, messages=user(prompt("judge", "A")), output_format=Judged
    )
    assert parsed.parsed_output == Judged(approved=True, reason="Fine.")


async def test_batches(simulate: Callable[..., Simulator], connect: Callable[..., Any]) -> None:
    simulator = simulate(
        batches=Batches(results="reversed"),
        faults=(Fault(kind="expired", endpoint="batch_item", task="T-1"),),
    )
    client = connect(simulator)
    batch = await client.messages.batches.create(
        requests=[
            {
                "custom_id": f"c{n}",
                "params": {"model": MODEL, "max_tokens": 100, "messages": user(prompt("judge", f"T-{n}"))},
            }
            for n in range(3)
        ]
    )
    listed = [item.id async for item in client.messages.batches.list(limit=1)]
    assert listed == [batch.id]
    assert (await client.messages.batches.retrieve(batch.id)).processing_status == "ended"
    results = [item async for item in await client.messages.batches.results(batch.id)]
    assert [(item.custom_id, item.result.type) for item in results] == [
        ("c2", "succeeded"),
        ("c1", "expired"),
        ("c0", "succeeded"),
    ]
    assert results[0].result.message.usage.service_tier == "batch"
    assert (await client.messages.batches.cancel(batch.id)).processing_status == "ended"
    assert (await client.messages.batches.delete(batch.id)).id == batch.id


async def test_models_and_tokens(simulate: Callable[..., Simulator], connect: Callable[..., Any]) -> None:
    client = connect(simulate())
    assert MODEL in [model.id async for model in client.models.list()]
    assert (await client.models.retrieve(MODEL)).display_name == "Claude Opus 5.5"
    assert (await client.messages.count_tokens(model=MODEL, messages=user("x" * 40))).input_tokens == 10


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("rate_limited", anthropic.RateLimitError),
        ("overloaded", anthropic.OverloadedError),
        ("server_error", anthropic.InternalServerError),
        ("unauthorized", anthropic.AuthenticationError),
        ("not_found", anthropic.NotFoundError),
        ("unanswered", anthropic.APIConnectionError),
        ("dropped", httpx2.ReadError),
        ("stalled", httpx2.ReadTimeout),
        ("error_event", anthropic.APIStatusError),
        ("bad_json", ValueError),
        ("html", AssertionError),
        ("empty_object", AssertionError),
    ],
)
async def test_what_the_sdk_makes_of_each_fault(
    kind: str, error: type[Exception], simulate: Callable[..., Simulator], connect: Callable[..., Any]
) -> None:
    # Only where the service is silent on purpose: elsewhere a slow machine is no failure.
    timeout = 2.0 if kind == "stalled" else 30.0
    client = connect(simulate(answers=(Answer(say="A long story. " * 30),)), timeout=timeout)

    async def call() -> Any:
        async with client.messages.stream(
            model=MODEL, max_tokens=500, messages=user("Hi"), extra_headers={"x-simulator-fault": kind}
        ) as stream:
            return await stream.get_final_message()

    with pytest.raises(error):
        await call()


async def test_a_truncated_stream_is_returned_as_if_it_were_whole(
    simulate: Callable[..., Simulator], connect: Callable[..., Any]
) -> None:
    client = connect(simulate(answers=(Answer(say="A long story. " * 30),)))
    async with client.messages.stream(
        model=MODEL, max_tokens=500, messages=user("Hi"), extra_headers={"x-simulator-fault": "truncated"}
    ) as stream:
        message = await stream.get_final_message()
    assert message.stop_reason is None


async def test_the_sdks_own_retries_get_through(
    simulate: Callable[..., Simulator], connect: Callable[..., Any]
) -> None:
    simulator = simulate(faults=(Fault(kind="rate_limited", times=2, retry_after=0.01),))
    message = await connect(simulator, max_retries=2).messages.create(
        model=MODEL, max_tokens=100, messages=user(prompt("judge", "A"))
    )
    assert message.stop_reason == "end_turn"
    assert simulator.stats().statuses == {"429": 2, "200": 1}
