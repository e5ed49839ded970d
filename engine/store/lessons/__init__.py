"""Lessons: failures that were met, and what helped, found in milliseconds at a million.

The lessons file (append-only JSONL) is the truth and can be shared in the repository; the index beside the other state
is derived from it and follows it. `LessonStore` is the way in.
"""

from engine.store.lessons.fingerprint import failed_check
from engine.store.lessons.imports import ImportReport
from engine.store.lessons.keys import secrets_of
from engine.store.lessons.live import LiveSearch
from engine.store.lessons.malformed import MalformedLine
from engine.store.lessons.query import LessonQuery, parse_query
from engine.store.lessons.ranking import Hit, Span
from engine.store.lessons.reading import SearchStoppedError
from engine.store.lessons.record import Lesson, estimated_tokens
from engine.store.lessons.search import LessonReader, SearchResult
from engine.store.lessons.stats import LessonStats
from engine.store.lessons.store import LessonStore

__all__ = [
    "Hit",
    "ImportReport",
    "Lesson",
    "LessonQuery",
    "LessonReader",
    "LessonStats",
    "LessonStore",
    "LiveSearch",
    "MalformedLine",
    "SearchResult",
    "SearchStoppedError",
    "Span",
    "estimated_tokens",
    "failed_check",
    "parse_query",
    "secrets_of",
]
