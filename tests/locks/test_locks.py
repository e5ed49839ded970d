"""Locks over both stores: who holds, who waits, and who comes too late."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from engine.errors import LockBusyError, LockLostError, LockStoreAwayError
from engine.locks import DistributedLock, LockStore, Party, Record, files, open_locks, redis
from engine.locks.files import FileLocks
from engine.locks.redis import RedisLocks
from tests.locks.conftest import Place
from tests.locks.servers import Server, contender

LONG = 600.0  # seconds: a lease that no stall of a busy machine outlasts


async def until(condition: Callable[[], bool], within: float = 40.0) -> None:
    async with asyncio.timeout(within):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_holder_is_listed_with_its_token_and_gone_after_release(store: LockStore, name: str) -> None:
    async with DistributedLock(store, name, lease=LONG) as lock:
        (holder,) = await store.holders(name)
        assert (holder.name, holder.token, holder.party.pid) == (name, lock.token, os.getpid())
        assert 0 <= holder.age < LONG / 2
        assert LONG / 2 < holder.left <= LONG
        lock.check()
    assert await store.holders(name) == ()
    with pytest.raises(LockLostError):
        lock.check()


async def test_tokens_grow_and_only_the_owner_releases_or_renews(store: LockStore, name: str) -> None:
    a, b = Party.new(), Party.new()
    first = await store.take(name, a, LONG)
    assert first is not None
    assert await store.take(name, b, LONG, queue=False) is None
    assert not await store.renew(name, b, LONG, 1)
    assert not await store.release(name, b)
    assert await store.renew(name, a, LONG, 1)
    assert await store.release(name, a)
    assert not await store.renew(name, a, LONG, first), "what was given back is not renewed"
    assert not await store.write_if(name, first, b"late")
    second = await store.take(name, b, LONG)
    assert second is not None
    assert second > first
    assert not await store.release(name, a)
    assert [holder.party.id for holder in await store.holders(name)] == [b.id]


async def test_a_late_holder_writes_nothing_once_another_took_over(store: LockStore, name: str) -> None:
    late, next_ = Party.new(), Party.new()
    old = await store.take(name, late, 0.05)
    assert old is not None
    assert await store.write_if(name, old, b"first")
    new: list[int] = []

    async def take_over() -> None:
        while (token := await store.take(name, next_, LONG)) is None:
            await asyncio.sleep(0.01)
        new.append(token)

    async with asyncio.timeout(30):
        await take_over()
    # Already now: the new holder has read what it goes on from, although it has not written yet.
    assert not await store.write_if(name, old, b"late")
    assert await store.read(name) == Record(old, b"first")
    assert await store.write_if(name, new[0], b"second")
    assert not await store.write_if(name, old, b"late")
    assert await store.records(name) == {name: Record(new[0], b"second")}


async def test_nothing_is_written_with_a_token_of_a_lock_that_was_never_taken(
    store: LockStore, name: str
) -> None:
    assert not await store.write_if(name, 1 << 50, b"x")
    assert await store.read(name) is None


async def test_renewal_outlives_many_leases(store: LockStore, name: str) -> None:
    other = Party.new()
    watched = Watched(store)
    async with DistributedLock(watched, name, lease=3.0):
        for _ in range(4):  # a third of the lease apart
            async with asyncio.timeout(40):
                await watched.renewed.wait()
            watched.renewed.clear()
            assert await store.take(name, other, LONG, queue=False) is None


class Watched:
    """A store that tells when a lease was renewed in it."""

    def __init__(self, store: LockStore) -> None:
        self._store = store
        self.renewed = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def renew(self, *args: Any) -> bool:
        kept = await self._store.renew(*args)
        self.renewed.set()
        return kept


async def test_a_lost_lease_is_told_once_and_refused(store: LockStore, name: str) -> None:
    lost: list[str] = []
    lock = DistributedLock(store, name, lease=0.3, on_lost=lambda lock: lost.append(lock.name))
    await lock.acquire()
    await store.release(name, lock.party)  # as if the store had forgotten it
    assert await store.take(name, Party.new(), LONG) is not None
    await until(lambda: bool(lost))
    with pytest.raises(LockLostError):
        lock.check()
    with pytest.raises(LockLostError):
        await lock.write(b"late")
    await lock.release()
    assert lost == [name]
    assert len(await store.holders(name)) == 1  # the other's


async def test_waiting_is_bounded_and_leaves_the_queue(store: LockStore, name: str) -> None:
    async with DistributedLock(store, name):
        with pytest.raises(LockBusyError, match="stayed with others"):
            await DistributedLock(store, name, wait=0.1).acquire()
        waiting = asyncio.create_task(DistributedLock(store, name).acquire())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
    assert await store.take(name, Party.new(), LONG, queue=False) is not None


async def test_a_release_that_is_cancelled_gives_the_lock_back_all_the_same(
    store: LockStore, name: str
) -> None:
    lock = DistributedLock(store, name, lease=LONG)
    await lock.acquire()
    releasing = asyncio.create_task(lock.release())
    await asyncio.sleep(0)
    releasing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await releasing
    assert await store.take(name, Party.new(), LONG, queue=False) is not None


async def test_who_came_first_is_served_first(
    place: Place, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (files, redis):  # however long a busy machine keeps one of them from asking again
        monkeypatch.setattr(module, "WAITER_SILENCE", LONG)
    stores = [place.open() for _ in range(4)]
    served: list[int] = []
    queued = [asyncio.Event() for _ in stores]

    async def work(number: int) -> None:
        party = Party.new()
        while await stores[number].take(name, party, LONG) is None:
            queued[number].set()
            await asyncio.sleep(0.01 * (4 - number))  # those who came later ask more often
        served.append(number)
        await stores[number].release(name, party)

    gate = Party.new()
    assert await stores[0].take(name, gate, LONG) is not None
    tasks: list[asyncio.Task[None]] = []
    for number in range(4):
        tasks.append(asyncio.create_task(work(number)))
        async with asyncio.timeout(30):
            await queued[number].wait()
    await stores[0].release(name, gate)
    async with asyncio.timeout(40):
        await asyncio.gather(*tasks)
    assert served == [0, 1, 2, 3]
    for store in stores:
        await store.close()


async def test_a_waiter_that_died_does_not_hold_up_the_others(store: LockStore, name: str) -> None:
    holder, dead, patient = Party.new(), Party.new(), Party.new()
    assert await store.take(name, holder, LONG) is not None
    assert await store.take(name, dead, LONG) is None
    assert await store.take(name, patient, LONG) is None
    await store.release(name, holder)
    async with asyncio.timeout(30):
        while await store.take(name, patient, LONG) is None:
            await asyncio.sleep(0.02)


def test_processes_that_contend_lose_no_count(place: Place, name: str, tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    processes = [
        contender(place.url, place.file, name, lease=LONG, rounds=12, counter=counter) for _ in range(4)
    ]
    said = [process.communicate(timeout=50)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    tokens = [int(line) for each in said for line in each.split()]
    assert int(counter.read_text()) == len(set(tokens)) == 48


async def test_a_killed_holder_is_followed_after_its_lease(place: Place, store: LockStore, name: str) -> None:
    process = contender(place.url, place.file, name, lease=1.0)
    assert process.stdout is not None
    assert (await asyncio.to_thread(process.stdout.readline)).startswith("held")
    process.kill()
    process.wait()
    async with DistributedLock(store, name, lease=LONG, wait=40):
        process.communicate()


async def test_a_holder_stopped_past_its_lease_and_woken_is_refused(
    place: Place, store: LockStore, name: str
) -> None:
    """Without the token check in `write_if` the late word replaces the new one."""
    process = contender(place.url, place.file, name, lease=1.0)
    assert process.stdout is not None
    assert (await asyncio.to_thread(process.stdout.readline)).startswith("held")
    process.send_signal(signal.SIGSTOP)
    async with DistributedLock(store, name, lease=LONG, wait=40) as lock:
        await lock.write(b"new")
        process.send_signal(signal.SIGCONT)
        out, _ = await asyncio.to_thread(process.communicate, "late\n")
        assert out.split() == ["refused"]
        assert await store.read(name) == Record(lock.token, b"new")


async def test_a_server_killed_and_back_within_the_lease_keeps_the_lock(server: Server) -> None:
    store = RedisLocks(server.url)
    lost: list[DistributedLock] = []
    async with DistributedLock(store, "x", lease=LONG, on_lost=lost.append) as lock:
        server.kill()
        with pytest.raises(LockStoreAwayError, match="does not answer"):
            await store.holders()
        with pytest.raises(LockStoreAwayError):
            await lock.write(b"into the void")
        server.start()
        await lock.write(b"kept")
        assert (await store.holders())[0].token == lock.token
    assert lost == []
    await store.close()


async def test_while_the_server_is_away_waiting_goes_on_until_its_end(server: Server) -> None:
    store = RedisLocks(server.url)
    server.kill()
    with pytest.raises(LockStoreAwayError):
        await DistributedLock(store, "x", wait=0.2).acquire()
    waiting = asyncio.create_task(DistributedLock(store, "x", wait=40).acquire())
    await asyncio.sleep(0)
    assert not waiting.done()
    server.start()
    assert await waiting > 0
    await store.close()


@pytest.fixture(params=["durable", "forgetful"])
def mortal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server that this test may kill, whether it keeps what it acknowledged or not."""
    server = Server(tmp_path, durable=request.param == "durable")
    server.start()
    yield server
    server.kill()


