"""A board as several orchestrators share it: sessions, outcomes, permits, the gate, and what each knows of all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from engine.claims import Outcome
from engine.errors import LockLostError
from engine.figures import PeerFigures
from engine.git.cargo import Cargo
from engine.locks import LockStore
from engine.sharing import Share
from tests.locks.conftest import Place

LEASE = 5.0


def nothing() -> None:
    """Nobody needs to hear that a claim was lost."""


class Party:
    """Those that take part, each with a connection of its own: `share = await party("one")`."""

    def __init__(self, place: Place, board: str) -> None:
        self._place = place
        self._board = board
        self._following: dict[Share, asyncio.Future[None]] = {}

    async def __call__(self, run: str, *, usd: float = 0.0, lease: float = LEASE) -> Share:
        def figures(working: int) -> PeerFigures:
            return PeerFigures("here", 1, run, 1.0, working=working, usd=usd)

        share = await Share.join(self._place.open(), self._board, figures, lease=lease)
        self._following[share] = asyncio.ensure_future(share.follow())
        return share

    async def leave(self, *shares: Share) -> None:
        for share in shares or tuple(self._following):
            self._following.pop(share).cancel()
            await share.close()


@pytest.fixture
async def join(place: Place, name: str) -> AsyncIterator[Party]:
    party = Party(place, name)
    yield party
    await party.leave()


def cargo(task: str) -> Cargo:
    return Cargo(task, "Do it", "c" * 40, "true")


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0.02)


async def test_a_task_is_waited_for_until_the_other_has_ended_it(join: Party) -> None:
    one, two = await join("one"), await join("two")
    claim = await one.claim("T1", nothing)
    assert claim is not None
    told: list[tuple[str, str, int]] = []
    two.events.elsewhere = lambda *words: told.append(words)
    assert await two.claim("T1", nothing) is None
    waiting = asyncio.ensure_future(two.settled("T1"))
    await until(lambda: told)
    assert [task for task, _, _ in told] == ["T1"]
    await one.tell(claim, Outcome("committed", commit="a" * 40))
    await one.tell(claim, Outcome("landed", commit="b" * 40))
    outcome = await waiting
    assert outcome is not None
    assert (outcome.state, outcome.commit) == ("landed", "b" * 40)
    await one.release(claim)
    assert await two.claim("T1", nothing) is None, "landed is landed"


async def test_a_task_given_back_is_free_for_the_other_with_what_was_made_of_it(join: Party) -> None:
    one, two = await join("one"), await join("two")
    claim = await one.claim("T1", nothing)
    assert claim is not None
    assert await two.claim("T1", nothing) is None
    waiting = asyncio.ensure_future(two.settled("T1"))
    await one.tell(claim, Outcome("committed", commit="a" * 40, work=b"patch"))
    await one.release(claim)
    assert await waiting is None
    taken = await two.claim("T1", nothing)
    assert taken is not None
    assert taken.before is not None
    assert taken.before.work == b"patch"
    assert taken.token > claim.token


async def test_who_tries_a_failed_task_again_reopens_it_for_all(join: Party) -> None:
    one, two = await join("one"), await join("two")
    claim = await one.claim("T1", nothing)
    assert claim is not None
    assert await two.claim("T1", nothing) is None
    waiting = asyncio.ensure_future(two.settled("T1"))
    await one.tell(claim, Outcome("failed", reason="no change"))
    await one.release(claim)
    outcome = await waiting
    assert outcome is not None
    assert outcome.state == "failed"
    assert await one.claim("T1", nothing) is None, "its end stands"
    again: list[str] = []
    two.events.reopened = again.append
    one.reopen(["T1"])
    assert await one.claim("T1", nothing) is not None
    await until(lambda: again)
    assert again == ["T1"]


async def test_an_outcome_counts_only_while_somebody_takes_part(join: Party) -> None:
    one = await join("one")
    claim = await one.claim("T1", nothing)
    assert claim is not None
    await one.tell(claim, Outcome("failed", reason="no change"))
    await one.release(claim)
    late = await join("late")
    assert late.session == one.session
    assert await late.claim("T1", nothing) is None
    await join.leave(one, late)
    next_day = await join("next day")
    assert next_day.session != one.session
    assert await next_day.claim("T1", nothing) is not None


async def test_each_knows_of_all_and_remembers_who_has_left(join: Party) -> None:
    one, two = await join("one", usd=1.0), await join("two", usd=2.0)
    await until(lambda: len(one.peers) == len(two.peers) == 2)
    assert sum(peer.usd for peer in two.peers) == 3.0
    await join.leave(one)
    await until(lambda: [peer.present for peer in two.peers] == [False, True])
    assert sum(peer.usd for peer in two.peers) == 3.0, "what was spent stays spent"


async def test_only_so_many_permits_are_given_over_all(join: Party) -> None:
    one, two = (await join("one")).permits("type:docs", 2), (await join("two")).permits("type:docs", 2)
    first, second = await one.take(), await two.take()
    third = asyncio.ensure_future(two.take())
    done, _ = await asyncio.wait({third}, timeout=1.0)
    assert not done, "a third has to wait"
    await first.release()
    await (await third).release()
    await second.release()


async def test_the_gate_lets_one_through_and_asks_for_each_token(join: Party) -> None:
    one, two = await join("one"), await join("two")
    claim = await one.claim("T1", nothing)
    assert claim is not None
    refused: list[str] = []
    one.gate.refused = refused.append
    async with one.gate.hold():
        assert await one.gate.admit([cargo("T1")]) == {"T1"}
        assert await one.gate.admit([cargo("T1"), cargo("T2")]) == {"T1"}, "T2 was never claimed here"
        behind = asyncio.ensure_future(two.gate.hold().__aenter__())
        done, _ = await asyncio.wait({behind}, timeout=0.5)
        assert not done
        behind.cancel()
    assert refused == ["T2 is another orchestrator's by now, and was not pushed from here"]


async def test_a_holder_that_came_too_late_does_not_land(
    join: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole process was asleep: nothing of it renewed a lease, and the other has taken all over."""
    late, other = await join("late", lease=0.6), await join("other")
    claim = await late.claim("T1", nothing)
    assert claim is not None
    refused: list[str] = []
    late.gate.refused = refused.append

    async def asleep(*words: object) -> bool:
        await asyncio.sleep(60)
        return True

    async with late.gate.hold():
        with monkeypatch.context() as sleep:
            sleep.setattr(late._store, "renew", asleep)
            await until(lambda: not claim.held)
            async with other.gate.hold():
                taken = await other.claim("T1", nothing)
                assert taken is not None
                await other.tell(taken, Outcome("landed", commit="b" * 40))
        with pytest.raises(LockLostError):
            await late.gate.admit([cargo("T1")])
        with pytest.raises(LockLostError):
            await late.tell(claim, Outcome("landed", commit="a" * 40))
        with pytest.raises(LockLostError):
            await late.confirm("T1")
    assert refused == ["the landing of T1 came too late, and was not pushed"]


