"""A plain HTTP client for the simulator: what goes over the wire, without any SDK in between."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from engine.llm.simulator import Simulator

HEADERS = {
    "authorization": "Bearer any-key",
    "anthropic-version": "2026-10-21",
    "content-type": "application/json",
}
TOOL_NAMES = ("edit_file", "list_files", "read_file", "run_check", "search", "write_file")
TOOLS = [{"name": name, "input_schema": {"type": "object"}} for name in TOOL_NAMES]


@dataclass(frozen=True, slots=True)
class Response:
    """An answer; `headers` by lower-case name."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[tuple[str, Any]]:
        """The events of a stream."""
        assert self.headers["content-type"].startswith("text/event-stream")
        found = []
        for block in self.body.decode().split("\n\n"):
            if block:
                name, data = block.split("\n")
                found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
        return found


def connect(simulator: Simulator) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(simulator.url).netloc, timeout=40)


def send(
    simulator: Simulator,
    method: str,
    path: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
    connection: http.client.HTTPConnection | None = None,
) -> Response:
    """Send one request and read the whole answer; a broken one raises what http.client raises."""
    own = connection or connect(simulator)
    try:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        own.request(method, path, data, HEADERS | (headers or {}))
        response = own.getresponse()
        return Response(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    finally:
        if connection is None:
            own.close()


def request(text: str = "Hello", **fields: Any) -> dict[str, Any]:
    """The body of a message call."""
    return {
        "model": "claude-opus-5-5",
        "max_tokens": 1000,
        "messages": [{"role": "user", "content": text}],
    } | fields


def prompt(role: str, task: str, attempt: int = 1, *more: str) -> str:
    """A prompt that says whose call it is, as the engine's prompts do."""
    return "\n".join((f"Role: {role}", f"Task: {task}", f"Attempt: {attempt}", "", *more))


def ask(simulator: Simulator, text: str = "Hello", **fields: Any) -> Response:
    """Make a message call."""
    return send(simulator, "POST", "/v1/messages", request(text, **fields))


def text_of(response: Response) -> str:
    """The text of a whole message."""
    assert response.status == 200, response.body
    return "".join(block["text"] for block in response.json["content"] if block["type"] == "text")
