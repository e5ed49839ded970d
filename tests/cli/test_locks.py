"""`locks`, and what `doctor` says of a lock server, over real locks."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine import disks
from engine.figures import PeerFigures
from engine.locks import DistributedLock, open_locks
from engine.paths import StatePaths
from engine.sharing import Crew, Share, Terms
from engine.store.owner import Owner
from tests.cli.shell_agent import settings
from tests.cli.taskyard import Said, taskyard
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


@pytest.fixture
def root(root: Path) -> Path:
    """A repository where no role is a model: `doctor` need not load the SDK, which takes it seconds, to ask for one."""
    (root / "taskyard.toml").write_text(settings("true"))
    return root


def held(url: str | None, root: Path, *args: str) -> int:
    """Run the command while this process holds the lock `landing:main`; gives the lock's token."""

    async def hold() -> int:
        store = open_locks(url, StatePaths.of(root / ".git", os.environ).locks_db)
        async with DistributedLock(store, "landing:main", lease=600) as lock:
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
    assert 0 <= report["age_s"] < 300
    assert 300 < report["lease_left_s"] <= 600
    assert (report["purpose"], report["board"]) == ("landing", "main")
    token = held(url, root, "locks")
    header, line = capsys.readouterr().out.splitlines()
    assert header.split()[:3] == ["Lock", "Host", "Process"]
    assert line.split()[0] == "landing"
    assert line.split()[-1] == str(token)


def test_locks_are_named_by_what_they_are_for(root: Path, capsys: Capture) -> None:
    """Those of a real share: one that takes part, its tasks, a place under a limit, and a second board's."""

    async def hold() -> None:
        paths = StatePaths.of(root / ".git", os.environ)

        def figures(working: int) -> PeerFigures:
            return PeerFigures("h", 1, "r1", 0.0)

        async def join(board: str) -> Share:
            store = open_locks(None, paths.locks_db)
            crew = await Crew.join(store, board, figures(0), Terms(), lease=600)
            return Share(store, crew, figures, lease=600)

        shop, other = await join("a:b shop"), await join("other")
        for task in ("T10", "T2", "x:%20 y"):
            assert await shop.claim(task, lambda: None) is not None
        permit = await shop.permits("type:fix_bug", 2).take()
        async with shop.gate.hold():
            assert await asyncio.to_thread(main, ["locks"]) == 0
            assert await asyncio.to_thread(main, ["locks", "--json"]) == 0
            await other.close()
            assert await asyncio.to_thread(main, ["locks"]) == 0
        await permit.release()
        await shop.close()

    asyncio.run(hold())
    lines = capsys.readouterr().out.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("["))
    purposes = ["orchestrator", "landing", "type fix_bug, place 1", "T2", "T10", "x:%20 y"]
    with_board = [line.split("  ")[0] for line in lines[1:start]]
    assert with_board == [*(f"{purpose} of a:b shop" for purpose in purposes), "orchestrator of other"]
    assert [line.split("  ")[0] for line in lines[start + 2 :]] == purposes
    reports = json.loads(lines[start])
    assert [report["purpose"] for report in reports] == [*purposes, "orchestrator"]
    assert reports[3]["name"] == "claim:a%3Ab%20shop:T2"
    assert {report["board"] for report in reports} == {"a:b shop", "other"}


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


SHARED = {"TASKYARD_LOCKS_SHARED": "true"}


def about_locks(said: Said) -> list[str]:
    return [line for line in said.out.splitlines() if line[2:8] == "locks "]


def test_doctor_looks_at_the_file_of_the_locks(root: Path) -> None:
    file = root / ".git" / "taskyard" / "locks.db"
    assert about_locks(taskyard("doctor", at=root)) == []
    assert about_locks(taskyard("doctor", at=root, environ=SHARED)) == [
        f"✓ locks       {file}, among the runs of this host"
    ]
    assert not file.exists(), "looking must make nothing"
    file.parent.mkdir()
    file.write_text("no database at all, " * 100)
    said = taskyard("doctor", at=root, environ=SHARED)
    assert said.status == 1
    [line] = about_locks(said)
    assert line.startswith(f"✗ locks       the locks in {file} cannot be used")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="permissions bind root on Linux only so")
def test_doctor_finds_a_file_of_the_locks_that_cannot_be_written(root: Path) -> None:
    held(None, root, "locks")
    file = root / ".git" / "taskyard" / "locks.db"
    for each in file.parent.glob("locks.db*"):
        each.chmod(0o400)
    [line] = about_locks(taskyard("doctor", at=root, environ=SHARED, plain_user=True))
    assert line.startswith(f"✗ locks       {file} cannot be written to")
    file.parent.chmod(0o500)
    [line] = about_locks(taskyard("doctor", at=root, environ=SHARED, plain_user=True))
    assert line.startswith(f"✗ locks       {file.parent} cannot be written to")
    file.parent.chmod(0o700)


def test_doctor_says_that_other_hosts_do_not_see_locks_in_a_file(
    root: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"1 1 0:1 / / rw - ext4 disk rw\n2 1 0:2 / {root} rw - nfs4 server:/share rw\n")
    monkeypatch.setattr(disks, "_MOUNTS", mounts)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TASKYARD_LOCKS_SHARED", "true")
    main(["doctor"])
    well, warning = [line for line in capsys.readouterr().out.splitlines() if line[2:8] == "locks "]
    assert well.startswith(f"✓ locks       {tmp_path / 'home'}")
    assert warning.startswith("! locks       the repository is on a network file system (nfs4)")
    assert "[locks] url" in warning
    monkeypatch.setenv("TASKYARD_RUN_STATE_DIR", str(root / "state"))
    main(["doctor"])
    [line] = [line for line in capsys.readouterr().out.splitlines() if line[2:8] == "locks "]
    assert line.startswith(f"✗ locks       {root / 'state' / 'locks.db'} is on a network file system (nfs4)")


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
