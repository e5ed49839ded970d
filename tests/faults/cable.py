"""The way from a run to a service, as a wire that can be cut: a relay on a port of its own."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

from tests.ports import Port

_RESET = struct.pack("ii", 1, 0)


class Cable:
    """Carries TCP from `port` to `to`. While it is cut, its connections are reset and new ones refused."""

    def __init__(self, to: tuple[str, int]) -> None:
        self._to = to
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._port = Port()
        self.port = self._port.number
        self._listener = _listen(self.port)
        self._serve()

    def cut(self) -> None:
        """Break every connection, and take no new one."""
        _shut(self._listener)
        with self._lock:
            for end in self._open:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                _shut(end)

    def mend(self) -> None:
        """Take connections again."""
        self._listener = _listen(self.port)
        self._serve()

    def close(self) -> None:
        """End it for good. Safe to call twice."""
        self.cut()

    def _serve(self) -> None:
        threading.Thread(target=self._take, args=(self._listener,), daemon=True).start()

    def _take(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                listener.close()
                return
            threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        with near:
            try:
                far = socket.create_connection(self._to, timeout=5)
            except OSError:
                return
            far.settimeout(None)
            with far:
                with self._lock:
                    self._open |= {near, far}
                back = threading.Thread(target=_pump, args=(far, near), daemon=True)
                back.start()
                _pump(near, far)
                back.join()
                with self._lock:
                    self._open -= {near, far}


def _listen(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(64)
    return listener


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Carry one direction until it ends; then the other ends too, for both ends are one process's."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    _shut(source)
    _shut(sink)


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
