"""Wrong requests fail at the simulator as they would at the service."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.llm.simulator import Simulator
from engine.llm.simulator.models import MODELS
from engine.llm.simulator.turns import signature
from engine.llm.simulator.validation import check_batch, check_message
from engine.llm.simulator.wire import Refusal
from tests.simulator.wire import HEADERS, TOOLS, request, send

MARK = {"type": "ephemeral"}
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}


def turn(role: str, *blocks: Any) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


def text(words: str = "words", **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **fields}


def use(id: str = "t1") -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "search", "input": {}}


def result(id: str = "t1", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": "found", **fields}


def output(schema: Any) -> dict[str, Any]:
    return {"format": {"type": "json_schema", "schema": schema}}


GOOD: dict[str, dict[str, Any]] = {
    "the least": request(),
    "blocks and a system prompt": request(
        system=[text(cache_control={"type": "ephemeral", "ttl": "1h"})],
        messages=[turn("user", text(cache_control=MARK), text())],
    ),
    "a tool loop": request(
        tools=TOOLS,
        tool_choice={"type": "auto"},
        messages=[turn("user", text()), turn("assistant", text(), use()), turn("user", result(), text())],
    ),
    "two tools at once": request(
        tools=TOOLS,
        messages=[
            turn("user", text()),
            turn("assistant", use("a"), use("b")),
            turn("user", result("b", is_error=True), result("a")),
        ],
    ),
    "thinking sent back": request(
        thinking={"type": "adaptive"},
        messages=[
            turn("user", text()),
            turn("assistant", {"type": "thinking", "thinking": "hm", "signature": signature("hm")}, text()),
            turn("user", text()),
        ],
    ),
    "a thinking budget": request(thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=1025),
    "structured output": request(output_config=output(SCHEMA) | {"effort": "high"}),
    "a schema with references": request(
        output_config=output(
            {
                "type": "object",
                "properties": {
                    "one": {"$ref": "#/$defs/One"},
                    "many": {"type": "array", "items": {"$ref": "#/$defs/One"}},
                },
                "additionalProperties": False,
                "$defs": {"One": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
            }
        )
    ),
    "four cache marks": request(messages=[turn("user", *[text(cache_control=MARK)] * 4)]),
    "stop sequences and metadata": request(stop_sequences=["END"], metadata={"user_id": "u1"}, stream=True),
}

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no max_tokens": (
        {k: v for k, v in request().items() if k != "max_tokens"},
        "max_tokens: Field required",
    ),
    "no model": ({k: v for k, v in request().items() if k != "model"}, "model: Field required"),
    "no messages": ({k: v for k, v in request().items() if k != "messages"}, "messages: Field required"),
    "temperature": (request(temperature=0), "temperature: Extra inputs"),
    "top_p": (request(top_p=0.9), "top_p: Extra inputs"),
    "top_k": (request(top_k=5), "top_k: Extra inputs"),
    "a misspelt field": (request(sytem="be brief"), "sytem: Extra inputs"),
    "max_tokens of zero": (request(max_tokens=0), "max_tokens: Input should be greater"),
    "max_tokens as text": (request(max_tokens="9"), "max_tokens: Input should be greater"),
    "max_tokens as a switch": (request(max_tokens=True), "max_tokens: Input should be greater"),
    "stream as text": (request(stream="yes"), "stream: Input should be a valid boolean"),
    "an unknown model": (request(model="claude-3"), "model: claude-3"),
    "no turns": (request(messages=[]), "at least one"),
    "the model first": (
        request(messages=[turn("assistant", text()), turn("user", text())]),
        "roles must alternate",
    ),
    "two user turns": (
        request(messages=[turn("user", text()), turn("user", text())]),
        "roles must alternate",
    ),
    "a prefilled answer": (request(messages=[turn("user", text()), turn("assistant", text())]), "prefill"),
    "an empty turn": (request(messages=[turn("user")]), "at least one content block"),
    "an empty text": (request(messages=[turn("user", text(""))]), "must be non-empty"),
    "an empty string": (request(""), "must be non-empty"),
    "an unknown block": (request(messages=[turn("user", {"type": "video"})]), "'video' is not allowed"),
    "a name in a turn": (
        request(messages=[turn("user", text()) | {"name": "x"}]),
        "exactly role and content",
    ),
    "a result nobody asked for": (
        request(tools=TOOLS, messages=[turn("user", result())]),
        "unexpected `tool_use_id`",
    ),
    "a tool without result": (
        request(tools=TOOLS, messages=[turn("user", text()), turn("assistant", use()), turn("user", text())]),
        "without `tool_result`",
    ),
    "one of two results": (
        request(
            tools=TOOLS,
            messages=[turn("user", text()), turn("assistant", use("a"), use("b")), turn("user", result("a"))],
        ),
        "without `tool_result`",
    ),
    "a result twice": (
        request(
            tools=TOOLS,
            messages=[turn("user", text()), turn("assistant", use()), turn("user", result(), result())],
        ),
        "single result",
    ),
    "words before the result": (
        request(
            tools=TOOLS,
            messages=[turn("user", text()), turn("assistant", use()), turn("user", text(), result())],
        ),
        "must come before",
    ),
    "a result of another turn": (
        request(
            tools=TOOLS,
            messages=[
                turn("user", text()),
                turn("assistant", use("a")),
                turn("user", result("a")),
                turn("assistant", text()),
                turn("user", result("a")),
            ],
        ),
        "unexpected `tool_use_id`",
    ),
    "a conversation with tools and none offered": (
        request(messages=[turn("user", text()), turn("assistant", use()), turn("user", result())]),
        "must have tools defined",
    ),
    "two tools of one name": (request(tools=[TOOLS[0], TOOLS[0]]), "must be unique"),
    "a tool name with a space": (request(tools=[TOOLS[0] | {"name": "a b"}]), "should match pattern"),
    "a tool without schema": (request(tools=[{"name": "a"}]), "input_schema"),
    "a choice without tools": (request(tool_choice={"type": "any"}), "while providing tools"),
    "a choice of no tool": (request(tools=TOOLS, tool_choice={"type": "tool", "name": "x"}), "not found"),
    "five cache marks": (
        request(messages=[turn("user", *[text(cache_control=MARK)] * 5)]),
        "maximum of 4 blocks",
    ),
    "a cache mark of another kind": (
        request(messages=[turn("user", text(cache_control={"type": "ephemeral", "ttl": "2h"}))]),
        "'5m' or '1h'",
    ),
    "an hour after five minutes": (
        request(
            system=[text(cache_control=MARK)],
            messages=[turn("user", text(cache_control={"type": "ephemeral", "ttl": "1h"}))],
        ),
        "must not come after",
    ),
    "a mark on blank text": (
        request(messages=[turn("user", text(" ", cache_control=MARK))]),
        "empty text blocks",
    ),
    "little thinking": (
        request(thinking={"type": "enabled", "budget_tokens": 1023}, max_tokens=2000),
        "1024",
    ),
    "more thinking than answer": (
        request(thinking={"type": "enabled", "budget_tokens": 2000}, max_tokens=2000),
        "must be greater than",
    ),
    "thinking that was changed": (
        request(
            messages=[
                turn("user", text()),
                turn("assistant", {"type": "thinking", "thinking": "ha", "signature": signature("hm")}),
                turn("user", text()),
            ]
        ),
        "Invalid `signature`",
    ),
    "an open object": (
        request(output_config=output({"type": "object", "properties": {}})),
        "additionalProperties",
    ),
    "a bounded number": (
        request(
            output_config=output(SCHEMA | {"properties": {"a": {"type": "integer", "minimum": 1}}}),
        ),
        "'minimum' is not supported",
    ),
    "a schema that contains itself": (
        request(
            output_config=output(
                {"$ref": "#/$defs/N", "$defs": {"N": SCHEMA | {"properties": {"a": {"$ref": "#/$defs/N"}}}}}
            )
        ),
        "recursive",
    ),
    "a required field that is not there": (
        request(output_config=output(SCHEMA | {"required": ["b"]})),
        "names no property",
    ),
    "an unknown effort": (request(output_config={"effort": "extreme"}), "effort"),
    "a blank stop sequence": (request(stop_sequences=["\n"]), "non-whitespace"),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_requests_pass(name: str) -> None:
    check_message(GOOD[name], MODELS)


@pytest.mark.parametrize("name", BAD)
def test_wrong_requests_are_refused_with_a_reason(name: str) -> None:
    params, reason = BAD[name]
    with pytest.raises(Refusal) as refused:
        check_message(params, MODELS)
    assert reason in refused.value.message
    assert refused.value.status == (404 if name == "an unknown model" else 400)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2000) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "text",
                    "role",
                    "content",
                    "name",
                    "id",
                    "input",
                    "tool_use_id",
                    "cache_control",
                    "schema",
                    "ttl",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=400, deadline=None)
@given(
    field=st.sampled_from(
        sorted(request(system="", tools=[], thinking={}, output_config={}, tool_choice={}))
    ),
    value=JSON,
)
def test_no_body_breaks_the_checks(field: str, value: Any) -> None:
    for known in (request(), GOOD["a tool loop"], GOOD["thinking sent back"]):
        with contextlib.suppress(Refusal):  # anything else is a crash of the server
            check_message(known | {field: value}, MODELS)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "requests: Field required"),
        ({"requests": []}, "1 to 100000 items"),
        ({"requests": [{"custom_id": "a", "params": {}}], "priority": 1}, "priority: Extra inputs"),
        ({"requests": [{"params": {}}]}, "exactly custom_id and params"),
        ({"requests": [{"custom_id": "a b", "params": {}}]}, "should match pattern"),
        ({"requests": [{"custom_id": "a" * 65, "params": {}}]}, "should match pattern"),
        ({"requests": [{"custom_id": "", "params": {}}]}, "should match pattern"),
        ({"requests": [{"custom_id": "a\n", "params": {}}]}, "should match pattern"),
        ({"requests": [{"custom_id": "a", "params": {}}] * 2}, "not unique"),
        ({"requests": [{"custom_id": "a", "params": []}]}, "valid dictionary"),
    ],
)
def test_wrong_batches_are_refused(body: Any, reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        check_batch(body)
    assert reason in refused.value.message


def test_what_a_batch_item_may_not_have() -> None:
    with pytest.raises(Refusal, match="not allowed in a batch"):
        check_message(request(stream=True), MODELS, batch=True)
    check_message(request(), MODELS, batch=True)


@pytest.mark.parametrize(
    ("headers", "status", "kind"),
    [
        ({"authorization": ""}, 401, "authentication_error"),
        ({"authorization": "Basic abc"}, 401, "authentication_error"),
        ({"anthropic-version": "2023-06-01"}, 400, "invalid_request_error"),
        ({"anthropic-version": ""}, 400, "invalid_request_error"),
        ({"content-type": "text/plain"}, 400, "invalid_request_error"),
        ({"authorization": "", "x-api-key": "k"}, 200, None),
        ({"content-type": "application/json; charset=utf-8"}, 200, None),
    ],
)
def test_headers(
    headers: dict[str, str], status: int, kind: str | None, simulate: Callable[..., Simulator]
) -> None:
    response = send(simulate(), "POST", "/v1/messages", request(), headers)
    assert response.status == status
    if kind is not None:
        body = response.json
        assert (body["type"], body["error"]["type"]) == ("error", kind)
        assert body["request_id"] == response.headers["request-id"]


def test_a_simulator_with_a_key_takes_only_that_key(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate(api_key="any-key")
    assert send(simulator, "GET", "/v1/models").status == 200
    assert send(simulator, "GET", "/v1/models", headers={"authorization": "Bearer other"}).status == 401


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/v1/messages", None, 405),
        ("PUT", "/v1/messages/batches", {}, 405),
        ("POST", "/v1/complete", {}, 404),
        ("GET", "/", None, 404),
        ("GET", "/v1/models/claude-9", None, 404),
        ("GET", "/v1/messages/batches/msgbatch_none", None, 404),
        ("GET", "/v1/messages/batches?limit=0", None, 400),
        ("GET", "/v1/messages/batches?limit=x", None, 400),
        ("GET", "/v1/messages/batches?after_id=none", None, 404),
        ("POST", "/v1/messages", b"{", 400),
        ("POST", "/v1/messages", b"[]", 400),
        ("POST", "/v1/messages", b'{"max_tokens": NaN}', 400),
        ("POST", "/v1/messages/count_tokens", {"model": "claude-opus-5-5"}, 400),
        ("POST", "/v1/messages/count_tokens", {**request()}, 400),
    ],
)
def test_wrong_calls(
    method: str, path: str, body: Any, status: int, simulate: Callable[..., Simulator]
) -> None:
    response = send(simulate(), method, path, body)
    assert response.status == status, response.body
    assert response.json["type"] == "error"


def test_a_body_that_is_too_large_is_refused_unread(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate()
    length = {"content-length": str(33 * 1024 * 1024)}
    response = send(simulator, "POST", "/v1/messages", b"", HEADERS | length)
    assert response.status == 413
    assert response.json["error"]["type"] == "request_too_large"
