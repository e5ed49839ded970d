"""A port of this machine that nobody else is given, also while nobody listens on it."""

from __future__ import annotations

import socket
import sys


class Port:
    """Kept for as long as this object lives. Whoever listens on `number` must set SO_REUSEADDR, as servers do."""

    def __init__(self) -> None:
        # Bound and never listening: the kernel then picks this port for no other socket.
        self._kept = socket.socket()
        self._kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._kept.bind(("127.0.0.1", 0))
        self.number: int = self._kept.getsockname()[1]
        if sys.platform != "linux":  # elsewhere the server could not have it either
            self._kept.close()
