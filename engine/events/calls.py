"""Model calls, turns of agent commands, and the batches that carry them, from the first try to the price paid."""

from __future__ import annotations

from engine.events.base import Event
from engine.model import AnswerSource, Role, Usage


class CallStarted(Event, frozen=True, kw_only=True):
    """A request is on its way, or waits in a batch queue (`batched`)."""

    call: str
    task: str
    attempt: int
    role: Role
    model: str
    batched: bool = False


class CallAnswered(Event, frozen=True, kw_only=True):
    """An answer arrived. `usd` is None when the model's price is unknown; `usd_saved` is what was taken off it.

    Of an answer from the result cache that is its whole price. Of any other, `usd_saved_batches` is the part that the
    half price of a batch took off, and the rest is the prompt cache's. `duration` seconds passed since it was asked
    for; `record` names the file that holds the exact prompt and answer.
    """

    call: str
    task: str
    attempt: int
    role: Role
    model: str
    source: AnswerSource
    usage: Usage
    usd: float | None
    usd_saved: float = 0.0
    usd_saved_batches: float = 0.0
    duration: float = 0.0
    record: str = ""


class CallFailed(Event, frozen=True, kw_only=True):
    """An attempt at a call failed; it is tried again in `retry_in` seconds, or given up when that is None.

    A call that is given up tells what its broken answers cost: `usage`, and `usd` where the price is known. Those of a
    call that succeeds in the end are part of its `CallAnswered`.
    """

    call: str
    task: str
    role: Role
    model: str
    error: str
    retry_in: float | None = None
    usage: Usage = Usage()
    usd: float | None = None


class AgentAsked(Event, frozen=True, kw_only=True):
    """An agent command was given its prompt. `model` is the command's name, `record` the file with that very prompt."""

    call: str
    task: str
    attempt: int
    role: Role
    model: str
    record: str = ""


class AgentEnded(Event, frozen=True, kw_only=True):
    """An agent command ended that told nothing of its use; the end of one that does is a `CallAnswered`.

    `error` says what was wrong, if anything.
    """

    call: str
    task: str
    error: str = ""


class BatchCreating(Event, frozen=True, kw_only=True):
    """A batch is about to be created. Journaled first, so that a restart can find it at the service by its ids."""

    token: str
    role: Role
    model: str
    custom_ids: tuple[str, ...]
    tasks: tuple[str, ...]


class BatchSubmitted(Event, frozen=True, kw_only=True):
    """The service gave the batch its id."""

    token: str
    batch: str
    role: Role
    model: str
    custom_ids: tuple[str, ...]
    tasks: tuple[str, ...]


class BatchPolled(Event, frozen=True, kw_only=True):
    """The service told how far a batch is; `next_poll_at`, in seconds since the epoch, is when it is asked again."""

    batch: str
    status: str
    succeeded: int = 0
    errored: int = 0
    next_poll_at: float | None = None


class BatchEnded(Event, frozen=True, kw_only=True):
    """All results of a batch were read."""

    batch: str
    succeeded: int
    errored: int


CallEvent = (
    CallStarted
    | CallAnswered
    | CallFailed
    | AgentAsked
    | AgentEnded
    | BatchCreating
    | BatchSubmitted
    | BatchPolled
    | BatchEnded
)
