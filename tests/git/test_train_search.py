"""The search for what makes a combination red."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.git.search import first_bad


@pytest.mark.parametrize("count", [1, 2, 3, 10, 50, 200])
async def test_the_search_finds_the_first_bad_member_in_log2_runs(count: int) -> None:
    for bad in {0, count // 2, count - 1}:
        runs = 0

        async def is_red(first: int, bad: int = bad) -> bool:
            nonlocal runs
            runs += 1
            return first > bad

        assert await first_bad(count, is_red) == bad
        assert runs <= math.ceil(math.log2(count))


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 24).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1)))))
def test_for_any_bad_members_all_the_good_land_and_all_the_bad_are_named(case: tuple[int, set[int]]) -> None:
    """Search, drop and search again, over trees that are only numbers: one is red when it holds a bad member."""
    count, bad = case

    async def main() -> tuple[list[int], list[int], int]:
        chain, named, runs = list(range(count)), [], 0
        while bad.intersection(chain):
            members = list(chain)

            async def is_red(first: int, members: list[int] = members) -> bool:
                nonlocal runs
                runs += 1
                return bool(bad.intersection(members[:first]))

            at = await first_bad(len(members), is_red)
            named.append(chain.pop(at))
        return chain, named, runs

    chain, named, runs = asyncio.run(main())
    assert chain == [member for member in range(count) if member not in bad]
    assert sorted(named) == sorted(bad)
    assert runs <= len(bad) * math.ceil(math.log2(count) if count > 1 else 0)
