"""Sums over all lessons, and how far their index is."""

from __future__ import annotations

import msgspec

from engine.store.lessons.index import Source
from engine.store.lessons.search import LessonReader

LEFT = 1 << 20
"""Bytes not yet taken in that opening the store does not leave for later."""


class LessonStats(msgspec.Struct, frozen=True):
    """Sums over all lessons. `building`: the share of the file that is indexed while a build goes on, else None.

    `by_…` hold the most frequent names first, each with its number of lessons.
    """

    total: int
    sightings: int
    resolved: int
    malformed: int
    file_bytes: int
    index_bytes: int
    building: float | None
    by_task_type: tuple[tuple[str, int], ...]
    by_activity_type: tuple[tuple[str, int], ...]
    by_failure_type: tuple[tuple[str, int], ...]


def stats_of(reader: LessonReader, file_bytes: int, index_bytes: int) -> LessonStats:
    """The sums, as the index has them."""
    source = reader.source()
    return LessonStats(
        total=source.lessons,
        sightings=source.sightings,
        resolved=source.resolved,
        malformed=source.malformed,
        file_bytes=file_bytes,
        index_bytes=index_bytes,
        building=share_indexed(source, file_bytes),
        by_task_type=reader.names("task_type"),
        by_activity_type=reader.names("activity_type"),
        by_failure_type=reader.names("failure_type"),
    )


def share_indexed(source: Source, size: int) -> float | None:
    """How much of the file is indexed, or None when all of it is, but for a few lines on their way."""
    behind = size - source.position.offset
    return source.position.offset / size if behind > LEFT else None