async def test_a_server_away_past_the_lease_costs_nobody_the_lock(mortal: Server) -> None:
    """Nobody could take it meanwhile."""
    store = RedisLocks(mortal.url)
    lost: list[DistributedLock] = []
    async with DistributedLock(store, "x", lease=0.5, on_lost=lost.append) as lock:
        token = lock.token
        mortal.kill()
        await until(lambda: not lock.held)
        with pytest.raises(LockLostError):
            lock.check()
        mortal.start()
        await lock.write(b"kept")
        async with asyncio.timeout(30):
            # On a busy machine a lease of half a second lapses now and then, until it is renewed.
            while [(holder.name, holder.token) for holder in await store.holders()] != [("x", token)]:
                await asyncio.sleep(0.01)
        await until(lambda: lock.held)
    assert lost == []
    await store.close()


async def test_who_was_cut_off_past_the_lease_finds_the_lock_taken(place: Place, name: str) -> None:
    store, other = CutOff(place.open()), place.open()
    lost: list[DistributedLock] = []
    lock = DistributedLock(store, name, lease=0.3, on_lost=lost.append)
    await lock.acquire()
    store.cut = True
    async with DistributedLock(other, name, lease=LONG):
        await until(lambda: store.refused > 2)
        assert lost == [], "nobody can tell"
        store.cut = False
        await until(lambda: bool(lost))
    with pytest.raises(LockLostError):
        await lock.write(b"late")
    await lock.release()
    await store.close()
    await other.close()


