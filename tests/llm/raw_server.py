"""A server that answers every request with bytes of the test's choosing: for endpoints that are not what they seem."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Self

RawAnswer = tuple[int, str, str]


class RawServer:
    """`answers(...)` sets what each request gets in turn; the last one is repeated."""

    def __init__(self) -> None:
        self.authorizations: list[str] = []
        self.paths: list[str] = []
        self._answers: list[RawAnswer] = []
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def answers(self, *answers: RawAnswer) -> None:
        self._answers = list(answers)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            lines = head.split("\r\n")
            headers = {
                k.lower(): v.strip() for k, v in (line.split(":", 1) for line in lines[1:] if ":" in line)
            }
            await reader.readexactly(int(headers.get("content-length", "0")))
            self.paths.append(lines[0].split()[1])
            self.authorizations.append(headers.get("authorization", ""))
            status, kind, body = self._answers[0] if len(self._answers) == 1 else self._answers.pop(0)
            data = body.encode()
            writer.write(
                f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\n"
                "connection: close\r\n\r\n".encode()
                + data
            )
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


def sse(
    text: str = "", *, tool: str = "", model: str = "claude-opus-5-5", stop_reason: str = "end_turn"
) -> RawAnswer:
    """Give a streamed answer of one block: some text, or the JSON input of a tool."""
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta = {"type": "text_delta", "text": text}
    if tool:
        block = {"type": "tool_use", "id": "toolu_1", "name": "write_file", "input": {}}
        delta = {"type": "input_json_delta", "partial_json": tool}
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason, "stop_sequence": None},
            "usage": {"output_tokens": 5},
        },
        {"type": "message_stop"},
    ]
    body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return 200, "text/event-stream", body
