"""`locks`, and what `doctor` says of a lock server, over real locks."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.locks import DistributedLock, open_locks
from engine.paths import StatePaths
from engine.store.owner import Owner
from tests.cli.taskyard import taskyard
from tests.locks.servers import Server
from tests.sample_repository import SampleRepository
from tests.samples import record, short_run
from tui.cli import main

Repo = Callable[..., SampleRepository]
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("server"))
    server.start()
    yield server
    server.kill()


def held(url: str | None, root: Path, *args: str) -> int:
    """Run the command while this process holds the lock `landing:main`; gives the lock's token."""

    async def hold() -> int:
        store = open_locks(url, StatePaths.of(root / ".git", os.environ).locks_db)
        async with DistributedLock(store, "landing:main", lease=30) as lock:
            assert await asyncio.to_thread(main, args) == 0
            token = lock.token
        await store.close()
        return token

    return asyncio.run(hold())


def test_looking_makes_nothing(root: Path, capsys: Capture) -> None:
    assert main(["locks"]) == 0
    assert capsys.readouterr().out == "nothing is locked\n"
    assert main(["locks", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert not (root / ".git" / "taskyard").exists()


@pytest.mark.parametrize("kind", ["file", "redis"])
def test_holders_are_listed(
    root: Path, server: Server, kind: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.url if kind == "redis" else None
    if url is not None:
        monkeypatch.setenv("TASKYARD_LOCKS_URL", url)
    token = held(url, root, "locks", "--json")
    [report] = json.loads(capsys.readouterr().out)
    assert (report["name"], report["pid"], report["token"]) == ("landing:main", os.getpid(), token)
    assert 0 <= report["age_s"] < 20
    assert 0 < report["lease_left_s"] <= 30
    token = held(url, root, "locks")
    header, line = capsys.readouterr().out.splitlines()
    assert header.split()[:3] == ["Lock", "Host", "Process"]
    assert line.split()[0] == "landing:main"
    assert line.split()[-1] == str(token)


def test_a_live_run_is_listed_and_an_ended_one_is_not(root: Path, capsys: Capture) -> None:
    record(root, short_run()[:-1], owner=Owner.of_this_process())
    assert main(["locks", "--json"]) == 0
    [report] = json.loads(capsys.readouterr().out)
    assert (report["name"], report["pid"], report["token"]) == ("run tasks/board.md", os.getpid(), None)
    record(root, short_run(), run="r2", owner=Owner.of_this_process())
    assert main(["locks", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 1


def test_a_server_that_is_away_is_said_clearly(
    root: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKYARD_LOCKS_URL", "redis://:secret@127.0.0.1:1")
    assert main(["locks"]) == 1
    said = capsys.readouterr().err
    assert "127.0.0.1:1 does not answer" in said
    assert "secret" not in said


def test_doctor_measures_the_server(root: Path, server: Server) -> None:
    said = taskyard("doctor", at=root, environ={"TASKYARD_LOCKS_URL": server.url})
    answers, clock = [line for line in said.out.splitlines() if line[2:8] == "locks "]
    assert " answers in " in answers
    assert answers.startswith(("✓", "!"))  # a busy machine may be slow
    assert "its clock is 0." in clock
    assert clock.startswith("✓")


def test_doctor_finds_the_server_away(root: Path) -> None:
    said = taskyard("doctor", at=root, environ={"TASKYARD_LOCKS_URL": "redis://127.0.0.1:1"})
    assert said.status == 1
    [line] = [line for line in said.out.splitlines() if line[2:8] == "locks "]
    assert line.startswith("✗")
    assert "does not answer" in line


def test_without_the_redis_package_the_extra_is_named(root: Path, tmp_path: Path) -> None:
    """A module of that name that fails to import stands in for a package that is not there."""
    (tmp_path / "redis").mkdir()
    (tmp_path / "redis" / "__init__.py").write_text("raise ImportError('not installed')\n")
    paths = os.pathsep.join((str(tmp_path), str(Path(__file__).parents[2])))
    said = taskyard(
        "locks", at=root, environ={"TASKYARD_LOCKS_URL": "redis://127.0.0.1", "PYTHONPATH": paths}
    )
    shutil.rmtree(tmp_path / "redis")
    assert said.status == 2
    assert "pip install 'taskyard[redis]'" in said.err
