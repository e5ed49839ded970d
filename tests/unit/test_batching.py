"""The queue policy: what leaves, when, and what is remembered of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.batching import Batcher


class Log:
    """An execute that remembers its batches, and can be told to fail or to wait."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.fail: set[str] = set()
        self.gate: asyncio.Event | None = None
        self.at_once = 0
        self.most = 0

    async def __call__(self, items: Sequence[str]) -> None:
        self.batches.append(list(items))
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            if self.gate is not None:
                await self.gate.wait()
            if self.fail.intersection(items):
                raise RuntimeError("no")
        finally:
            self.at_once -= 1


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_full_group_leaves_at_once_and_a_part_waits() -> None:
    log = Log()
    batcher = Batcher(log, max_size=3, max_age=60)
    for name in "abcd":
        batcher.add(name)
    await settle()
    assert log.batches == [["a", "b", "c"]]
    assert batcher.pending == 1
    assert batcher.queued == ("d",)
    assert batcher.completed[0].reason == "size"


async def test_age_counts_from_the_oldest_item_not_from_the_last() -> None:
    log = Log()
    batcher = Batcher(log, max_size=10, max_age=0.12)
    batcher.add("first")
    async with asyncio.timeout(30):
        while not log.batches:
            await asyncio.sleep(0.03)
            if not log.batches:
                batcher.add("later")
    assert log.batches[0][0] == "first"
    assert batcher.completed[0].reason == "age"


async def test_departing_by_hand_and_flushing() -> None:
    log = Log()
    batcher = Batcher(log, max_size=10, max_age=60)
    batcher.add("a", group="x")
    batcher.add("b", group="y")
    batcher.depart("x")
    await settle()
    assert log.batches == [["a"]]
    await batcher.flush()
    assert log.batches == [["a"], ["b"]]
    assert batcher.pending == 0
    assert batcher.oldest_at is None


async def test_a_failed_batch_does_not_block_those_behind_it() -> None:
    log = Log()
    log.fail = {"bad"}
    batcher = Batcher(log, max_size=1, max_age=60, max_executing=1)
    batcher.add("bad")
    batcher.add("good")
    await batcher.flush()
    assert log.batches == [["bad"], ["good"]]
    assert isinstance(batcher.failed[0].error, RuntimeError)
    stats = batcher.stats()
    assert (stats.operations, stats.batches, stats.failed) == (2, 2, 1)


async def test_while_one_batch_runs_the_queue_grows_into_the_next() -> None:
    log = Log()
    log.gate = asyncio.Event()
    batcher = Batcher(log, max_size=4, max_age=0.0, max_executing=1)
    batcher.add("a")
    await settle()
    for name in "bcd":
        batcher.add(name)
    await settle()
    assert log.batches == [["a"]]
    assert [batch.size for batch in batcher.executing] == [1]
    log.gate.set()
    await batcher.flush()
    assert log.batches == [["a"], ["b", "c", "d"]]
    assert log.most == 1


async def test_clear_gives_back_what_has_not_left_and_close_lets_nothing_leave() -> None:
    log = Log()
    batcher = Batcher(log, max_size=2, max_age=60)
    batcher.add("a")
    assert batcher.clear() == ("a",)
    batcher.add("b")
    await batcher.close()
    assert log.batches == []
    with pytest.raises(RuntimeError, match="closed"):
        batcher.add("c")


async def test_the_memory_of_the_finished_is_bounded_but_the_sums_are_whole() -> None:
    batcher = Batcher(Log(), max_size=1, keep=5)
    for number in range(50):
        batcher.add(str(number))
    await batcher.flush()
    assert len(batcher.completed) == 5
    assert batcher.stats().batches == 50


@settings(max_examples=100, deadline=None)
@given(
    items=st.lists(st.tuples(st.sampled_from("xyz"), st.booleans(), st.booleans()), max_size=40),
    max_size=st.integers(1, 5),
    max_executing=st.one_of(st.none(), st.integers(1, 3)),
)
def test_every_item_is_executed_once_in_its_group_and_its_order(
    items: list[tuple[str, bool, bool]], max_size: int, max_executing: int | None
) -> None:
    batches: list[list[tuple[str, int]]] = []

    async def execute(batch: Sequence[tuple[str, int]]) -> None:
        batches.append(list(batch))
        await asyncio.sleep(0)
        if batch[0][1] % 7 == 3:
            raise RuntimeError("no")

    async def main() -> None:
        batcher: Batcher[tuple[str, int]] = Batcher(
            execute, max_size=max_size, max_age=60, max_executing=max_executing
        )
        for number, (group, depart, rest) in enumerate(items):
            batcher.add((group, number), group=group)
            if depart:
                batcher.depart(group)
            if rest:
                await asyncio.sleep(0)
        await batcher.flush()
        assert batcher.stats().operations == len(items)
        assert batcher.stats().batches == len(batches)

    asyncio.run(main())
    done = Counter(item for batch in batches for item in batch)
    assert done == Counter((group, number) for number, (group, _, _) in enumerate(items))
    for batch in batches:
        assert len(batch) <= max_size
        assert len({group for group, _ in batch}) == 1
    for name in "xyz":
        order = [number for batch in batches for group, number in batch if group == name]
        assert order == sorted(order)


async def test_flushing_a_closed_batcher_waits_for_what_left_and_for_nothing_else() -> None:
    log = Log()
    log.gate = asyncio.Event()
    batcher = Batcher(log, max_size=1, max_age=60, max_executing=1)
    batcher.add("left")
    batcher.add("stayed")
    await settle()
    closing = asyncio.ensure_future(batcher.close())
    flushing = asyncio.ensure_future(batcher.flush())
    await settle()
    log.gate.set()
    await asyncio.wait_for(asyncio.gather(closing, flushing), 5)
    assert log.batches == [["left"]]
    assert batcher.queued == ("stayed",)


async def test_a_batch_on_its_way_can_take_more_along() -> None:
    """What comes while a batch waits for its turn need not wait for a turn of its own."""
    batches: list[list[int]] = []
    turn = asyncio.Event()

    async def execute(items: Sequence[int]) -> None:
        await turn.wait()
        batches.append([*items, *batcher.take(3 - len(items))])

    batcher = Batcher[int](execute, max_size=3, max_age=60.0, max_executing=1)
    batcher.add(1)
    batcher.depart()
    await asyncio.sleep(0)
    for item in (2, 3, 4):
        batcher.add(item)
    assert batcher.queued == (2, 3, 4)
    turn.set()
    await batcher.flush()
    assert batches == [[1, 2, 3], [4]]
    assert batcher.take(3) == batcher.take(3, "no such group") == ()
