"""What all events have in common: the time, and the name that their JSON begins with."""

from __future__ import annotations

import msgspec


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


class Event(msgspec.Struct, frozen=True, kw_only=True, tag=_snake, tag_field="event", omit_defaults=True):
    """Base of all events. `at`: seconds since the epoch."""

    at: float
