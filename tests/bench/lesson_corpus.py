"""A seeded generator of believable lessons, and of the queries that people type to find them.

The same seed gives the same bytes. Word choice is skewed as in life: a few names occur everywhere, most are rare.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import msgspec

TASK_TYPES = ("fix_bug", "add_feature", "refactor", "write_tests", "update_docs", "upgrade", "tune", "task")
ACTIVITY_TYPES = ("plan", "implement", "verify", "judge", "land")
FAILURE_TYPES = (
    "test_failure",
    "type_error",
    "lint",
    "timeout",
    "merge_conflict",
    "refused",
    "crash",
    "import_error",
    "network",
    "permission",
)
VERBS = (
    "parse load save open close read write send fetch build render merge split check apply update create delete "
    "encode decode resolve validate schedule retry flush commit connect publish format collect"
).split()
NOUNS = (
    "request response header token session user account order invoice payment cart product price report chart table "
    "row column cell page widget panel theme config setting option flag cache key queue job worker task board branch "
    "commit diff patch index query filter cursor batch stream socket channel message event listener hook plugin module "
    "package version release archive bundle manifest schema model field record lesson journal ledger snapshot cycle "
    "window clock timer lease lock claim fence limiter budget ticket address country currency language locale timezone "
    "image font colour palette icon cursor buffer tensor kernel gateway router proxy tunnel certificate secret password"
).split()
LAYERS = "core api web store engine models services utils workers cli views admin billing search auth mail sync".split()
MESSAGES = (
    "AssertionError: assert {n} == {m} in {file}:{line}, while testing {name} with {noun} {n}",
    "{file}:{line}: TypeError: {name}() got an unexpected keyword argument '{noun}'; called from {other}",
    "ImportError: cannot import name '{cls}' from '{module}' ({file}), likely a circular import with {other}",
    "timeout: {name} did not answer within {n} s; the {noun} worker was at 0x{hex} when it was ended",
    "CONFLICT (content): merge conflict in {file}: both sides changed {name}, {other} landed first",
    "the Judge refused: {name} ignores the {noun} when the {other} is empty, and no test covers {cls}",
    "ConnectionRefusedError: [Errno 111] connection refused by 127.0.0.1:{n} while {name} opened the {noun} socket",
    "PermissionError: [Errno 13] Permission denied: '/var/lib/app/{noun}/{n}' in {name} ({file}:{line})",
    'error: Incompatible types in assignment (expression "{cls}", variable "{noun}") at {file}:{line}',
    "E501 line too long ({n} > 110) in {file}:{line}, F401 '{module}.{cls}' imported but unused",
    "KeyError: '{noun}' raised by {name} after {n} of {m} {noun}s, request id {hex}{hex2}",
    "the command crashed with exit status {n}: {name}: fatal: {other} is not a {noun} (100% of {m} runs)",
)
RESOLUTIONS = (
    "Pass the {noun} to {name} explicitly and cover {cls} with a test.",
    "Move the import of {module} into the function; {other} needs it only when the {noun} is used.",
    "Rebase on the landed {other} and keep both changes in {file}.",
    "Raise the limit of the {noun} worker, and close the socket in a finally block of {name}.",
)
PATTERNS = tuple(f"{failure}-{noun}" for failure in FAILURE_TYPES for noun in NOUNS[:8])
START = 1_700_000_000.0


def _skewed(count: int) -> list[float]:
    return list(accumulate(1 / (rank + 1) for rank in range(count)))


_VERB_WEIGHTS, _NOUN_WEIGHTS, _LAYER_WEIGHTS = _skewed(len(VERBS)), _skewed(len(NOUNS)), _skewed(len(LAYERS))
_TASK_WEIGHTS, _FAILURE_WEIGHTS = _skewed(len(TASK_TYPES)), _skewed(len(FAILURE_TYPES))


def lines(count: int, seed: int = 7) -> Iterator[bytes]:
    """`count` lines of a lessons file, each with its newline, about 500 bytes; lesson `i` has the id `L<i>`."""
    rnd = random.Random(seed)
    encode = msgspec.json.Encoder().encode
    at = START
    for number in range(count):
        verb, verb2 = rnd.choices(VERBS, cum_weights=_VERB_WEIGHTS, k=2)
        noun, noun2, noun3, noun4 = rnd.choices(NOUNS, cum_weights=_NOUN_WEIGHTS, k=4)
        layer = rnd.choices(LAYERS, cum_weights=_LAYER_WEIGHTS)[0]
        file = f"src/{layer}/{noun2}_{noun3}.py"
        words = {
            "name": f"{verb}_{noun}",
            "other": f"{verb2}_{noun4}",
            "cls": noun.title() + noun3.title(),
            "noun": noun2,
            "module": f"app.{layer}.{noun2}",
            "file": file,
            "line": rnd.randrange(1, 900),
            "n": rnd.randrange(2, 10_000),
            "m": rnd.randrange(2, 100_000),
            "hex": f"{rnd.getrandbits(32):08x}",
            "hex2": f"{rnd.getrandbits(32):08x}",
        }
        at += rnd.expovariate(1 / 30)
        solved = rnd.random() < 0.4
        seen = min(int(rnd.paretovariate(1.2)), 5000)
        yield (
            encode(
                {
                    "id": f"L{number}",
                    "task_type": rnd.choices(TASK_TYPES, cum_weights=_TASK_WEIGHTS)[0],
                    "activity_type": rnd.choice(ACTIVITY_TYPES),
                    "failure_type": rnd.choices(FAILURE_TYPES, cum_weights=_FAILURE_WEIGHTS)[0],
                    "failure_msg": rnd.choice(MESSAGES).format_map(words),
                    "resolution": rnd.choice(RESOLUTIONS).format_map(words) if solved else "",
                    "pattern": rnd.choice(PATTERNS),
                    "times_seen": seen,
                    "first_seen": round(at - rnd.random() * 86_400, 3),
                    "last_seen": round(at, 3),
                    "metadata": {
                        "files": f"{file} tests/test_{noun2}.py",
                        "task": f"{noun[:3].upper()}-{number % 997}",
                    },
                }
            )
            + b"\n"
        )


def write_corpus(path: Path, count: int, seed: int = 7) -> None:
    """Write a lessons file of `count` lessons."""
    with path.open("wb", buffering=1 << 20) as file:
        file.writelines(lines(count, seed))


def queries(count: int, seed: int = 11) -> list[str]:
    """What people type: one to three words, names, error fragments, punctuation, now and then a filter or a typo."""
    rnd = random.Random(seed)

    def noun() -> str:
        return rnd.choices(NOUNS, cum_weights=_NOUN_WEIGHTS)[0]

    def name() -> str:
        return f"{rnd.choices(VERBS, cum_weights=_VERB_WEIGHTS)[0]}_{noun()}"

    def typo() -> str:
        word = noun()
        at = rnd.randrange(len(word))
        return word[:at] + rnd.choice("etaoin") + word[at + 1 :]

    forms = (
        noun,
        name,
        lambda: f"{noun()} {noun()}",
        lambda: f"connection refused {noun()}",
        lambda: f"timeout {name()}",
        lambda: f"circular import {noun()}",
        lambda: f"src/{rnd.choice(LAYERS)}/{noun()}",
        lambda: f"{name()} {noun()} test",
        lambda: f"KeyError: '{noun()}'",
        lambda: f"type:{rnd.choice(TASK_TYPES)} {noun()}",
        lambda: f"failure:{rnd.choice(FAILURE_TYPES)} since:{rnd.choice(('1d', '7d', '90d'))} {noun()}",
        lambda: f"app.{rnd.choice(LAYERS)}.{noun()}",
        lambda: f"{name()}() {noun()}",
        typo,
        lambda: f"{noun()} {typo()}",
    )
    return [rnd.choice(forms)() for _ in range(count)]
