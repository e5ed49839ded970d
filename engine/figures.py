"""The figures that the panels show and `taskyard status --json` prints: small frozen structs of gauges.

The engine measures them and sends them inside `Measured` events; the reducer keeps the latest of each. Times are
seconds since the epoch, durations seconds, sizes bytes, money US dollars.
"""

from __future__ import annotations

import msgspec

from engine.model import Role, Usage


class ResultCacheFigures(msgspec.Struct, frozen=True):
    """The cache in front of every model call and verification. `disabled` says why it is off, or is empty."""

    entries: int = 0
    bytes: int = 0
    hits: int = 0
    misses: int = 0
    evictions: int = 0
    expirations: int = 0
    tokens_saved: int = 0
    usd_saved: float = 0.0
    last_miss: str = ""
    disabled: str = ""

    @property
    def hit_rate(self) -> float | None:
        """Hits over look-ups, or None before the first look-up."""
        looked = self.hits + self.misses
        return self.hits / looked if looked else None


class TemplateFigures(msgspec.Struct, frozen=True):
    """Prompt templates. A hit is a render that needed no compilation."""

    templates: int = 0
    compilations: int = 0
    renders: int = 0
    hits: int = 0
    errors: int = 0

    @property
    def hit_rate(self) -> float | None:
        """Hits over renders, or None before the first render."""
        return self.hits / self.renders if self.renders else None


class LessonFigures(msgspec.Struct, frozen=True):
    """The lessons file and its index. `building` is the share indexed so far while a build runs, else None."""

    total: int = 0
    malformed: int = 0
    bytes: int = 0
    building: float | None = None


class HistoryFigures(msgspec.Struct, frozen=True):
    """The live store of executions against its limits, and what was pruned into the archive.

    `problem` says why the last pruning failed, or is empty.
    """

    entries: int = 0
    max_entries: int = 0
    bytes: int = 0
    max_bytes: int = 0
    oldest_at: float | None = None
    max_age: float = 0.0
    prunes: int = 0
    archived: int = 0
    segments: int = 0
    journal_bytes: int = 0
    problem: str = ""


class LimiterFigures(msgspec.Struct, frozen=True):
    """The concurrency limit of one model class; `paused_until` is set while the service asked for silence."""

    model_class: str
    limit: int
    in_flight: int = 0
    waiting: int = 0
    paused_until: float | None = None
    reason: str = ""


class QueueFigures(msgspec.Struct, frozen=True):
    """One queue of a batcher: what waits, since when, and when it leaves at the latest."""

    name: str
    queued: int = 0
    oldest_at: float | None = None
    max_size: int = 0
    max_age: float = 0.0


class PeerFigures(msgspec.Struct, frozen=True):
    """One of the orchestrators that share a board, as it told of itself last, at `seen_at` of its own clock.

    `working` counts tasks it has claimed and not landed; the other counts and sums are of what it did itself.
    `present`: it takes part still; `finished`: nothing is left for it to do, and somebody looks at what was done.
    """

    host: str
    pid: int
    run: str
    started: float
    seen_at: float = 0.0
    present: bool = True
    finished: bool = False
    working: int = 0
    landed: int = 0
    pushes: int = 0
    model_calls: int = 0
    batch_calls: int = 0
    cache_hits: int = 0
    usd: float = 0.0
    usd_saved: float = 0.0

    @property
    def at_work(self) -> bool:
        """Whether it takes part and has not finished."""
        return self.present and not self.finished


class BatchView(msgspec.Struct, frozen=True):
    """One Message Batches call. `status`: creating, in_progress, canceling, ended."""

    id: str
    role: Role
    model: str
    requests: int
    status: str
    submitted_at: float
    next_poll_at: float | None = None
    succeeded: int = 0
    errored: int = 0
    tasks: tuple[str, ...] = ()
    ended_at: float | None = None


class TrainView(msgspec.Struct, frozen=True):
    """One train on its way: `stage` is one of `TrainMoved`, at the end landed or failed."""

    number: int
    stage: str
    tasks: tuple[str, ...]
    started_at: float
    detail: str = ""
    landed: int = 0
    sent_back: int = 0
    tip: str = ""
    ended_at: float | None = None


class SpendLine(msgspec.Struct, frozen=True):
    """What one role spent on one model. The counts are those of `Totals`, parted by role and model.

    `usd` counts only answers with a known price, `unpriced` the others.
    """

    role: Role
    model: str
    model_calls: int = 0
    batched_requests: int = 0
    cache_hits: int = 0
    usage: Usage = Usage()
    usd: float = 0.0
    usd_saved: float = 0.0
    unpriced: int = 0


class StageTime(msgspec.Struct, frozen=True):
    """How long a stage took over all its finished runs: the base of every estimate."""

    stage: str
    count: int = 0
    total: float = 0.0
    squares: float = 0.0


class Sample(msgspec.Struct, frozen=True):
    """Some figures as they were at a moment of the run. Counts and dollars are sums since it began."""

    at: float
    hits: int = 0
    misses: int = 0
    usd_saved: float = 0.0
    history_entries: int = 0
    history_bytes: int = 0
