"""The recorded run of the demo, with what the screens look up beside it. `python -m tests.record_demo` records anew.

It was moved to `HOME` on the host `HOST`. The logs and the records of calls are found in `FOLDER` all the same, which
no screen shows.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from engine import events as ev
from engine.model import Change
from engine.store.lessons import LessonStore, SearchResult
from engine.task_view import TaskView
from tui.cli.dashboard import LessonSearch
from tui.source import Lookups, Runs

FOLDER = Path(__file__).parent / "recorded" / "demo"
EVENTS = FOLDER / "events.jsonl"
EARLIER = FOLDER.parent / "earlier.jsonl"
LESSONS = FOLDER / "lessons.jsonl"
LOGS = FOLDER / "logs"
DIFFS = FOLDER / "diffs"

HOME = "/home/ada/demo"
HOST = "yard"
THERE = f"{HOME}/cartwright/.git/taskyard/logs"


@cache
def events() -> tuple[ev.AnyEvent, ...]:
    """All that happened in the run."""
    here = json.dumps(f"{LOGS}/")[:-1].encode()
    there = f'"{THERE}/'.encode()
    return tuple(ev.decode(line.replace(there, here)) for line in EVENTS.read_bytes().splitlines())


@cache
def events_before() -> tuple[ev.AnyEvent, ...]:
    """A run of the demo that an earlier version recorded: only its events are kept."""
    return tuple(ev.decode(line) for line in EARLIER.read_bytes().splitlines())


def lookups(folder: Path, runs: Runs | None = None) -> RecordedLookups:
    """What is looked up beside the run; `folder` is for files that are made of it."""

    def search() -> LessonSearch:
        file = folder / LESSONS.name
        shutil.copy(LESSONS, file)
        return _Still(LessonStore(file, file.with_suffix(".db")))

    return RecordedLookups(search, runs)


class RecordedLookups(Lookups):
    """Gives the diffs that were recorded, where the repository is gone."""

    async def diff(self, repository: str, view: TaskView, change: Change | None) -> str:
        """The recorded change."""
        return diff_file(change.commit).read_text("utf-8") if change is not None else ""


def diff_file(commit: str) -> Path:
    """Where the diff of a commit is kept."""
    return DIFFS / f"{commit[:12]}.diff"


class _Still(LessonSearch):
    """Takes always the same time."""

    async def search_typed(self, typed: str, limit: int) -> AsyncIterator[SearchResult]:
        async for result in super().search_typed(typed, limit):
            yield replace(result, took_s=0.001)
