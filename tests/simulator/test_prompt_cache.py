"""The prompt cache: who writes, who reads, and for how long."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from engine.llm.simulator import Answer, Simulator
from engine.llm.simulator.prompt_cache import PromptCache, read_prompt
from tests.simulator.wire import Response, request, send

SHARED = "shared words " * 800  # 2,600 tokens


def marked(text: str, ttl: str | None = "5m") -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": text}
    return block | ({"cache_control": {"type": "ephemeral", "ttl": ttl}} if ttl else {})


def params(own: str, shared: str = SHARED, ttl: str = "5m") -> dict[str, Any]:
    return request(system=[marked(shared, ttl)], messages=[{"role": "user", "content": [marked(own, None)]}])


def usage(response: Response) -> tuple[int, int, int]:
    counts = response.json["usage"]
    return counts["cache_read_input_tokens"], counts["cache_creation_input_tokens"], counts["input_tokens"]


class Cache:
    """A cache with a clock of its own; `call` looks up and begins at once."""

    def __init__(self, minimum: int = 512) -> None:
        self.cache = PromptCache(minimum)
        self.now = 1000.0

    def call(self, body: dict[str, Any]) -> tuple[int, int, int, int]:
        share = self.cache.look_up(read_prompt(body), self.now)
        self.cache.begin(share, self.now)
        return share.read, share.write_5m, share.write_1h, share.rest


def test_the_first_writes_and_the_second_reads() -> None:
    cache = Cache()
    assert cache.call(params("one")) == (0, 2600, 0, 1)
    assert cache.call(params("two!!")) == (2600, 0, 0, 2)


def test_another_model_reads_nothing() -> None:
    cache = Cache()
    cache.call(params("one"))
    assert cache.call(params("one") | {"model": "claude-haiku-5-5"})[0] == 0


def test_an_entry_is_readable_only_once_its_answer_begins() -> None:
    cache = Cache()
    first = cache.cache.look_up(read_prompt(params("one")), cache.now)
    assert cache.cache.look_up(read_prompt(params("two")), cache.now).read == 0
    cache.cache.begin(first, cache.now)
    assert cache.cache.look_up(read_prompt(params("two")), cache.now).read == 2600


@pytest.mark.parametrize(("ttl", "seconds"), [("5m", 300), ("1h", 3600)])
def test_an_entry_lives_from_its_last_use(ttl: str, seconds: int) -> None:
    cache = Cache()
    cache.call(params("one", ttl=ttl))
    for _ in range(3):
        cache.now += seconds - 1
        assert cache.call(params("one", ttl=ttl))[0] == 2600
    cache.now += seconds
    assert cache.call(params("one", ttl=ttl))[0] == 0


def test_writes_are_counted_by_their_lifetime() -> None:
    cache = Cache()
    body = request(
        system=[marked("a" * 4000, "1h")],
        messages=[{"role": "user", "content": [marked("b" * 2000, "5m"), marked("c" * 400, None)]}],
    )
    assert cache.call(body) == (0, 500, 1000, 100)
    assert cache.call(body) == (1500, 0, 0, 100)


def test_a_short_prefix_is_not_kept() -> None:
    cache = Cache(minimum=512)
    short = params("one", shared="x" * (511 * 4))
    assert cache.call(short)[1] == 0
    assert cache.call(short)[0] == 0
    exact = params("one", shared="x" * (512 * 4))
    assert cache.call(exact)[1] == 512
    assert cache.call(exact)[0] == 512


def conversation(turns: int) -> dict[str, Any]:
    """A conversation whose last block is marked, as a tool loop sends it; each turn 600 tokens."""
    messages: list[dict[str, Any]] = []
    for turn in range(turns):
        role = "assistant" if turn % 2 else "user"
        text = f"{turn:02}" + "x" * 2398
        messages.append({"role": role, "content": [marked(text, "5m" if turn == turns - 1 else None)]})
    return request(messages=messages)


def test_a_growing_conversation_reads_what_it_sent_before() -> None:
    cache = Cache()
    assert cache.call(conversation(1)) == (0, 600, 0, 0)
    assert cache.call(conversation(3)) == (600, 1200, 0, 0)
    assert cache.call(conversation(5)) == (1800, 1200, 0, 0)


def test_an_entry_far_before_the_mark_is_not_found() -> None:
    cache = Cache()
    cache.call(conversation(1))
    assert cache.call(conversation(21))[0] == 600
    cache = Cache()
    cache.call(conversation(1))
    assert cache.call(conversation(23))[0] == 0


def test_moving_words_between_blocks_changes_the_prefix() -> None:
    cache = Cache()
    cache.call(params("one", shared="ab" * 2000))
    other = request(
        system=[marked("a", None), marked("b" + "ab" * 1999)], messages=[{"role": "user", "content": "one"}]
    )
    assert cache.call(other)[0] == 0


@pytest.mark.parametrize("led", [True, False])
def test_sixteen_parallel_calls(led: bool, simulate: Callable[..., Simulator]) -> None:
    """With a leader there is one write; all at once, each writes for itself."""
    # Not led, all must have arrived before the first answer begins, on a busy machine too.
    latency = 0.1 if led else 1.5
    simulator = simulate(latency=latency, tokens_per_second=1e6, answers=(Answer(say="Yes."),), pace=1.0)
    together = threading.Barrier(16)

    def call(number: int) -> tuple[int, int, int]:
        if not led:
            together.wait()
        return usage(send(simulator, "POST", "/v1/messages", params(f"task {number}")))

    first = [call(0)] if led else []
    with ThreadPoolExecutor(16) as pool:
        counts = first + list(pool.map(call, range(len(first), 16)))
    writes = sum(written > 0 for _, written, _ in counts)
    assert writes == (1 if led else 16)
    assert sum(read for read, _, _ in counts) == (15 * 2600 if led else 0)
