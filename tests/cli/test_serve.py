"""`watch --serve` with the real server: a page, a websocket with the dashboard, an end that leaves nothing."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import psutil
import pytest

from engine.store.owner import Owner
from tests import forked
from tests.cli.taskyard import PROGRAM, taskyard
from tests.cli.test_look import environment
from tests.sample_repository import SampleRepository
from tests.samples import record, short_run

Repo = Callable[..., SampleRepository]


@pytest.fixture
def root(repo: Repo) -> Path:
    """A repository with a run that another process seems to be at."""
    path = repo().path
    record(path, short_run()[:-1], owner=Owner.of_this_process())
    return path


@asynccontextmanager
async def served(root: Path) -> AsyncIterator[tuple[subprocess.Popen[str], str]]:
    """The server as a process, and its address."""
    server = forked.Popen(
        [*PROGRAM, "watch", "--serve", "--port", "0"],
        cwd=root,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    try:
        said = await asyncio.to_thread(server.stdout.readline)
        assert said.startswith("serving at http://127.0.0.1:")
        yield server, said.split()[2].rstrip(",")
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


async def test_the_dashboard_is_seen_in_a_browser_and_goes_with_the_server(root: Path) -> None:
    async with served(root) as (server, address), aiohttp.ClientSession() as browser:
        async with browser.get(address) as page:
            assert page.status == 200
            assert "data-session-websocket-url" in await page.text()
        async with browser.ws_connect(f"{address}/ws?width=100&height=50", origin=address) as socket:
            await socket.send_json(["resize", {"width": 100, "height": 50}])
            await _until_shown(socket, "WATCH")
            await socket.send_json(["stdin", "?"])
            shown = await _until_shown(socket, "Watch another run")
            assert "Drain" not in shown
            children = psutil.Process(server.pid).children(recursive=True)
            assert children
            server.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(server.wait, 90) == 0
            assert psutil.wait_procs(children, 30)[1] == []


async def _until_shown(socket: aiohttp.ClientWebSocketResponse, words: str) -> str:
    shown = ""
    async with asyncio.timeout(90):
        while words not in shown:
            message = await socket.receive()
            assert message.type is aiohttp.WSMsgType.BINARY, f"{message} after {shown[-500:]}"
            shown += message.data.decode(errors="replace")
    return shown


async def test_pages_of_other_sites_and_names_of_other_hosts_are_refused(root: Path) -> None:
    async with served(root) as (_, address), aiohttp.ClientSession() as browser:
        port = address.rpartition(":")[2]
        for headers in (
            {"Origin": "http://evil.example"},
            {"Origin": "http://localhost:1"},
            {"Host": f"evil.example:{port}"},
        ):
            async with browser.get(f"{address}/ws", headers=headers) as refused:
                assert refused.status == 403
                assert address in await refused.text()
        async with browser.get(f"http://localhost:{port}/", allow_redirects=False) as moved:
            assert (moved.status, moved.headers["Location"]) == (302, address)


@pytest.mark.parametrize("host", ["0.0.0.0", "example.org", "192.168.0.7"])
def test_other_hosts_are_refused_with_a_way_that_is_safe(root: Path, host: str) -> None:
    said = taskyard("watch", "--serve", "--host", host, at=root)
    assert (said.status, said.out) == (2, "")
    assert (
        f"served on this machine only, not on {host}: reach it from another one through a tunnel" in said.err
    )


@pytest.mark.parametrize("option", [("--port", "0"), ("--host", "localhost")])
def test_a_place_to_serve_at_without_serving_is_told(root: Path, option: tuple[str, str]) -> None:
    said = taskyard("watch", *option, at=root)
    assert (said.status, "add --serve" in said.err) == (2, True)


async def test_a_port_that_is_taken_is_told(root: Path) -> None:
    async with served(root) as (_, address):
        port = address.rpartition(":")[2]
        said = await asyncio.to_thread(taskyard, "watch", "--serve", "--port", port, at=root)
    assert (said.status, said.err.startswith(f"taskyard: port {port} cannot be used (")) == (2, True)


def test_without_the_extra_the_command_to_install_it_is_told(root: Path) -> None:
    hidden = "import sys; sys.modules['textual_serve'] = None; from tui.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", hidden, "watch", "--serve"],
        cwd=root,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr == (
        "taskyard: serving to a browser needs textual-serve, which is not installed: "
        "install it with: pip install 'taskyard[serve]'\n"
    )
