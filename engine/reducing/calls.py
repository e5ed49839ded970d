"""Model calls, single and in batches, and turns of agent commands: what they cost and what was saved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from engine import events as ev
from engine.figures import BatchView, SpendLine
from engine.model import AnswerSource, Role, Usage
from engine.reducing.facts import Facts, bound
from engine.reducing.motion import calls_of, end_call
from engine.task_view import CallView

MAX_BATCHES = 50  # shown; those on their way stay, however many
MAX_UNANSWERED = 10  # creations without an id that a restart looks for


def _call_started(state: Facts, e: ev.CallStarted) -> None:
    view = state.tasks.get(e.task)
    if view is not None:
        call = CallView(e.call, e.attempt, e.role, e.model, e.at, batched=e.batched)
        state.change(e.task, **calls_of((*view.calls, call)))


def _call_answered(state: Facts, e: ev.CallAnswered) -> None:
    cached = e.source is AnswerSource.CACHE
    paid = not cached
    usd = (e.usd or 0.0) if paid else 0.0
    usage = e.usage if paid else Usage()
    unpriced = int(paid and e.usd is None)
    state.add(
        model_calls=int(e.source is AnswerSource.CALL),
        batched_requests=int(e.source is AnswerSource.BATCH),
        cache_hits=int(cached),
        usage=usage,
        usd=usd,
        usd_saved=e.usd_saved,
        usd_saved_results=e.usd_saved if cached else 0.0,
        usd_saved_prompts=e.usd_saved - e.usd_saved_batches if paid else 0.0,
        usd_saved_batches=e.usd_saved_batches,
        unpriced=unpriced,
        tokens_saved=e.usage.total if cached else 0,
    )
    _spend(
        state,
        e.role,
        e.model,
        model_calls=int(e.source is AnswerSource.CALL),
        batched_requests=int(e.source is AnswerSource.BATCH),
        cache_hits=int(cached),
        usage=usage,
        usd=usd,
        usd_saved=e.usd_saved,
        unpriced=unpriced,
    )
    view = state.tasks.get(e.task)
    if view is None:
        return
    if not any(call.id == e.call for call in view.calls):
        # What the cache answers was never on its way.
        began = CallView(e.call, e.attempt, e.role, e.model, e.at - e.duration)
        view = replace(view, calls=(*view.calls, began))
    calls = end_call(
        view,
        e.call,
        e.at,
        source=e.source,
        usage=e.usage,
        usd=e.usd,
        usd_saved=e.usd_saved,
        record=e.record,
        error="",
    )
    state.change(
        e.task,
        **calls,
        usd=view.usd + usd,
        usd_saved=view.usd_saved + e.usd_saved,
        usage=view.usage + usage,
        model_calls=view.model_calls + int(e.source is AnswerSource.CALL),
        batched_requests=view.batched_requests + int(e.source is AnswerSource.BATCH),
        cache_hits=view.cache_hits + int(cached),
        unpriced=view.unpriced + unpriced,
    )


def _call_failed(state: Facts, e: ev.CallFailed) -> None:
    usd = e.usd or 0.0
    unpriced = int(bool(e.usage.total) and e.usd is None)
    state.add(call_failures=1, usage=e.usage, usd=usd, unpriced=unpriced)
    if e.usage.total:
        _spend(state, e.role, e.model, usage=e.usage, usd=usd, unpriced=unpriced)
    view = state.tasks.get(e.task)
    if view is None:
        return
    if e.retry_in is None:
        state.change(
            e.task,
            **end_call(view, e.call, e.at, error=e.error, usage=e.usage, usd=e.usd),
            usd=view.usd + usd,
            usage=view.usage + e.usage,
            unpriced=view.unpriced + unpriced,
            last=e.error,
        )
    else:
        state.change(e.task, last=f"{e.error}; again in {e.retry_in:.0f} s")


def _agent_asked(state: Facts, e: ev.AgentAsked) -> None:
    view = state.tasks.get(e.task)
    if view is not None:
        asked = CallView(e.call, e.attempt, e.role, e.model, e.at, agent=True, record=e.record)
        state.change(e.task, **calls_of((*view.calls, asked)))


def _agent_ended(state: Facts, e: ev.AgentEnded) -> None:
    view = state.tasks.get(e.task)
    if view is not None:
        state.change(e.task, **end_call(view, e.call, e.at, error=e.error))


def _spend(state: Facts, role: Role, model: str, **amounts: Any) -> None:
    """Raise sums of what the role spent on the model."""
    line = state.spend.get((role, model), SpendLine(role, model))
    sums = {name: getattr(line, name) + amount for name, amount in amounts.items()}
    state.spend[role, model] = replace(line, **sums)


def _batch_creating(state: Facts, e: ev.BatchCreating) -> None:
    state.open_batches[e.token] = e
    # One that never got its id is kept for a restart to look for it, but not for ever.
    unanswered = [token for token, known in state.open_batches.items() if isinstance(known, ev.BatchCreating)]
    for token in unanswered[:-MAX_UNANSWERED]:
        del state.open_batches[token]


def _batch_submitted(state: Facts, e: ev.BatchSubmitted) -> None:
    state.open_batches[e.token] = e
    if e.batch in state.batches:
        return
    state.add(batch_calls=1, sent_in_batches=len(e.custom_ids))
    state.batches[e.batch] = BatchView(
        e.batch, e.role, e.model, len(e.custom_ids), "in_progress", e.at, tasks=e.tasks
    )
    bound(state.batches, MAX_BATCHES, lambda batch: batch.ended_at is not None)


def _batch_polled(state: Facts, e: ev.BatchPolled) -> None:
    batch = state.batches.get(e.batch)
    if batch is not None:
        state.batches[e.batch] = replace(
            batch, status=e.status, succeeded=e.succeeded, errored=e.errored, next_poll_at=e.next_poll_at
        )


def _batch_ended(state: Facts, e: ev.BatchEnded) -> None:
    for token, known in tuple(state.open_batches.items()):
        if isinstance(known, ev.BatchSubmitted) and known.batch == e.batch:
            del state.open_batches[token]
    batch = state.batches.get(e.batch)
    if batch is not None:
        state.batches[e.batch] = replace(
            batch,
            status="ended",
            succeeded=e.succeeded,
            errored=e.errored,
            next_poll_at=None,
            ended_at=max(batch.submitted_at, e.at),
        )


HANDLERS: dict[type[ev.Event], Callable[[Facts, Any], None]] = {
    ev.CallStarted: _call_started,
    ev.CallAnswered: _call_answered,
    ev.CallFailed: _call_failed,
    ev.AgentAsked: _agent_asked,
    ev.AgentEnded: _agent_ended,
    ev.BatchCreating: _batch_creating,
    ev.BatchSubmitted: _batch_submitted,
    ev.BatchPolled: _batch_polled,
    ev.BatchEnded: _batch_ended,
}