async def test_whoever_stops_does_not_wait_for_the_gate(join: Party) -> None:
    one, two = await join("one"), await join("two")
    async with one.gate.hold():
        behind = asyncio.ensure_future(two.gate.hold().__aenter__())
        await asyncio.sleep(0)
        two.gate.close()
        with pytest.raises(LockLostError):
            await behind


class Starved:
    """A store on a machine that is starved for a while: leases are neither taken nor renewed in time."""

    def __init__(self, store: LockStore) -> None:
        self._store = store
        self.tries = 0
        self.fed = asyncio.Event()
        self.fed.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def take(self, *args: Any, **options: Any) -> int | None:
        self.tries += not self.fed.is_set()
        await self.fed.wait()
        return await self._store.take(*args, **options)

    async def renew(self, *args: Any) -> bool:
        await self.fed.wait()
        return await self._store.renew(*args)


async def test_who_is_starved_past_the_lease_goes_on_looking_after_the_others(
    place: Place, name: str, join: Party
) -> None:
    store = Starved(place.open())
    share = await Share.join(
        store, name, lambda working: PeerFigures("here", 1, "starved", 1.0, working=working), lease=0.3
    )
    following = asyncio.ensure_future(share.follow())
    await until(lambda: share.peers)
    store.fed.clear()
    await until(lambda: store.tries >= 2 or following.done())
    assert not following.done(), "whoever waits for another's task here would wait for ever"
    store.fed.set()
    other = await join("other")
    await until(lambda: any(peer.run == "starved" and peer.present for peer in other.peers))
    following.cancel()
    await share.close()
