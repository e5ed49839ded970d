"""The server: counts, pace, connections, limits, and a stop that leaves nothing behind."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from engine.errors import UsageError
from engine.llm.simulator import Answer, Limits, Scenario, Simulator
from tests.simulator.wire import HEADERS, TOOLS, ask, connect, prompt, request, send, text_of


def test_a_stream_adds_up_to_the_whole_answer(simulate: Callable[..., Simulator]) -> None:
    answer = Answer(think="Let me think about that.", say="Words, words: 漢字 and 👩‍💻. " * 9)
    simulator = simulate(answers=(answer,))
    fields: dict[str, Any] = {"thinking": {"type": "adaptive"}}
    whole = ask(simulator, **fields).json
    events = ask(simulator, stream=True, **fields).events
    names = [name for name, _ in events]
    assert names[:3] == ["message_start", "ping", "content_block_start"]
    assert names[-2:] == ["message_delta", "message_stop"]
    start = events[0][1]["message"]
    assert (start["content"], start["stop_reason"], start["usage"]["output_tokens"]) == ([], None, 1)
    deltas = [data["delta"] for name, data in events if name == "content_block_delta"]
    assert "".join(d["thinking"] for d in deltas if d["type"] == "thinking_delta") == answer.think
    assert "".join(d["text"] for d in deltas if d["type"] == "text_delta") == answer.say
    assert [d["signature"] for d in deltas if d["type"] == "signature_delta"] == [
        whole["content"][0]["signature"]
    ]
    assert len(deltas) > 4
    last = events[-2][1]
    assert last["delta"]["stop_reason"] == whole["stop_reason"] == "end_turn"
    assert last["usage"]["output_tokens"] == whole["usage"]["output_tokens"]
    assert start["id"] == whole["id"]


def test_a_streamed_tool_input_is_cut_where_max_tokens_ends_it(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate()
    fields: dict[str, Any] = {"tools": TOOLS, "max_tokens": 10}
    events = ask(simulator, prompt("implementer", "A"), stream=True, **fields).events
    pieces = [
        data["delta"]["partial_json"]
        for name, data in events
        if name == "content_block_delta" and data["index"]
    ]
    assert "".join(pieces) == '{"path":'
    assert events[-2][1]["delta"]["stop_reason"] == "max_tokens"
    whole = ask(simulator, prompt("implementer", "A"), **fields).json
    assert (whole["content"][-1]["input"], whole["stop_reason"]) == ({}, "max_tokens")


def test_counts(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate()
    ask(simulator, prompt("planner", "A"))
    ask(simulator, prompt("implementer", "A", 2), stream=True)
    ask(simulator, prompt("implementer", "A", 2), stream=True)
    ask(simulator, "nobody")
    ask(simulator, temperature=1)
    send(simulator, "GET", "/v1/models/claude-opus-5-5")
    stats = simulator.stats()
    assert stats.requests == {"POST /v1/messages": 5, "GET /v1/models/{id}": 1}
    assert stats.statuses == {"200": 5, "400": 1}
    assert stats.calls == {"planner A 1": 1, "implementer A 2": 2, "anybody - 1": 1}
    assert sorted(stats.answered.values()) == [1, 1, 2]
    assert stats.tokens["output_tokens"] > 0
    over_http = send(simulator, "GET", "/_simulator/stats").json
    assert over_http["calls"] == stats.calls
    assert over_http["requests"]["GET /_simulator/stats"] == 1
    assert [entry["caller"] for entry in send(simulator, "GET", "/_simulator/log").json] == [
        entry.caller for entry in simulator.log
    ]
    assert [entry.arrival for entry in simulator.log] == [0, 0, 1, 0]


def test_counting_tokens(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate()
    body = request("x" * 41)
    del body["max_tokens"]
    assert send(simulator, "POST", "/v1/messages/count_tokens", body).json == {"input_tokens": 11}
    assert ask(simulator, "x" * 41).json["usage"]["input_tokens"] == 11


def test_models(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate(models=("claude-opus-5-5", "claude-haiku-5-5"))
    page = send(simulator, "GET", "/v1/models").json
    assert [model["id"] for model in page["data"]] == ["claude-opus-5-5", "claude-haiku-5-5"]
    assert page["has_more"] is False
    assert send(simulator, "GET", "/v1/models/claude-haiku-5-5").json["display_name"] == "Claude Haiku 5.5"
    assert ask(simulator, model="claude-sonnet-5-5").status == 404


def test_a_connection_serves_many_requests_even_after_refused_ones(
    simulate: Callable[..., Simulator],
) -> None:
    simulator = simulate()
    connection = connect(simulator)
    for path, status in (("/v1/messages", 200), ("/v1/nothing", 404), ("/v1/messages", 200)):
        assert send(simulator, "POST", path, request(), connection=connection).status == status
    bad = send(simulator, "POST", "/v1/messages", request(), {"anthropic-version": "1"}, connection)
    assert bad.status == 400
    assert text_of(send(simulator, "POST", "/v1/messages", request(), connection=connection))
    connection.close()


@pytest.mark.parametrize("stream", [True, False])
def test_latency_and_speed_follow_the_pace(stream: bool, simulate: Callable[..., Simulator]) -> None:
    # Fifty tokens: at a pace of 1 the first would take longer than any client here waits, and all of them longer yet.
    answers = (Answer(say="x" * 200, latency=100.0),)
    for pace, least in ((0.0025, 0.75), (0.0005, 0.15), (0.0, 0.0)):
        simulator = simulate(answers=answers, tokens_per_second=0.25, pace=pace)
        begun = time.perf_counter()
        ask(simulator, stream=stream)
        assert time.perf_counter() - begun >= least


def test_rate_limit_headers_and_the_429_behind_them(simulate: Callable[..., Simulator]) -> None:
    now = [1_800_000_000.0]
    simulator = simulate(limits=Limits(requests_per_minute=3), clock=lambda: now[0])
    seen = []
    for _ in range(3):
        response = ask(simulator)
        assert response.headers["anthropic-ratelimit-requests-limit"] == "3"
        assert response.headers["date"] == "Fri, 15 Jan 2027 08:00:00 GMT"
        seen.append(response.headers["anthropic-ratelimit-requests-remaining"])
    assert seen == ["2", "1", "0"]
    assert response.headers["anthropic-ratelimit-requests-reset"] == "2027-01-15T08:01:00.000Z"
    refused = ask(simulator)
    assert (refused.status, refused.headers["retry-after"]) == (429, "20")
    assert ask(simulator, model="claude-haiku-5-5").status == 200, "each model has limits of its own"
    now[0] += 20
    assert ask(simulator).status == 200
    assert ask(simulator).status == 429


def test_tokens_are_limited_too(simulate: Callable[..., Simulator]) -> None:
    now = [1_800_000_000.0]
    limits = Limits(input_tokens_per_minute=600, output_tokens_per_minute=60)
    simulator = simulate(limits=limits, clock=lambda: now[0], answers=(Answer(say="x" * 480),))
    first = ask(simulator, "x" * 1200)
    assert first.headers["anthropic-ratelimit-input-tokens-remaining"] == "300"
    assert first.headers["anthropic-ratelimit-output-tokens-remaining"] == "0"
    refused = ask(simulator)
    assert (refused.status, refused.headers["retry-after"]) == (429, "60")
    now[0] += 60
    assert ask(simulator).status == 200


def test_too_many_at_once_are_turned_away(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate(limits=Limits(concurrent=4), latency=600.0, pace=1.0)
    connections = [connect(simulator) for _ in range(4)]
    for connection in connections:
        connection.request("POST", "/v1/messages", json.dumps(request()), HEADERS)
    assert simulator.wait(lambda stats: stats.in_flight == 4)
    assert ask(simulator).status == 529
    connections[0].close()
    assert simulator.wait(lambda stats: stats.in_flight == 3)
    connections[0].request("POST", "/v1/messages", json.dumps(request()), HEADERS)  # it opens again by itself
    assert simulator.wait(lambda stats: stats.in_flight == 4), "there is room for the next"
    for connection in connections:
        connection.close()
    assert simulator.wait(lambda stats: stats.in_flight == 0)


def test_a_client_that_hangs_up_frees_its_place(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate(latency=600.0, pace=1.0)
    connection = connect(simulator)
    connection.request("POST", "/v1/messages", json.dumps(request()), HEADERS)
    assert simulator.wait(lambda stats: stats.in_flight == 1)
    connection.close()
    assert simulator.wait(lambda stats: stats.in_flight == 0)
    stats = simulator.stats()
    assert (stats.abandoned, stats.answered) == (1, {})


def test_a_stop_ends_every_thread_whatever_it_does() -> None:
    before = threading.active_count()
    simulator = Simulator(Scenario(latency=600.0)).start()
    connections = [connect(simulator) for _ in range(5)]
    for connection in connections[:3]:
        connection.request("POST", "/v1/messages", json.dumps(request(stream=True)), HEADERS)
    send(simulator, "GET", "/v1/models", connection=connections[3])
    assert simulator.wait(lambda stats: stats.in_flight == 3)
    simulator.stop()  # with answers under way that would take ten minutes
    simulator.stop()
    assert simulator.stats().in_flight == 0
    for connection in connections:
        connection.close()
    deadline = time.monotonic() + 30
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_a_simulator_that_never_started_stops_too() -> None:
    simulator = Simulator()
    assert simulator.url.startswith("http://127.0.0.1:")
    simulator.stop()


def test_a_taken_port_is_a_usage_error(simulate: Callable[..., Simulator]) -> None:
    port = int(simulate().url.rpartition(":")[2])
    with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{port}"):
        Simulator(port=port)


def test_many_connections_at_once(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate()
    with ThreadPoolExecutor(64) as pool:
        answers = list(pool.map(lambda n: ask(simulator, prompt("judge", f"T-{n}")).status, range(256)))
    assert answers == [200] * 256
    assert set(simulator.stats().answered.values()) == {1}


def test_a_fault_of_its_own_is_told_to_the_client(
    simulate: Callable[..., Simulator], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "folder" / "batches.jsonl"
    simulator = simulate(batch_file=file)
    batch = {"requests": [{"custom_id": "a", "params": request()}]}
    response = send(simulator, "POST", "/v1/messages/batches", batch)
    assert response.status == 500
    assert "the simulator failed: StoreError" in response.json["error"]["message"]
    assert str(file) in response.json["error"]["message"]
    assert simulator.stats().faults == {"of the simulator itself": 1}
    assert capfd.readouterr() == ("", "")
