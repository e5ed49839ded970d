"""The kinds of value a setting can have: how each is written, read and explained."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated
from urllib.parse import urlsplit

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\s*")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmMgG]?i?[bB])")


@dataclass(frozen=True, slots=True)
class Kind:
    """What a setting may be. `read` takes a TOML value and raises `ValueError` for anything else."""

    expected: str
    read: Callable[[object], object]


def parse_duration(value: object) -> float:
    """Read seconds, or text such as "5s", "1h 30m" or "250ms". Gives seconds."""
    if isinstance(value, str):
        parts = _DURATION_PART.findall(value.strip())
        if not parts or _DURATION_PART.sub("", value.strip()):
            raise ValueError(value)
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    return _number(value)


def parse_size(value: object) -> int:
    """Read bytes, or text such as "100MB" (powers of ten) or "64 MiB" (powers of two). Gives bytes."""
    if isinstance(value, str):
        if not (match := _SIZE.fullmatch(value.strip())):
            raise ValueError(value)
        return int(float(match[1]) * _SIZES[match[2].upper()])
    return _whole(value)


def _number(value: object) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not math.isfinite(value)
        or value < 0
    ):
        raise ValueError(value)
    return float(value)


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(value)
    return value


def _positive(value: object) -> int:
    if not (count := _whole(value)):
        raise ValueError(value)
    return count


def _timeout(value: object) -> float:
    if not (seconds := parse_duration(value)):
        raise ValueError(value)
    return seconds


def _lease(value: object) -> float:
    if (
        seconds := parse_duration(value)
    ) < 1.0:  # It is renewed at a third of it, by a process that may be busy.
        raise ValueError(value)
    return seconds


def _text(value: object) -> str:
    # NUL ends a string for the system: no path, command or branch may hold one.
    if not isinstance(value, str) or "\0" in value:
        raise ValueError(value)
    return value


def _switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(value)
    return value


def _path(value: object) -> Path:
    if not _text(value).strip():
        raise ValueError(value)
    return Path(_text(value)).expanduser()


def _command(value: object) -> tuple[str, ...]:
    words = shlex.split(value) if isinstance(value, str) else value
    if not isinstance(words, list) or not words:
        raise ValueError(value)
    return tuple(_text(word) for word in words)


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(value):
        raise ValueError(value)
    return tuple(_text(name) for name in value)


def _folders(value: object) -> tuple[str, ...]:
    names = [PurePosixPath(name) for name in _names(value)]
    if any(name.is_absolute() or ".." in name.parts or not name.parts for name in names):
        raise ValueError(value)
    return tuple(map(str, names))


def _limits(value: object) -> dict[str, int]:
    if not isinstance(value, dict):
        raise ValueError(value)
    return {_text(name): _positive(limit) for name, limit in value.items()}


def _thinking(value: object) -> str | int:
    return value if value in ("off", "adaptive") and isinstance(value, str) else _positive(value)


def _redis(value: object) -> str:
    parts = urlsplit(_text(value))
    _ = parts.port  # ValueError when it is none
    if (parts.scheme == "unix" and parts.path) or (parts.scheme in ("redis", "rediss") and parts.hostname):
        return _text(value)
    raise ValueError(value)


_DURATION = 'such as "30s", "10m" or "1h 30m"'

Text = Annotated[str, Kind("text without NUL characters", _text)]
Switch = Annotated[bool, Kind("true or false", _switch)]
Count = Annotated[int, Kind("a whole number from 1", _positive)]
Money = Annotated[float, Kind("an amount in US dollars such as 10.0", _number)]
Duration = Annotated[float, Kind(f"a duration {_DURATION}", parse_duration)]
Timeout = Annotated[float, Kind(f"a duration above zero {_DURATION}", _timeout)]
Lease = Annotated[float, Kind(f"a duration from 1s {_DURATION}", _lease)]
Size = Annotated[int, Kind('a size such as "100MB"', parse_size)]
File = Annotated[Path, Kind("a path", _path)]
Command = Annotated[tuple[str, ...], Kind('a list of words such as ["claude", "-p"]', _command)]
Names = Annotated[tuple[str, ...], Kind('a list of names such as ["ANTHROPIC_API_KEY"]', _names)]
Folders = Annotated[
    tuple[str, ...], Kind('a list of folders of the repository such as ["src", "tests"]', _folders)
]
Limits = Annotated[dict[str, int], Kind("a table of whole numbers from 1 such as { docs = 2 }", _limits)]
Thinking = Annotated[str | int, Kind('"off", "adaptive" or a number of tokens', _thinking)]
RedisUrl = Annotated[str, Kind('an address such as "redis://host:6379/0"', _redis)]
