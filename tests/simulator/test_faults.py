"""Everything that can go wrong on the wire, on purpose and the same each time."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from typing import Any

import pytest

from engine.llm.simulator import Answer, Fault, RandomFaults, Scenario, Simulator
from engine.llm.simulator.faults import find_fault
from tests.simulator.wire import Response, ask, connect, prompt, request, send, text_of

LONG = (Answer(say="A sentence that takes its time. " * 20),)


def spoiled(simulator: Simulator, kind: str, *, stream: bool = False) -> Response:
    body = request(stream=stream) if stream else request()
    return send(simulator, "POST", "/v1/messages", body, {"x-simulator-fault": kind})


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("kind", "status", "type"),
    [
        ("rate_limited", 429, "rate_limit_error"),
        ("spend_limit", 429, "rate_limit_error"),
        ("overloaded", 529, "overloaded_error"),
        ("server_error", 500, "api_error"),
        ("timeout", 504, "timeout_error"),
        ("unauthorized", 401, "authentication_error"),
        ("not_found", 404, "not_found_error"),
    ],
)
def test_errors(kind: str, status: int, type: str, stream: bool, simulate: Callable[..., Simulator]) -> None:
    response = spoiled(simulate(), kind, stream=stream)
    assert (response.status, response.json["error"]["type"]) == (status, type)
    assert response.json["request_id"] == response.headers["request-id"]
    assert ("retry-after" in response.headers) is (kind == "rate_limited")
    if kind == "spend_limit":
        assert response.headers["x-should-retry"] == "false"
        assert response.json["error"]["details"] == {"error_code": "enforced_spend_limit_reached"}


@pytest.mark.parametrize("stream", [False, True])
def test_answers_that_are_none(stream: bool, simulate: Callable[..., Simulator]) -> None:
    simulator = simulate()
    html = spoiled(simulator, "html", stream=stream)
    assert (html.status, html.headers["content-type"]) == (200, "text/html")
    empty = spoiled(simulator, "empty_object", stream=stream)
    assert (empty.status, empty.json) == (200, {})


def test_broken_whole_answers(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate(answers=LONG)
    with pytest.raises(json.JSONDecodeError):
        assert spoiled(simulator, "bad_json").json
    for kind in ("dropped", "truncated"):
        with pytest.raises(http.client.IncompleteRead) as cut:
            spoiled(simulator, kind)
        assert len(cut.value.partial) > 100
    with pytest.raises(http.client.RemoteDisconnected):
        spoiled(simulator, "unanswered")
    assert spoiled(simulator, "error_event").status == 529


def test_broken_streams(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate(answers=LONG)
    whole = [name for name, _ in ask(simulator, stream=True).events]
    assert whole[0] == "message_start"
    assert whole[-1] == "message_stop"
    truncated = [name for name, _ in spoiled(simulator, "truncated", stream=True).events]
    assert truncated == whole[: len(whole) // 2]
    name, data = spoiled(simulator, "error_event", stream=True).events[-1]
    assert (name, data["error"]["type"]) == ("error", "overloaded_error")
    with pytest.raises(json.JSONDecodeError):
        assert spoiled(simulator, "bad_json", stream=True).events
    with pytest.raises((ConnectionResetError, http.client.IncompleteRead)):
        spoiled(simulator, "dropped", stream=True)


def test_a_stalled_stream_stays_silent_until_the_client_goes(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate(answers=LONG)
    connection = connect(simulator)
    connection.request(
        "POST",
        "/v1/messages",
        json.dumps(request(stream=True)),
        {
            "authorization": "Bearer k",
            "anthropic-version": "2026-10-21",
            "content-type": "application/json",
            "x-simulator-fault": "stalled",
        },
    )
    response = connection.getresponse()
    assert b"message_start" in response.readline()
    assert simulator.stats().in_flight == 1
    assert connection.sock is not None
    connection.sock.settimeout(0.2)
    with pytest.raises(TimeoutError):
        response.read()
    response.close()
    connection.close()
    assert simulator.wait(lambda stats: stats.in_flight == 0 and stats.abandoned == 1)


def test_no_fault_of_that_name(simulate: Callable[..., Simulator]) -> None:
    for kind in ("earthquake", "expired"):
        response = spoiled(simulate(), kind)
        assert response.status == 400
        assert kind in response.json["error"]["message"]


def test_a_scripted_fault_meets_the_first_tries_of_each_request(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate(faults=(Fault(kind="overloaded", role="judge", times=2),))
    for task in ("A", "B"):
        assert [ask(simulator, prompt("judge", task)).status for _ in range(4)] == [529, 529, 200, 200]
        assert ask(simulator, prompt("planner", task)).status == 200
    assert simulator.stats().faults == {"overloaded": 4}


@pytest.mark.parametrize(
    ("fault", "hits"),
    [
        ({}, {"judge A 1", "judge A 2", "judge B 1", "planner A 1"}),
        ({"task": "A"}, {"judge A 1", "judge A 2", "planner A 1"}),
        ({"task": "?", "role": "judge", "attempt": 1}, {"judge A 1", "judge B 1"}),
        ({"step": 1}, set()),
        ({"model": "claude-haiku-*"}, set()),
    ],
)
def test_what_a_fault_can_ask_for(
    fault: dict[str, Any], hits: set[str], simulate: Callable[..., Simulator]
) -> None:
    simulator = simulate(faults=(Fault(kind="server_error", **fault),))
    for role, task, attempt in (("judge", "A", 1), ("judge", "A", 2), ("judge", "B", 1), ("planner", "A", 1)):
        ask(simulator, prompt(role, task, attempt))
    assert {entry.caller for entry in simulator.log if entry.fault} == hits


def test_chance_is_the_same_for_one_seed_and_leaves_later_tries_alone() -> None:
    def drawn(seed: int, arrival: int = 0) -> list[str | None]:
        scenario = Scenario(random_faults=RandomFaults(rate=0.25, seed=seed))
        found = [find_fault(scenario, "messages", f"request {n}", arrival) for n in range(2000)]
        return [None if fault is None else fault.kind for fault in found]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    hit = [kind for kind in drawn(1) if kind]
    assert 420 < len(hit) < 580
    assert set(hit) == set(RandomFaults(rate=0).kinds)
    assert drawn(1, arrival=1) == [None] * 2000


def test_every_request_gets_through_after_its_random_faults(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate(
        random_faults=RandomFaults(rate=1.0, times=2, kinds=("overloaded", "html", "unanswered"))
    )
    for task in range(20):
        for _ in range(2):
            try:
                response = ask(simulator, prompt("judge", f"T-{task}"))
            except http.client.RemoteDisconnected:
                continue
            assert response.status == 529 or response.headers["content-type"] == "text/html"
        assert text_of(ask(simulator, prompt("judge", f"T-{task}")))
    assert set(simulator.stats().answered.values()) == {1}
    assert sum(simulator.stats().faults.values()) == 40


def test_the_log_tells_who_did_not_keep_a_pause(simulate: Callable[..., Simulator]) -> None:
    now = [1000.0]
    fault = Fault(kind="rate_limited", task="A", retry_after=2.0)
    simulator = simulate(faults=(fault,), clock=lambda: now[0])
    ask(simulator, prompt("judge", "A"))
    now[0] += 0.5
    ask(simulator, prompt("judge", "B"))
    ask(simulator, prompt("judge", "C"), model="claude-haiku-5-5")
    now[0] += 1.5
    ask(simulator, prompt("judge", "A"))
    assert [entry.paused for entry in simulator.log] == [0.0, 1.5, 0.0, 0.0]
