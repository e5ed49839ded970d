"""The values the whole engine speaks in: tasks, stages, tokens, plans, verdicts.

All are frozen; times are seconds since the epoch, durations seconds, money US dollars.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

LATEST = 253_402_214_400.0
"""The last day that calendars know, the end of the year 9999 in any time zone; seconds since the epoch."""


class Lane(StrEnum):
    """How soon a task's model calls must be answered. Economy calls may wait for a batch at half price."""

    FAST = "fast"
    ECONOMY = "economy"


class BoardStatus(StrEnum):
    """What the Status cell of a board row says."""

    OPEN = "[ ]"
    LANDED = "[x]"
    FAILED = "[!]"


class TaskState(StrEnum):
    """Where a task stands in the run."""

    WAITING = "waiting"  # for the tasks named in After
    QUEUED = "queued"  # ready, for a free slot
    ELSEWHERE = "elsewhere"  # another orchestrator of the board has claimed it
    RUNNING = "running"
    TO_LAND = "to_land"  # verified and judged, for a train
    LANDED = "landed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether nothing more happens to the task unless somebody retries it."""
        return self in _ENDED


_ENDED = frozenset({TaskState.LANDED, TaskState.FAILED, TaskState.CANCELLED})


class Stage(StrEnum):
    """The steps of one attempt, in order; landing belongs to the train."""

    PLAN = "plan"
    IMPLEMENT = "implement"
    VERIFY = "verify"
    JUDGE = "judge"
    LAND = "land"


class Role(StrEnum):
    """Who makes a model call."""

    PLANNER = "planner"
    IMPLEMENTER = "implementer"
    JUDGE = "judge"


class AnswerSource(StrEnum):
    """Where the answer of a model call came from, and so what it cost."""

    CALL = "call"
    BATCH = "batch"
    CACHE = "cache"


class Task(msgspec.Struct, frozen=True):
    """One row of the board. `line` counts from 1; `command` is None when the row names none."""

    id: str
    scope: str
    branch: str = ""
    command: str | None = None
    acceptance: str = ""
    after: tuple[str, ...] = ()
    type: str = "task"
    lane: Lane = Lane.FAST
    priority: int = 0
    status: BoardStatus = BoardStatus.OPEN
    line: int = 0


class Usage(msgspec.Struct, frozen=True):
    """Tokens of one or many model calls by price class. `input` is only what no cache held."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write_5m + other.cache_write_5m,
            self.cache_write_1h + other.cache_write_1h,
        )

    def __sub__(self, other: Usage) -> Usage:
        return Usage(
            self.input - other.input,
            self.output - other.output,
            self.cache_read - other.cache_read,
            self.cache_write_5m - other.cache_write_5m,
            self.cache_write_1h - other.cache_write_1h,
        )

    @property
    def total(self) -> int:
        """All tokens of all classes."""
        return self.input + self.output + self.cache_read + self.cache_write_5m + self.cache_write_1h

    @property
    def prompt(self) -> int:
        """All tokens of the prompt, cached or not."""
        return self.total - self.output


class Plan(msgspec.Struct, frozen=True):
    """The Planner's answer: what to do, in which files (repository-relative), and the task's type."""

    steps: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    type: str = "task"


MAX_SAID = 1000


class Change(msgspec.Struct, frozen=True):
    """The Implementer's work: one commit on the task's branch, over `base`. `paths` are the files it touches.

    `summary` is its title; `said` is what the Implementer said in closing, at most `MAX_SAID` characters of it, and
    is not written where nothing was.
    """

    commit: str
    base: str
    files: int = 0
    added: int = 0
    removed: int = 0
    summary: str = ""
    paths: tuple[str, ...] = ()
    said: str | msgspec.UnsetType = msgspec.UNSET


class Verification(msgspec.Struct, frozen=True):
    """A finished run of the verification command. `output` is its tail, safe to show; `log` the whole file."""

    command: str
    exit_status: int
    duration: float
    output: str = ""
    log: str = ""
    timed_out: bool = False
    cached: bool = False

    @property
    def passed(self) -> bool:
        """Whether the command ended by itself with status 0."""
        return self.exit_status == 0 and not self.timed_out


class Verdict(msgspec.Struct, frozen=True):
    """The Judge's answer."""

    approved: bool
    reason: str = ""
    findings: tuple[str, ...] = ()


class LessonGiven(msgspec.Struct, frozen=True):
    """A lesson handed to an Implementer with its task."""

    id: str
    text: str