class CutOff:
    """A store that one of its users cannot reach for a while."""

    def __init__(self, store: LockStore) -> None:
        self._store = store
        self.cut = False
        self.refused = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def renew(self, *args: Any) -> bool:
        if self.cut:
            self.refused += 1
            raise LockStoreAwayError("cut off")
        return await self._store.renew(*args)


async def test_a_server_that_forgot_all_gives_no_old_token_again(shared_server: Server) -> None:
    store = RedisLocks(shared_server.url)
    name, a, b = "forgotten", Party.new(), Party.new()
    old = await store.take(name, a, LONG)
    assert old is not None
    from redis import Redis

    with Redis.from_url(shared_server.url) as client:
        client.delete(*(f"{kind}:{{{name}}}" for kind in ("lock", "fence", "record")))
    assert not await store.write_if(name, old, b"late")
    new = await store.take(name, b, LONG)
    assert new is not None
    assert new > old
    assert not await store.write_if(name, old, b"late")
    await store.close()


async def test_the_server_tells_how_it_is(shared_server: Server) -> None:
    store = RedisLocks(shared_server.url)
    health = await store.health()
    assert health.version[0].isdigit()
    assert 0 < health.latency < 30
    assert abs(health.skew) < 30
    await store.close()


async def test_an_address_shows_no_password(tmp_path: Path) -> None:
    store = open_locks("redis://:secret@127.0.0.1:1/0?password=secret", tmp_path / "unused")
    with pytest.raises(LockStoreAwayError) as caught:
        await store.holders()
    assert "secret" not in str(caught.value)
    assert "127.0.0.1:1/0" in str(caught.value)
    await store.close()


async def test_a_file_that_cannot_be_made_is_said_clearly(tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("")
    store = FileLocks(tmp_path / "blocked" / "locks.db")
    with pytest.raises(LockStoreAwayError, match=r"locks\.db cannot be used"):
        await store.holders()
    await store.close()


async def test_a_new_file_that_another_process_is_setting_up_is_waited_for(tmp_path: Path) -> None:
    """SQLite says at once that such a file is busy, whatever it was told to wait: two were started together."""
    other = apsw.Connection(str(tmp_path / "locks.db"))
    other.execute("BEGIN IMMEDIATE; CREATE TABLE begun (n)").fetchall()
    store = FileLocks(tmp_path / "locks.db")
    waiting = asyncio.create_task(store.holders())
    await asyncio.sleep(0.1)
    assert not waiting.done()
    other.execute("COMMIT")
    assert await waiting == ()
    await store.close()
    other.close()


@pytest.mark.parametrize("ask", ["look", "holders", "records", "read"])
async def test_who_is_cancelled_waits_no_longer_for_a_server_that_says_nothing(ask: str) -> None:
    """A client that swallowed it while it connects would leave a run that has ended waiting for ever."""
    connected = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    store = RedisLocks(f"redis://127.0.0.1:{port}/0", timeout=30.0)
    asked = asyncio.ensure_future(getattr(store, ask)(["a"] if ask == "look" else "a"))
    await connected.wait()
    asked.cancel()
    done, _ = await asyncio.wait({asked}, timeout=10.0)
    assert done
    assert asked.cancelled()
    await store.close()
    server.close()
