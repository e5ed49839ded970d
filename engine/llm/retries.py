"""How often and how long one call is tried again.

retries = Retries(policy)
while True:
    try: ...
    except LLMError as error:
        wait = retries.wait_after(error)     # seconds, or None: give up
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from engine.errors import LLMError, RateLimitedError


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`attempts` bounds the tries of one call, and `patience` (seconds) the time from its first failure on.

    A 429 is no fault of the call and counts only against the patience.
    """

    attempts: int = 6
    patience: float = 900.0
    first_wait: float = 0.5
    longest_wait: float = 30.0


class Retries:
    """The tries of one call. `jitter` gives numbers from 0 to 1."""

    def __init__(
        self,
        policy: RetryPolicy,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._policy = policy
        self._monotonic = monotonic
        self._jitter = jitter
        self._failing_since: float | None = None
        self.failures = 0

    def wait_after(self, error: LLMError, pause: float = 0.0) -> float | None:
        """Give the seconds to wait before the next try, or None when there shall be none.

        `pause` is what the limiter imposes on the whole class; it is part of the wait.
        """
        if not error.retryable:
            return None
        now = self._monotonic()
        if self._failing_since is None:  # before that it may have waited long for a place among the others
            self._failing_since = now
        if isinstance(error, RateLimitedError):
            wait = pause
        else:
            self.failures += 1
            if self.failures >= self._policy.attempts:
                return None
            longest = min(self._policy.longest_wait, self._policy.first_wait * 2.0 ** (self.failures - 1))
            # Between half and the whole, so that calls that failed together do not come back together.
            wait = max(pause, longest * (1.0 - self._jitter() / 2))
        return wait if now - self._failing_since + wait <= self._policy.patience else None
