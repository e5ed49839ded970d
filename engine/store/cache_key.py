"""What a cached result is filed under: an exact digest of everything that could change it.

    key = CacheKey("judge", "T1", digest({"model": "m", "max_tokens": 1000, "prompt": text, "tree": tree}), "m")

Text is hashed as it is: two prompts that differ only in line ends or Unicode form are two prompts.
"""

from __future__ import annotations

import hashlib
import math
from typing import TypeAlias

import msgspec

FORMAT = 1
"""Part of every key: raise it when stored values change their form, and all older entries become misses."""

Json: TypeAlias = "bool | int | float | str | list[Json] | tuple[Json, ...] | dict[str, Json] | None"

_encode = msgspec.json.Encoder(order="deterministic").encode


class CacheKey(msgspec.Struct, frozen=True):
    """Names one result. `input_hash` is the `digest` of everything else that changes the answer."""

    activity_type: str
    task_id: str
    input_hash: str
    model_id: str = ""

    @property
    def digest(self) -> bytes:
        """32 bytes that differ when any field does."""
        fields = (FORMAT, self.activity_type, self.task_id, self.input_hash, self.model_id)
        return hashlib.sha256(_encode(fields)).digest()


def digest(value: Json) -> str:
    """SHA-256, in hex, of the value as canonical JSON: keys sorted, no spaces, UTF-8.

    Raises TypeError for anything but JSON's own types with string keys, and ValueError for NaN, infinities, text with
    lone surrogates and numbers beyond 64 bits: none of these has one exact JSON form.
    """
    _check(value)
    try:
        return hashlib.sha256(_encode(value)).hexdigest()
    except (UnicodeEncodeError, OverflowError) as error:
        raise ValueError(f"this value has no exact JSON form: {error}") from error


def _check(value: object) -> None:
    if value is None or isinstance(value, str | bool | int):
        return
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} has no JSON form")
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"a key must be text, not {type(key).__name__}: {key!r}")
            _check(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _check(item)
    else:
        raise TypeError(f"{type(value).__name__} has no exact JSON form: {value!r:.80}")
