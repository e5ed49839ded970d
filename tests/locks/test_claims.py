"""A board shared among processes: each task worked once, a dead one's taken over, a late one's word refused."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest
from msgspec.structs import replace

from engine.claims import Claims, Outcome
from engine.errors import LockLostError, LockStoreAwayError
from engine.locks import LockStore
from engine.locks.redis import RedisLocks
from tests.locks.conftest import Place
from tests.locks.servers import ROOT, Server

WORKER = """
import asyncio, sys
from pathlib import Path
from engine.claims import Claims, Outcome
from engine.errors import LockLostError
from engine.locks import open_locks

url, file, board, lease, tasks, hold = sys.argv[1:]

async def main():
    store = open_locks(url or None, Path(file))
    claims = Claims(store, board, lease=float(lease))
    names = [f"T{number}" for number in range(int(tasks))]
    while True:
        done = await claims.outcomes()
        left = [name for name in names if name not in done or not done[name].final]
        if not left:
            break
        for name in left:
            claim = await claims.claim(name)
            if claim is None:
                continue
            if hold:
                await claim.tell(Outcome("committed", commit="c" * 40))
                print("held", name, flush=True)
                await asyncio.to_thread(sys.stdin.readline)
            await asyncio.sleep(0.01)
            try:
                await claim.tell(Outcome("landed", commit=name))
                print("landed", name, flush=True)
            except LockLostError:
                print("refused", name, flush=True)
                return
            await claim.release()
        await asyncio.sleep(0.05)

asyncio.run(main())
"""


def worker(
    place: Place, board: str, *, tasks: int, lease: float, hold: bool = False
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, place.url, str(place.file), board, str(lease), str(tasks), "x" * hold],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def said(outcome: Outcome | None) -> Outcome | None:
    """An outcome without who told it."""
    return None if outcome is None else replace(outcome, by="")


async def told(claims: Claims) -> dict[str, Outcome | None]:
    """What was told of all tasks."""
    return {task: said(each) for task, each in (await claims.outcomes()).items()}


async def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return (await asyncio.to_thread(process.stdout.readline)).strip()


async def test_a_task_is_one_claimants_until_it_is_given_back(store: LockStore, name: str) -> None:
    here, there = Claims(store, name), Claims(store, name)
    claim = await here.claim("T1")
    assert claim is not None
    assert await there.claim("T1") is None
    other = await Claims(store, f"{name}:T1").claim("T1")  # another board, whose name begins alike
    assert other is not None
    assert {task: holder.token for task, holder in (await there.workers()).items()} == {"T1": claim.token}
    await claim.release()
    await other.release()
    again = await there.claim("T1")
    assert again is not None
    assert again.token > claim.token
    assert again.before is None
    await again.release()


async def test_what_was_committed_is_handed_on_and_what_ended_is_not_claimed(
    store: LockStore, name: str
) -> None:
    claims = Claims(store, name)
    first = await claims.claim("T1")
    assert first is not None
    await first.tell(Outcome("committed", commit="a" * 40))
    await first.release()
    second = await claims.claim("T1")
    assert second is not None
    assert said(second.before) == Outcome("committed", commit="a" * 40)
    with pytest.raises(LockLostError):
        await first.tell(Outcome("landed", commit="b" * 40))
    await second.tell(Outcome("failed", reason="no change"))
    await second.release()
    assert await claims.claim("T1") is None
    assert await claims.workers() == {}
    assert await told(claims) == {"T1": Outcome("failed", reason="no change")}


async def test_processes_share_a_board_and_work_each_task_once(place: Place, name: str) -> None:
    workers = [worker(place, name, tasks=20, lease=600) for _ in range(3)]
    said = [(await asyncio.to_thread(each.communicate, None, 50))[0] for each in workers]
    assert [each.returncode for each in workers] == [0, 0, 0]
    assert sorted("".join(said).splitlines()) == sorted(f"landed T{number}" for number in range(20))


async def test_a_killed_claimants_task_is_taken_over(place: Place, store: LockStore, name: str) -> None:
    dead = worker(place, name, tasks=1, lease=1.0, hold=True)
    assert await first_line(dead) == "held T0"
    dead.kill()
    dead.communicate()
    claims = Claims(store, name)
    async with asyncio.timeout(40):
        while (claim := await claims.claim("T0")) is None:
            await asyncio.sleep(0.05)
    assert said(claim.before) == Outcome("committed", commit="c" * 40)
    await claim.release()


async def test_a_claimant_stopped_past_its_lease_is_refused(
    place: Place, store: LockStore, name: str
) -> None:
    late = worker(place, name, tasks=1, lease=1.0, hold=True)
    assert await first_line(late) == "held T0"
    late.send_signal(signal.SIGSTOP)
    claims = Claims(store, name)
    async with asyncio.timeout(40):
        while (claim := await claims.claim("T0")) is None:
            await asyncio.sleep(0.05)
    await claim.tell(Outcome("failed", reason="by the second"))
    late.send_signal(signal.SIGCONT)
    out, _ = await asyncio.to_thread(late.communicate, "go\n")
    assert out.split() == ["refused", "T0"]
    assert await told(claims) == {"T0": Outcome("failed", reason="by the second")}
    await claim.release()


async def test_while_the_server_is_away_nothing_is_claimed_and_then_all_is_as_before(server: Server) -> None:
    store = RedisLocks(server.url)
    claims = Claims(store, "board", lease=600)
    claim = await claims.claim("T1")
    assert claim is not None
    server.kill()
    with pytest.raises(LockStoreAwayError):
        await claims.claim("T2")
    with pytest.raises(LockStoreAwayError):
        await claim.tell(Outcome("landed"))
    server.start()
    assert await Claims(store, "board").claim("T1") is None
    await claim.tell(Outcome("landed"))
    await claim.release()
    assert await told(claims) == {"T1": Outcome("landed")}
    await store.close()
