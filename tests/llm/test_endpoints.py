"""Endpoints as they are met: gateways, pages that are no answers, a server on this machine, a key that never shows."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from engine.errors import (
    AuthenticationError,
    ConnectionFailedError,
    RequestRejectedError,
    ServiceError,
    SettingsError,
)
from engine.llm.client import ModelClient
from engine.llm.endpoint import is_loopback
from engine.llm.retries import RetryPolicy
from engine.llm.simulator import Scenario
from tests.llm.conftest import KEY, Connect, Simulate, request
from tests.llm.raw_server import RawServer, sse
from tests.ports import Port

ONCE = RetryPolicy(attempts=1, patience=0.0)


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


async def test_the_check_tells_the_models_and_what_is_wrong(simulate: Simulate, connect: Connect) -> None:
    assert "claude-opus-5-5" in await connect(simulate().url).check()
    locked = simulate(Scenario(api_key="another"))
    with pytest.raises(AuthenticationError, match="ANTHROPIC_API_KEY"):
        await connect(locked.url).check()
    port = Port()
    with pytest.raises(ConnectionFailedError, match="base_url"):
        await connect(f"http://127.0.0.1:{port.number}").check()


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
