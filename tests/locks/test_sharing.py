"""A board as several orchestrators share it: sessions, outcomes, permits, the gate, and what each knows of all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from engine.claims import Claim, Outcome
from engine.dispatch import Slot
from engine.errors import LockLostError, LockStoreAwayError, PreflightError
from engine.figures import PeerFigures
from engine.git.cargo import Cargo
from engine.locks import DistributedLock, LockStore
from engine.locks.names import lock_name
from engine.model import Task
from engine.shared_work import SharedTaskWork, _PermittedSlot
from engine.sharing import Crew, Share, Terms
from engine.work import TaskWork
from tests.locks.conftest import Place

LEASE = 60.0
NO_TERMS = Terms()


def nothing() -> None:
    """Nobody needs to hear that a claim was lost."""


class Party:
    """Those that take part, each with a connection of its own: `share = await party("one")`."""

    def __init__(self, place: Place, board: str) -> None:
        self._place = place
        self._board = board
        self._following: dict[Share, asyncio.Future[None]] = {}

    async def __call__(
        self, run: str, *, usd: float = 0.0, lease: float = LEASE, terms: Terms = NO_TERMS
    ) -> Share:
        def figures(working: int) -> PeerFigures:
            return PeerFigures("here", 1, run, 1.0, working=working, usd=usd)

        store = self._place.open()
        crew = await Crew.join(store, self._board, figures(0), terms, lease=lease)
        share = Share(store, crew, figures, lease=lease)
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
    async with asyncio.timeout(40):
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
    assert late.crew.session == one.crew.session
    assert await late.claim("T1", nothing) is None
    await join.leave(one, late)
    next_day = await join("next day")
    assert next_day.crew.session != one.crew.session
    assert await next_day.claim("T1", nothing) is not None


async def test_who_leaves_as_its_last_words_are_not_heard_gives_all_back(
    join: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = await join("one"), await join("two")
    claim = await one.claim("T1", nothing)
    assert claim is not None
    given_back, go_on = claim.release, asyncio.Event()

    async def slowly() -> None:
        await go_on.wait()
        await given_back()

    async def away(figures: PeerFigures) -> None:
        asyncio.get_running_loop().call_soon(go_on.set)
        raise LockStoreAwayError("the locks are away")

    monkeypatch.setattr(claim, "release", slowly)
    monkeypatch.setattr(one.crew, "leave", away)
    await join.leave(one)
    assert await two.claim("T1", nothing) is not None


async def test_a_task_that_is_cancelled_twice_is_given_back_all_the_same(
    join: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = await join("one"), await join("two")
    at_work, giving_back = asyncio.Event(), asyncio.Event()

    class Work(SharedTaskWork):
        def __init__(self) -> None:
            self._share, self._claims, self._lost = one, {}, set()
            self._types = self._lanes = {}

        def _left_out(self, task: Task) -> bool:
            return False

        async def _taken_over(self, task: Task, claim: Claim) -> bool:
            return False

    async def works(*_: object) -> None:
        at_work.set()
        await asyncio.Event().wait()

    async def slowly(_: object) -> None:
        giving_back.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(TaskWork, "_turn", works)
    monkeypatch.setattr(_PermittedSlot, "give_back", slowly)
    slot = Slot(nothing, lambda: asyncio.sleep(0))
    working = asyncio.create_task(Work()._claimed(Task("T1", "Do it"), slot))
    await at_work.wait()
    working.cancel()
    await giving_back.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert await two.claim("T1", nothing) is not None


async def test_permits_that_are_given_back_as_their_task_is_cancelled_are_free_all(join: Party) -> None:
    one, two = await join("one"), await join("two")
    slot = _PermittedSlot(
        Slot(nothing, lambda: asyncio.sleep(0)), [one.permits("type:docs", 1), one.permits("lane:fast", 1)]
    )
    await slot.acquire()
    giving = asyncio.create_task(slot.give_back())
    await asyncio.sleep(0)
    giving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await giving
    for name in ("type:docs", "lane:fast"):
        await asyncio.wait_for(two.permits(name, 1).take(), 20)


async def test_who_does_not_come_to_take_part_is_not_there(
    place: Place, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise LockStoreAwayError("the locks are away")

    store = place.open()
    monkeypatch.setattr(DistributedLock, "write", away)
    with pytest.raises(LockStoreAwayError):
        await Crew.join(store, name, PeerFigures("here", 1, "one", 1.0), NO_TERMS, lease=LEASE)
    assert await store.holders(lock_name("member", name, "")) == ()


async def test_each_knows_of_all_and_remembers_who_has_left(join: Party) -> None:
    one, two = await join("one", usd=1.0), await join("two", usd=2.0)
    await until(lambda: len(one.crew.peers) == len(two.crew.peers) == 2)
    assert sum(peer.usd for peer in two.crew.peers) == 3.0
    await join.leave(one)
    await until(lambda: [peer.present for peer in two.crew.peers] == [False, True])
    assert sum(peer.usd for peer in two.crew.peers) == 3.0, "what was spent stays spent"


async def test_who_joins_knows_at_once_who_is_at_work(join: Party) -> None:
    one = await join("one")
    await until(lambda: [peer.present for peer in one.crew.peers] == [True])
    two = await join("two")
    assert [(peer.run, peer.at_work) for peer in two.crew.peers] == [("one", True), ("two", True)]


async def test_who_joins_later_knows_what_those_that_left_have_spent(join: Party) -> None:
    one, two = await join("one", usd=1.0), await join("two")
    await join.leave(one)
    late = await join("late")
    await until(lambda: [peer.run for peer in late.crew.peers if peer.present] == ["late", "two"])
    assert {peer.run: peer.usd for peer in late.crew.peers}["one"] == 1.0
    await join.leave(two, late)
    assert "one" not in {peer.run for peer in (await join("next day")).crew.peers}, "that was another session"


async def test_the_last_word_of_one_that_is_gone_counts(join: Party) -> None:
    one, two = await join("one", usd=1.0), await join("two")

    async def last_words(peer: PeerFigures) -> PeerFigures:
        return msgspec.structs.replace(peer, usd=1.5)

    two.crew.last_words = last_words
    await until(lambda: len(two.crew.peers) == 2)
    await join.leave(one)
    await until(
        lambda: [(peer.run, peer.usd) for peer in two.crew.peers if not peer.present] == [("one", 1.5)]
    )


async def test_other_terms_are_told_and_another_target_is_refused(join: Party) -> None:
    await join("one", terms=Terms({"[git] target": "main"}, {"[run] max_attempts": "3", "[budget] usd": "5"}))
    two = await join("two", terms=Terms({"[git] target": "main"}, {"[run] max_attempts": "4", "new": "1"}))
    assert two.crew.differences == ("[run] max_attempts is 4 here, and 3 with here, process 1",)
    with pytest.raises(PreflightError, match=r"\[git\] target is next here, and main with here, process 1"):
        await join("three", terms=Terms({"[git] target": "next"}))
    # The same run, taken up again before the lease of its dead process has lapsed.
    await join("one", terms=Terms({"[git] target": "main"}))


async def test_what_is_worked_on_elsewhere_is_known_without_asking_for_it(join: Party) -> None:
    one, two = await join("one"), await join("two")
    told: list[str] = []
    two.events.elsewhere = lambda task, host, pid: told.append(f"{task} elsewhere")
    two.events.free = lambda task: told.append(f"{task} free")
    given_back, landed = await one.claim("T1", nothing), await one.claim("T2", nothing)
    assert given_back is not None
    assert landed is not None
    await until(lambda: len(told) == 2)
    assert sorted(told) == ["T1 elsewhere", "T2 elsewhere"]
    await one.tell(landed, Outcome("landed", commit="a" * 40))
    await one.release(landed)
    await one.release(given_back)
    await until(lambda: len(told) == 3)
    assert told[2:] == ["T1 free"], "nobody needs to work on what has landed"


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
    one.events.refused = refused.append
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
    late.events.refused = refused.append

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
    me = PeerFigures("here", 1, "starved", 1.0)
    crew = await Crew.join(store, name, me, Terms(), lease=0.3)
    share = Share(store, crew, lambda working: me, lease=0.3)
    following = asyncio.ensure_future(share.follow())
    await until(lambda: share.crew.peers)
    store.fed.clear()
    await until(lambda: store.tries >= 2 or following.done())
    assert not following.done(), "whoever waits for another's task here would wait for ever"
    store.fed.set()
    other = await join("other")
    await until(lambda: any(peer.run == "starved" and peer.present for peer in other.crew.peers))
    following.cancel()
    await share.close()
