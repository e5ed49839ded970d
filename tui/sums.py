"""What the sums of a run say in words: the same on the panels, in the last lines of a run and in `taskyard status`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.errors import HaltedError
from engine.events import RunFinished
from engine.model import TaskState
from engine.snapshot import Snapshot, Totals
from tui.plain import count, thousands

_MOST_ROWS = 5
"""Rows of the board that are listed where they could not run."""


def pushes_in_words(snapshot: Snapshot) -> str:
    """How many pushes what landed took, and how many that saved: "3 pushes for 9 tasks, 6 saved"."""
    totals, run = snapshot.totals, snapshot.run
    tasks = count(totals.landed, "task")
    if totals.landed and not run.remote:
        return f"{count(totals.trains, 'train')} for {tasks}, no remote to push to"
    if totals.landed and not totals.pushes:
        return f"{tasks} had been pushed before"
    pushes = count(totals.pushes, "push", "pushes")
    if totals.landed:
        return f"{pushes} for {tasks}" + (f", {totals.pushes_saved} saved" if totals.pushes_saved else "")
    if totals.pushes:
        return f"{pushes} of the board's states"
    if snapshot.total and snapshot.count(TaskState.LANDED) == snapshot.total:
        return "all had landed before"
    return "nothing landed, nothing pushed" if run.finished is not None else "nothing landed yet"


def rows_not_run(number: int) -> str:
    """How many rows of the board could not run, and so are in no other count: "2 rows not run", or nothing."""
    return f"{count(number, 'row')} not run" if number else ""


def counts_at_the_end(ended: RunFinished) -> list[str]:
    """What became of the tasks that have not landed, and of rows that are no task: "1 failed, 2 blocked, 3 left".

    What is left is what the next run goes on with: it was at work, or queued, or waited for what was.
    """
    names = (
        (ended.failed, "failed"),
        (ended.cancelled, "cancelled"),
        (ended.blocked, "blocked"),
        (ended.waiting, "left"),
    )
    counts = [f"{number} {name}" for number, name in names if number]
    return [*counts, left] if (left := rows_not_run(ended.not_run)) else counts


def rows_listed(refused: Sequence[str]) -> list[str]:
    """The first rows of the board that could not run, each with why, and how many more there are."""
    more = len(refused) - _MOST_ROWS
    rest = [f"{count(more, 'more row')}; see: taskyard doctor"] if more > 0 else []
    return [*refused[:_MOST_ROWS], *rest]


END_CELLS = 14
"""Cells of the longest words for how a run ended."""

_ENDS = {
    "landed": "all landed",
    "failed": "not all landed",
    "budget": "budget reached",
    "interrupted": "interrupted",
}


_STOPPED = "stopped"


def end_in_words(ended: RunFinished) -> str:
    """How a run ended, in the same words wherever that is told: "all landed", "some failed", "budget reached"."""
    if ended.status == "failed" and ended.failed:
        return "some failed"
    if ended.status == "failed" and ended.landed >= ended.total:
        return "some not run"  # rows of the board that are in no count
    if ended.status == "interrupted" and ended.exit_status == HaltedError.exit_status:
        return _STOPPED
    return _ENDS[ended.status]


def why_stopped(snapshot: Snapshot) -> str:
    """What stopped a run that no task was to blame for, as it was told; empty for one that ended in another way."""
    ended = snapshot.run.finished
    if ended is None or end_in_words(ended) != _STOPPED:
        return ""
    told = (
        n.text
        for n in reversed(snapshot.notices)
        if n.level == "error" and n.number > snapshot.run.told_before
    )
    return next(told, "")


def state_in_words(state: str, ended: RunFinished | None) -> str:
    """How a run stands: "running", "died", or how it ended, also where no more is known of that than its status."""
    if state in ("running", "died"):
        return state
    return end_in_words(ended) if ended is not None else _ENDS[state]


def answers_in_words(totals: Totals) -> str:
    """Where the answers of models came from: "73 calls, 12 requests in 6 batches, 0 answers used again".

    A call is one request and its answer; a request in a batch is none.
    """
    parts = [count(totals.model_calls, "call")]
    if totals.batch_calls or totals.batched_requests:
        parts.append(batches_in_words(totals))
    return ", ".join([*parts, f"{count(totals.cache_hits, 'answer')} used again"])


def batches_in_words(totals: Totals) -> str:
    """How many requests went out in how many calls: "12 requests in 6 batches"."""
    return f"{count(_sent(totals), 'request')} in {count(totals.batch_calls, 'batch', 'batches')}"


def calls_saved(totals: Totals) -> int:
    """How many calls more it would have taken to send each request of the batches by itself."""
    return max(0, _sent(totals) - totals.batch_calls)


def _sent(totals: Totals) -> int:
    # A run whose cycle was begun by an earlier version counted only the answers.
    return max(totals.sent_in_batches, totals.batched_requests)


def plus_unpriced(unpriced: int) -> str:
    """What stands behind a sum of dollars that lacks some calls: " +3 unpriced calls", or nothing."""
    return f" +{count(unpriced, 'unpriced call')}" if unpriced else ""


def lacking(price: str, unpriced: int) -> str:
    """A sum of dollars where there is no room for more: with a plus behind it if it lacks calls, "$0.00+"."""
    return f"{price}+" if unpriced else price


def adding_up(parts: Sequence[float], whole: float, step: float) -> list[float]:
    """The parts of a sum so that each rounded to the `step` adds up to the rounded sum: the largest gives or takes.

    Parts that make another sum are left alone.
    """
    gap = round(whole / step) - sum(round(part / step) for part in parts)
    if not gap or abs(whole - sum(parts)) >= step / 2:
        return list(parts)
    largest = max(range(len(parts)), key=lambda at: abs(parts[at]))
    return [(round(part / step) + gap) * step if at == largest else part for at, part in enumerate(parts)]


def savings_by_cause(totals: Totals, price: Callable[[float], str], *, tokens: bool = True) -> list[str]:
    """What each cause took off the bill, where it did: "prompts $0.14", "batches $0.07".

    As they are shown they add up to the sum. `tokens`: tell how many the answers that were used again had taken.
    """
    again = f" for {thousands(totals.tokens_saved)} tokens" if tokens and totals.tokens_saved else ""
    step = 0.01 if price(0.0101) == price(0.0102) else 0.0001  # how fine the price is told
    parts = (totals.usd_saved_results, totals.usd_saved_prompts, totals.usd_saved_batches)
    results, prompts, batches = adding_up(parts, totals.usd_saved, step)
    causes = (
        ("results", results, again),
        ("prompts", prompts, ""),
        ("batches", batches, ""),
    )
    return [f"{name} {price(usd)}{more}" for name, usd, more in causes if abs(usd) >= 0.00005]
