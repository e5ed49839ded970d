"""Both places where locks are kept, each real."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.locks import LockStore, open_locks
from tests.locks.servers import Server


@dataclass(frozen=True)
class Place:
    url: str
    file: Path

    def open(self) -> LockStore:
        return open_locks(self.url or None, self.file)


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("server"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server that this test may kill; what it acknowledged is on disk."""
    server = Server(tmp_path, durable=True)
    server.start()
    yield server
    server.kill()


@pytest.fixture(params=["file", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    file = tmp_path / "locks.db"
    if request.param == "file":
        return Place("", file)
    return Place(request.getfixturevalue("shared_server").url, file)


@pytest.fixture
async def store(place: Place) -> AsyncIterator[LockStore]:
    store = place.open()
    yield store
    await store.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A lock of this test alone, with what a name may hold."""
    return f"{request.node.name} {{ä}}:1"
