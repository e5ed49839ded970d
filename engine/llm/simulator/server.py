"""The HTTP server around the simulated service."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from engine.errors import UsageError
from engine.llm.simulator.counters import Logged, Stats
from engine.llm.simulator.exchange import Exchange
from engine.llm.simulator.scenario import Scenario, check_scenario
from engine.llm.simulator.service import Service

_NO_LINGER = struct.pack("ii", 1, 0)


class HttpServer(socketserver.ThreadingTCPServer):
    """One thread for each connection. Not the standard HTTPServer, which asks the resolver for its own name."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, host: str, port: int, service: Service) -> None:
        self.service = service
        self._connections: set[socket.socket] = set()
        self._changed = threading.Condition()
        self._stopping = False
        super().__init__((host, port), Exchange)

    @property
    def address(self) -> str:
        """Host and port."""
        host, port = self.server_address[:2]
        return f"{host!s}:{port}"

    def serve(self) -> None:
        """Take connections until `stop`, without ever waking up for nothing."""
        while not self._stopping:
            self.handle_request()

    def stop(self) -> None:
        """Let `serve` return: it waits for a connection, so it gets one."""
        if self._stopping:
            return
        self._stopping = True
        with contextlib.suppress(OSError):
            socket.create_connection(self.server_address[:2], timeout=1.0).close()  # type: ignore[arg-type]

    def opened(self, connection: socket.socket) -> None:
        """Note a connection."""
        with self._changed:
            self._connections.add(connection)
            if self._stopping:
                _shut(connection)

    def closed(self, connection: socket.socket) -> None:
        """Forget a connection."""
        with self._changed:
            self._connections.discard(connection)
            self._changed.notify_all()

    def reset(self, connection: socket.socket) -> None:
        """Make the connection end like that of a process that crashed: lingering for no time sends RST, not FIN."""
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection; the usual farewell would send the FIN that a reset one must not have."""
        if request.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, len(_NO_LINGER)) == _NO_LINGER:
            self.close_request(request)
        else:
            super().shutdown_request(request)

    def close_connections(self, patience: float) -> None:
        """Break all connections and wait until their threads have let go, for `patience` seconds at most."""
        with self._changed:
            for connection in self._connections:
                _shut(connection)
            self._changed.wait_for(lambda: not self._connections, patience)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing where the standard server writes to stderr: a dashboard may own the terminal.

        A client that breaks its connection between two requests is no fault of ours.
        """
        if not isinstance(sys.exception(), ConnectionError):
            self.service.counters.count("faults", "of the simulator itself")


class Simulator:
    """A simulated Messages service on a loopback port.

        with Simulator(load_scenario(path), pace=0.1) as simulator:
            client = ModelClient(simulator.url, "any key", ...)
            ...
            assert simulator.stats().requests["POST /v1/messages/batches"] == 1

    `pace` multiplies the scenario's own. Port 0 takes a free one. With a `batch_file` the batches outlive the server.
    Raises `UsageError` when the port is taken, `StoreError` when the file cannot be used.
    """

    def __init__(
        self,
        scenario: Scenario | None = None,
        port: int = 0,
        *,
        pace: float = 1.0,
        host: str = "127.0.0.1",
        clock: Callable[[], float] = time.time,
        batch_file: Path | None = None,
    ) -> None:
        scenario = scenario or Scenario()
        check_scenario(scenario)
        self._service = Service(scenario, pace, clock=clock, batch_file=batch_file)
        try:
            self._server = HttpServer(host, port, self._service)
        except OSError as error:
            raise UsageError(
                f"cannot listen on {host}:{port} ({error.strerror})", "name another port, or 0 for a free one"
            ) from error
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The base URL to give to a client; known before `start`."""
        return f"http://{self._server.address}"

    def stats(self) -> Stats:
        """Give what has been counted so far."""
        return self._service.counters.stats()

    def wait(self, wanted: Callable[[Stats], bool], patience: float = 30.0) -> bool:
        """Wait until the counts are as `wanted`, for `patience` seconds at most; gives whether they are."""
        end = time.monotonic() + patience
        while not wanted(self.stats()):
            if time.monotonic() > end:
                return False
            time.sleep(0.005)
        return True

    @property
    def log(self) -> tuple[Logged, ...]:
        """Model calls in the order of their arrival; very old ones are forgotten."""
        return self._service.counters.log

    def start(self) -> Self:
        """Serve in a thread of its own."""
        self._thread = threading.Thread(target=self.serve_forever, name="simulator", daemon=True)
        self._thread.start()
        return self

    def serve_forever(self) -> None:
        """Serve in this thread until another calls `stop`, or Ctrl-C."""
        self._server.serve()

    def stop(self) -> None:
        """Stop, breaking what is being answered; all threads have ended within two seconds. Safe to call twice."""
        self._server.stop()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._server.server_close()
        self._server.close_connections(patience=2.0)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it may have gone by itself
        connection.shutdown(socket.SHUT_RDWR)
