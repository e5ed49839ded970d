"""Whatever parties do in whatever order and time: one holder, growing tokens, and only the newest writes."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.locks import Party
from engine.locks.files import FileLocks

LEASE = 10.0
STEPS = st.lists(
    st.tuples(st.sampled_from(["take", "renew", "release", "write", "pass"]), st.integers(0, 2)), max_size=40
)


@settings(max_examples=30, deadline=None)
@given(STEPS)
def test_one_holder_growing_tokens_and_only_the_newest_writes(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(follow(Path(folder) / "locks.db", steps))


async def follow(file: Path, steps: list[tuple[str, int]]) -> None:
    now = 1000.0
    store = FileLocks(file, clock=lambda: now)
    parties = [Party.new() for _ in range(3)]
    tokens: dict[int, int] = {}
    # The last taker stays the holder past the lease, until another takes the lock.
    newest, holder, until = 0, -1, 0.0
    for step, who in steps:
        if step == "take":
            token = await store.take("x", parties[who], LEASE, queue=False)
            assert (token is not None) == (holder == -1 or now >= until)
            if token is not None:
                assert token > newest
                newest = tokens[who] = token
                holder, until = who, now + LEASE
        elif step == "renew":
            assert await store.renew("x", parties[who], LEASE, tokens.get(who, 0)) == (who == holder)
            until = now + LEASE if who == holder else until
        elif step == "release":
            assert await store.release("x", parties[who]) == (who == holder and now < until)
            newest += who == holder
            holder = -1 if who == holder else holder
        elif step == "write" and who in tokens:
            assert await store.write_if("x", tokens[who], bytes([who])) == (tokens[who] == newest)
        elif step == "pass":
            now += 1 + 5 * who
        lasting = holder if now < until else -1
        assert [each.party for each in await store.holders()] == ([parties[lasting]] if lasting != -1 else [])
    await store.close()
