"""The dashboard in a browser: a server that starts one watching dashboard for each page that is opened.

    serve("taskyard watch", title="taskyard", host="127.0.0.1", port=8000)

It needs the extra `serve`, so nothing imports it before it is asked for. Other hosts cannot reach it, and neither can
pages of other sites that the same browser shows: they could read everything that the dashboard does.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psutil
from aiohttp import web
from textual_serve.server import Server

if TYPE_CHECKING:
    from aiohttp.typedefs import Middleware

LOOPBACK = ("127.0.0.1", "localhost", "::1")
PATIENCE = 3.0
"""Seconds that open pages get to end when the server ends."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _WatchServer(Server):  # type: ignore[misc, unused-ignore]
    def __init__(self, command: str, title: str, address: str) -> None:
        super().__init__(command, title=title, public_url=address)

    async def on_startup(self, app: web.Application) -> None:
        """Say nothing: the command has said where it is."""

    async def _make_app(self) -> web.Application:
        app = await super()._make_app()
        app.middlewares.append(_only_for(self.public_url))
        return app


def _only_for(address: str) -> Middleware:
    """Let only pages of this server in, under a name of this machine."""
    here = urlsplit(address)

    @web.middleware  # type: ignore[misc, unused-ignore]
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        asked = urlsplit(f"http://{request.host}")
        origin = request.headers.get("Origin")
        foreign = origin is not None and not _is_here(urlsplit(origin).netloc, here.port)
        if foreign or not _is_here(asked.netloc, here.port):
            raise web.HTTPForbidden(text=f"taskyard serves this machine only: open {address}\n")
        if request.path == "/" and asked.hostname != here.hostname:
            raise web.HTTPFound(address)  # the page loads its parts from that address
        return await handler(request)

    return guard


def _is_here(place: str, port: int | None) -> bool:
    try:
        parts = urlsplit(f"//{place}")
        return parts.hostname in LOOPBACK and (parts.port or 80) == (port or 80)
    except ValueError:
        return False


def serve(command: str, *, title: str, listening: socket.socket) -> None:
    """Serve the command, a dashboard, on a socket that listens, until SIGINT or SIGTERM; leaves no child behind."""
    host, port = listening.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    server = _WatchServer(command, title, address)
    # A dashboard that ends after the loop is waited for below; asyncio would warn of it.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    try:
        web.run_app(
            server._make_app(), sock=listening, print=None, access_log=None, shutdown_timeout=PATIENCE
        )
    finally:
        children = psutil.Process().children(recursive=True)
        _, alive = psutil.wait_procs(children, PATIENCE)
        for child in alive:
            child.kill()
