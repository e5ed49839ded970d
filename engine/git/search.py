"""Find what makes a combination red with few verifications."""

from __future__ import annotations

from collections.abc import Awaitable, Callable


async def first_bad(count: int, is_red: Callable[[int], Awaitable[bool]], *, green: int = 0) -> int:
    """Give the index of the first member whose prefix is red, by binary search.

    `is_red(n)` verifies the first `n` members together. That all `count` are red is known; that the first `green` are
    not is taken for granted. At most ceil(log2(count - green)) verifications; none for a single member, which is its
    own fault.
    """
    red = count
    while red - green > 1:
        middle = (green + red) // 2
        if await is_red(middle):
            red = middle
        else:
            green = middle
    return red - 1
