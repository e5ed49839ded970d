"""The bill of one task: what each call and each attempt cost, and the tokens by class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.model import AnswerSource, Usage
from engine.task_view import CallView, TaskView
from tui.format import dollars, fit, safe_text
from tui.line import BLANK, Line, bar, text, wrapped
from tui.plain import count, money, rate_in_words, thousands
from tui.sums import lacking

if TYPE_CHECKING:
    from engine.llm.prices import PriceTable, Rates


def cost_lines(view: TaskView, width: int, prices: PriceTable | None = None) -> list[Line]:
    """What each call cost, and the tokens by class; with `prices` the rate of each where one holds for all calls."""
    lines: list[Line] = [
        (
            ("spent  ", "faint"),
            (lacking(dollars(view.usd), view.unpriced), "text strong"),
            (f"   saved {dollars(view.usd_saved)}", "good"),
        ),
    ]
    if view.unpriced:
        not_in = "is not in it" if view.unpriced == 1 else "are not in it"
        lines.append(text(f"+ {count(view.unpriced, 'call')} without a known price {not_in}", "warn"))
    rates = _rates_of(view.calls, prices) if prices is not None and width >= 60 else None
    lines += [BLANK, *_usage_lines(view.usage, 20 if width >= 60 else 8, rates)]
    if rates is not None and prices is not None:
        note = f"$ for a million, by the prices of {prices.dated} (taskyard prices); in a batch × {prices.batch:g}"
        lines += wrapped(note, width, "faint")
    lines.append(BLANK)
    if not view.calls:
        return [*lines, text(nobody_asked(view), "muted")]
    lines += [*_attempt_lines(view.calls), BLANK]
    lines.append(
        text(
            f"{'attempt':>7}  {'role':<12}{'from':<7}{'prompt':>7}{'output':>7}{'cost':>9}{'saved':>9}  model",
            "faint",
        )
    )
    for call in view.calls:
        lines.append(_call_line(call))
    lines += [BLANK, *wrapped(_COLUMNS, width, "faint")]
    if any(_silent(call) for call in view.calls):
        lines += [BLANK, *wrapped(_SILENT, width, "faint")]
    if any(call.usd_saved < 0 for call in view.calls):
        lines += [BLANK, *wrapped(_BELOW_NOTHING, width, "faint")]
    return lines


def nobody_asked(view: TaskView) -> str:
    """Why the task has no calls to show."""
    if not view.state.ended:
        return "no model or agent was asked yet"
    return "no record was kept of its calls" if view.attempt else "no model or agent was asked"


_COLUMNS = (
    "prompt: input, cache read and cache written · from: call, a request by itself; batch, one at half the price; "
    "cache, an answer used again; agent, a command"
)

_SILENT = (
    "?: no price is known; an agent that tells neither tokens nor dollars is in no sum and no count of calls"
)

_BELOW_NOTHING = (
    "saved below nothing: writing a prompt cache costs more than the plain prompt; what reads it saves"
)


def _attempt_lines(calls: Sequence[CallView]) -> list[Line]:
    """What each attempt cost, of the calls that are listed."""
    spent: dict[int, float] = {}
    unpriced: dict[int, int] = {}
    for call in calls:
        paid = call.source is not AnswerSource.CACHE
        spent[call.attempt] = spent.get(call.attempt, 0.0) + (call.usd or 0.0 if paid else 0.0)
        lacks = paid and call.usd is None and bool(call.source or call.usage.total)
        unpriced[call.attempt] = unpriced.get(call.attempt, 0) + lacks
    return [
        ((f"attempt {attempt:<3}", "muted"), (f"{lacking(money(usd), unpriced[attempt]):>9}", "text"))
        for attempt, usd in sorted(spent.items())
    ]


def _rates_of(calls: Sequence[CallView], prices: PriceTable) -> Rates | None:
    """The rates that hold for all calls that were paid for; None where they are of several, or not of a known model.

    What an agent command cost is what it said, whatever its model.
    """
    paid = [call for call in calls if call.source is not AnswerSource.CACHE]
    if not paid or any(call.agent for call in paid) or len({call.model for call in paid}) > 1:
        return None
    price = prices.of(paid[0].model)
    found = {price.for_prompt(call.usage.prompt) for call in paid} if price is not None else set()
    return found.pop() if len(found) == 1 else None


def _usage_lines(usage: Usage, cells: int, rates: Rates | None) -> list[Line]:
    rows = (
        ("input", "input"),
        ("cache read", "cache_read"),
        ("cache write 5 m", "cache_write_5m"),
        ("cache write 1 h", "cache_write_1h"),
        ("output", "output"),
    )
    total = usage.total or 1
    lines: list[Line] = []
    for name, class_ in rows:
        number = getattr(usage, class_)
        spans = [(f"{name:<16}", "muted"), (f"{thousands(number):>7}  ", "text"), *bar(number / total, cells)]
        if rates is not None:
            spans.append((f"{rate_in_words(getattr(rates, class_)):>9}", "faint"))
        lines.append(tuple(spans))
    return lines


def _call_line(call: CallView) -> Line:
    silent = _silent(call)
    cost = money(call.usd) if call.usd is not None else "?" if call.source or silent else ""
    saved = money(call.usd_saved) if call.usd_saved else ""
    usage = call.usage
    spans = [
        (f"{call.attempt:>7}  ", "muted"),
        (f"{call.role:<12}", "text"),
        (fit(source_of(call), 7), "batch" if call.batched else "muted"),
        (
            f"{'?':>7}{'?':>7}" if silent else f"{thousands(usage.prompt):>7}{thousands(usage.output):>7}",
            "text",
        ),
        (f"{cost:>9}", "text"),
        (f"{saved:>9}  ", "warn" if call.usd_saved < 0 else "good"),
        (safe_text(call.model, 40), "faint"),
    ]
    if call.error:
        spans.append((f"  {safe_text(call.error)}", "bad"))
    return tuple(spans)


def _silent(call: CallView) -> bool:
    """Whether it is a turn of an agent that has told nothing of its use."""
    return call.agent and call.source is None


def source_of(call: CallView) -> str:
    """Where the answer came from, or that it is awaited."""
    if call.agent:
        if call.ended is None:
            return "agent…"
        return "stopped" if call.stopped else "failed" if call.error else "agent"
    if call.source is not None:
        return str(call.source)
    if call.ended is not None:
        return "stopped" if call.stopped else "failed"
    return "batch…" if call.batched else "asking…"
