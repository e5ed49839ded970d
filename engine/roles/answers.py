"""The typed answers that the roles are asked for by JSON schema, beside `Plan` and `Verdict`."""

from __future__ import annotations

import msgspec


class Edit(msgspec.Struct, frozen=True):
    """One edit of the economy lane. An empty `old` means that `new` is the whole file."""

    path: str
    old: str
    new: str


class Edits(msgspec.Struct, frozen=True):
    """The economy Implementer's whole answer."""

    summary: str
    edits: tuple[Edit, ...]
