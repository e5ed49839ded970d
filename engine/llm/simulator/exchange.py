"""One request and its answer on a socket, with the few ways an answer can be given or spoiled."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, NoReturn, cast
from urllib.parse import parse_qsl, urlsplit

from engine.llm.simulator.wire import Json, Refusal, encode, invalid

if TYPE_CHECKING:
    from engine.llm.simulator.server import HttpServer

MAX_MESSAGE_BYTES = 32 * 1024 * 1024  # of one request's body, as at the service
MAX_BATCH_BYTES = 256 * 1024 * 1024  # the same for a batch


class ClientGoneError(Exception):
    """The client closed the connection, or the server is stopping."""


class HangUp(Exception):  # noqa: N818 - an order, not a fault
    """Close the connection now, whatever has been sent; with `reset`, as a crash closes it."""

    def __init__(self, *, reset: bool = False) -> None:
        super().__init__()
        self.reset = reset


class Exchange(BaseHTTPRequestHandler):
    """The standard library's handler, speaking HTTP/1.1 with connections kept alive."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body leave in one piece; streams are flushed by hand
    timeout = None

    request_id = ""
    status = 0  # of the answer to the present request, 0 while there is none

    def setup(self) -> None:
        """Register the connection, so that a stop reaches it."""
        super().setup()
        self._home.opened(self.connection)

    def finish(self) -> None:
        """Forget the connection."""
        try:
            super().finish()
        except OSError:
            pass  # the client went before the last bytes
        finally:
            self._home.closed(self.connection)

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Answer any method: which one it is is the service's business, and so is saying no."""
        if name.startswith("do_"):
            return self._answer
        raise AttributeError(name)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the counters tell all there is."""

    @property
    def route(self) -> str:
        """The path without its query and without a slash at the end."""
        return urlsplit(self.path).path.rstrip("/")

    @property
    def query(self) -> dict[str, str]:
        """The query's parameters."""
        return dict(parse_qsl(urlsplit(self.path).query))

    @property
    def lower_headers(self) -> dict[str, str]:
        """The request's headers by lower-case name."""
        return {name.lower(): value for name, value in self.headers.items()}

    @property
    def base_url(self) -> str:
        """The address the client knows us by."""
        return f"http://{self.headers.get('host') or self._home.address}"

    def read_body(self, most: int) -> bytes:
        """Read the body. Raises `Refusal` when it has no length or more than `most` bytes."""
        length = self.headers.get("content-length", "")
        if not length.isdigit():
            self.close_connection = True
            raise invalid("content-length: header is required")
        if int(length) > most:
            self.close_connection = True
            raise Refusal("request_too_large", f"Request exceeds the maximum size of {most} bytes")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise ClientGoneError
        return body

    def send(
        self,
        status: int,
        body: bytes,
        headers: dict[str, str] | None = None,
        *,
        kind: str = "application/json",
    ) -> None:
        """Send a whole answer."""
        self._head(status, kind, {"content-length": str(len(body))} | (headers or {}))
        self.wfile.write(body)
        self._flush()

    def send_json(self, status: int, value: Json, headers: dict[str, str] | None = None) -> None:
        """Send a whole answer as JSON."""
        self.send(status, encode(value), headers)

    def send_part(
        self, body: bytes, part: int, headers: dict[str, str], *, kind: str = "application/json"
    ) -> NoReturn:
        """Send the head of an answer and only the first bytes of its body, then hang up."""
        self._head(200, kind, {"content-length": str(len(body))} | headers)
        self.wfile.write(body[:part])
        self._flush()
        raise HangUp

    def begin_stream(self, headers: dict[str, str]) -> None:
        """Send the head of a streamed answer."""
        stream = {"transfer-encoding": "chunked", "cache-control": "no-cache"}
        self._head(200, "text/event-stream; charset=utf-8", stream | headers)

    def write(self, data: bytes) -> None:
        """Send one piece of a streamed answer."""
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self._flush()

    def end_stream(self) -> None:
        """End a streamed answer in good order."""
        self.wfile.write(b"0\r\n\r\n")
        self._flush()

    def pause(self, seconds: float) -> None:
        """Wait. Raises `ClientGoneError` as soon as nobody waits for the answer any more."""
        end = time.monotonic() + seconds
        watch = select.poll()
        watch.register(self.connection, select.POLLIN)
        while (left := end - time.monotonic()) > 0:
            if not watch.poll(left * 1000):
                return
            if not self.connection.recv(1, socket.MSG_PEEK):
                raise ClientGoneError
            time.sleep(min(left, 0.05))  # the client sends ahead: it is there, so only the time matters

    def stall(self) -> None:
        """Send nothing more until the client gives up."""
        while True:
            self.pause(3600)

    @property
    def _home(self) -> HttpServer:
        return cast("HttpServer", self.server)

    def _answer(self) -> None:
        try:
            self._home.service.handle(self)
        except HangUp as order:
            self.close_connection = True
            if order.reset:
                self._home.reset(self.connection)
        except (ClientGoneError, ConnectionError, TimeoutError):
            self.close_connection = True

    def _head(self, status: int, kind: str, headers: dict[str, str]) -> None:
        self.status = status
        self._home.service.counters.count("statuses", str(status))
        self.send_response_only(status)
        self.send_header("date", formatdate(self._home.service.clock(), usegmt=True))
        self.send_header("content-type", kind)
        self.send_header("request-id", self.request_id)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _flush(self) -> None:
        try:
            self.wfile.flush()
        except (OSError, ValueError) as error:
            raise ClientGoneError from error
