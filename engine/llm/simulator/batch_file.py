"""Batches that outlive the server: what happened to them, one JSON object a line.

A service does not forget a paid batch because somebody's computer crashed. The simulator of a demo dies with the demo;
with this file the next one knows the batches of the last.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from engine.errors import StoreError


class Made(msgspec.Struct, frozen=True, tag="made"):
    """A batch was created at `at`, and ends at `ends` (seconds since the epoch)."""

    id: str
    at: float
    ends: float
    requests: list[dict[str, Any]]


class Cancelled(msgspec.Struct, frozen=True, tag="cancelled"):
    """A batch was cancelled at `at`, and now ends at `ends`."""

    id: str
    at: float
    ends: float


class Deleted(msgspec.Struct, frozen=True, tag="deleted"):
    """An ended batch was deleted."""

    id: str


Entry = Made | Cancelled | Deleted


class BatchFile:
    """The entries of a file, and a way to add more. Without a path nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def read(self) -> list[Entry]:
        """Give all entries. A last line that a crash cut off is taken away. Raises `StoreError`."""
        if self._path is None or not self._path.exists():
            return []
        try:
            data = self._path.read_bytes()
            whole = data[: data.rfind(b"\n") + 1]
            entries = [msgspec.json.decode(line, type=Entry) for line in whole.splitlines()]
            if whole != data:
                self._path.write_bytes(whole)
            return entries
        except (OSError, msgspec.DecodeError) as error:
            raise StoreError(
                f"{self._path} cannot be read ({error})", "remove it to begin without batches"
            ) from error

    def add(self, entry: Entry) -> None:
        """Keep one more entry. Raises `StoreError`."""
        if self._path is None:
            return
        try:
            with self._path.open("ab") as file:
                file.write(msgspec.json.encode(entry) + b"\n")
        except OSError as error:
            raise StoreError(
                f"{self._path} cannot be written ({error.strerror})", "name a file you can write to"
            ) from error
