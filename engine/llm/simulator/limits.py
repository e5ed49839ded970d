"""What the service allows in a minute, and the headers that tell how much of it is left."""

from __future__ import annotations

import math
import threading
from datetime import UTC, datetime, timedelta

from engine.llm.simulator.scenario import Limits
from engine.llm.simulator.wire import Refusal


class RateLimits:
    """A bucket for each limit of each model; all refill evenly over a minute. Safe to use from several threads."""

    def __init__(self, limits: Limits) -> None:
        self._sizes = {
            "requests": limits.requests_per_minute,
            "input-tokens": limits.input_tokens_per_minute,
            "output-tokens": limits.output_tokens_per_minute,
        }
        self._levels: dict[tuple[str, str], tuple[float, float]] = {}
        self._lock = threading.Lock()

    def take(self, model: str, input_tokens: int, now: float) -> None:
        """Take one request out of its buckets. Raises the 429 of the first that holds too little."""
        with self._lock:
            wants = {
                "requests": 1,
                "input-tokens": min(input_tokens, self._sizes["input-tokens"]),
                "output-tokens": 0,  # nobody knows yet; but what others used must have refilled
            }
            for name, amount in wants.items():
                lacking = amount - self._level(model, name, now)
                if lacking > 0:
                    raise Refusal(
                        "rate_limit_error",
                        f"This request would exceed the rate limit of {self._sizes[name]} {name} per minute.",
                        retry_after=math.ceil(lacking * 60 / self._sizes[name]),
                    )
            for name, amount in wants.items():
                self._levels[model, name] = (self._level(model, name, now) - amount, now)

    def spend_output(self, model: str, tokens: int, now: float) -> None:
        """Take what an answer used out of its bucket, which may go below zero."""
        with self._lock:
            self._levels[model, "output-tokens"] = (self._level(model, "output-tokens", now) - tokens, now)

    def headers(self, model: str, now: float) -> dict[str, str]:
        """Give the rate-limit headers of an answer."""
        headers = {}
        with self._lock:
            for name, size in self._sizes.items():
                level = self._level(model, name, now)
                full = datetime.fromtimestamp(now, UTC) + timedelta(seconds=(size - level) * 60 / size)
                prefix = f"anthropic-ratelimit-{name}"
                headers[f"{prefix}-limit"] = str(size)
                headers[f"{prefix}-remaining"] = str(max(0, math.floor(level)))
                headers[f"{prefix}-reset"] = full.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return headers

    def _level(self, model: str, name: str, now: float) -> float:
        size = self._sizes[name]
        level, at = self._levels.get((model, name), (float(size), now))
        return min(float(size), level + (now - at) * size / 60)
