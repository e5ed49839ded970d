"""The service's prompt cache: who pays for a prefix, and from when on the others read it.

An entry becomes readable when the answer that wrote it begins, and lives for five minutes or an hour from its last
use. A prefix shorter than the minimum is not kept, and nobody is told.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass

from engine.llm.simulator.validation import prompt_blocks
from engine.llm.simulator.wire import Json, count_tokens, encode

LOOKBACK = 20  # blocks before a breakpoint in which the service looks for an entry
_SECONDS = {"5m": 300.0, "1h": 3600.0}


@dataclass(frozen=True, slots=True)
class Prefix:
    """A prompt up to the end of one block; `tokens` counts from its beginning, `ttl` is the block's mark."""

    digest: str
    tokens: int
    ttl: str | None


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt as the cache sees it: its prefixes, block by block."""

    prefixes: tuple[Prefix, ...]

    @property
    def tokens(self) -> int:
        """All tokens of the prompt."""
        return self.prefixes[-1].tokens


@dataclass(frozen=True, slots=True)
class Share:
    """How a prompt divides into price classes, in tokens; `written` are the entries to keep when the answer begins."""

    read: int
    write_5m: int
    write_1h: int
    rest: int
    written: tuple[Prefix, ...]
    used: Prefix | None

    def usage(self, output_tokens: int, *, batch: bool = False) -> Json:
        """Give the `usage` object of the answer."""
        return {
            "input_tokens": self.rest,
            "cache_creation_input_tokens": self.write_5m + self.write_1h,
            "cache_read_input_tokens": self.read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": self.write_5m,
                "ephemeral_1h_input_tokens": self.write_1h,
            },
            "output_tokens": output_tokens,
            "service_tier": "batch" if batch else "standard",
        }


def read_prompt(params: Json) -> Prompt:
    """Take a request apart into its prefixes. What a mark says is no part of the prompt; the model's name is."""
    hasher = hashlib.sha256(params["model"].encode())
    tokens = 0
    prefixes = []
    for block in prompt_blocks(params):
        plain = {name: value for name, value in block.items() if name != "cache_control"}
        text = plain["text"] if plain.get("type") == "text" else encode(plain).decode()
        tokens += count_tokens(text)
        hasher.update(b"%d:" % len(text) + text.encode())
        mark = block.get("cache_control")
        prefixes.append(Prefix(hasher.hexdigest(), tokens, None if mark is None else mark.get("ttl", "5m")))
    return Prompt(tuple(prefixes))


class PromptCache:
    """All entries of the service. Safe to use from several threads. `minimum`: tokens below which none is kept."""

    def __init__(self, minimum: int) -> None:
        self._minimum = minimum
        self._until: dict[str, float] = {}
        self._ttl: dict[str, float] = {}
        self._lock = threading.Lock()

    def look_up(self, prompt: Prompt, now: float) -> Share:
        """Divide a prompt by what can be read at `now`. Nothing is kept until `begin`."""
        prefixes = prompt.prefixes
        marked = [at for at, prefix in enumerate(prefixes) if prefix.ttl and prefix.tokens >= self._minimum]
        with self._lock:
            hit = max(
                (
                    at
                    for mark in marked
                    for at in range(max(0, mark - LOOKBACK), mark + 1)
                    if self._until.get(prefixes[at].digest, 0.0) > now
                ),
                default=None,
            )
        read = prefixes[hit].tokens if hit is not None else 0
        written = tuple(prefixes[at] for at in marked if prefixes[at].tokens > read)
        end_1h = max((prefix.tokens for prefix in written if prefix.ttl == "1h"), default=read)
        end = max((prefix.tokens for prefix in written), default=read)
        return Share(
            read=read,
            write_1h=end_1h - read,
            write_5m=end - end_1h,
            rest=prompt.tokens - end,
            written=written,
            used=prefixes[hit] if hit is not None else None,
        )

    def begin(self, share: Share, now: float) -> None:
        """Make what a request writes readable, because its answer begins; what it reads lives on from now."""
        with self._lock:
            for prefix in share.written:
                ttl = _SECONDS[prefix.ttl or "5m"]
                self._ttl[prefix.digest] = ttl
                self._until[prefix.digest] = now + ttl
            if share.used is not None and share.used.digest in self._ttl:
                self._until[share.used.digest] = now + self._ttl[share.used.digest]
