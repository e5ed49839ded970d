"""The second panel: what was not paid for, and what was."""

from __future__ import annotations

from engine.figures import TemplateFigures
from engine.snapshot import Snapshot
from tui.format import dollars, safe_text
from tui.frame import Frame
from tui.line import BLANK, Line, Span, bar, joined, sparkline, spread, text, wrapped
from tui.line import width as cells_of
from tui.panels.panel import Panel
from tui.plain import count, short_model, size, thousands
from tui.sums import lacking, savings_by_cause
from tui.trends import dollars_saved, hit_rates

FULL = 60  # cells from which there is room for words beside the figures
MOST_TROUBLE = 2  # lines for why a model class has to wait

_LOOKED_UP = {"outcome": "landed work of"}
"""What is looked up, where the cache's own name for it says little."""


class CachesPanel(Panel):
    """Hit rates of results, prompts and templates, what they saved, and who spent the rest."""

    NUMBER = 2
    NAME = "Caches"

    def draw(self, frame: Frame) -> None:
        """Write the figures, and what was saved at the foot."""
        super().draw(frame)
        self.head()

    def lines(self, frame: Frame, width: int, height: int) -> list[Line]:
        """The figures."""
        lines = cache_lines(frame, width)
        limits = limiter_lines(frame, width)
        spend = spend_lines(frame.snapshot, width)
        if spend and height > len(lines) + len(limits) + len(spend):
            spend = [BLANK, *spend]
        return [*lines, *limits, *spend]

    def summary(self, frame: Frame) -> Line:
        """The hit rates and what was saved."""
        snapshot = frame.snapshot
        return joined(
            [
                (("results ", "muted"), (percent(snapshot.results.hit_rate), "text")),
                (("prompts ", "muted"), (percent(snapshot.prompt_hit_rate), "text")),
                (("saved ", "muted"), (dollars(snapshot.totals.usd_saved), "good")),
            ]
        )


def percent(share: float | None) -> str:
    """A share in percent; an honest dash when nothing is known. Only all is 100 %."""
    if share is None:
        return "–"
    return f"{min(99, round(share * 100)) if share < 1 else 100}%"


def cache_lines(frame: Frame, width: int) -> list[Line]:
    """What each cache held, and what that saved; at the right how it went over the run."""
    snapshot = frame.snapshot
    spans = 24 if width >= FULL else 6
    rates = hit_rates(snapshot.samples, frame.since, frame.until, spans)
    savings = dollars_saved(snapshot.samples, frame.since, frame.until, spans)
    results, templates, totals = snapshot.results, snapshot.templates, snapshot.totals
    full = width >= FULL
    cells = 16 if full else 8

    def gauge(name: str, share: float | None, detail: str) -> Line:
        return (
            (f"{name:<10}", "muted"),
            *bar(share, cells, "good"),
            (f" {percent(share):>4}  ", "text"),
            (detail, "faint"),
        )

    looked = results.hits + results.misses
    held = f"{results.hits:,} of {looked:,}" if looked else "no look-up yet"
    lines = [
        spread(gauge("results", results.hit_rate, held), sparkline(rates, "good", 1.0), width),
        gauge(
            "prompts",
            snapshot.prompt_hit_rate,
            f"of {thousands(totals.usage.prompt)} tokens" if totals.usage.prompt else "no call told",
        ),
        gauge("templates", templates.hit_rate, compiled_in_words(templates, full=full)),
        spread(
            (
                ("saved     ", "muted"),
                (dollars(totals.usd_saved), "good strong"),
            ),
            sparkline(savings, "good"),
            width,
        ),
    ]
    if causes := savings_by_cause(totals, dollars, tokens=full):
        lines += wrapped(", ".join(causes), width, "muted", " " * 10)
    if full and looked:
        lines.insert(1, text(" " * 10 + "looked up: model answers, checks, landed work", "faint"))
    if results.disabled:
        lines.append(text(f"the result cache is off: {safe_text(results.disabled)}", "warn"))
    elif results.entries:
        kept = f"{count(results.entries, 'entry', 'entries')}, {size(results.bytes)}"
        lines.append((("kept      ", "muted"), (kept, "text")))
    if results.last_miss:
        for number, row in enumerate(wrapped(miss_in_words(results.last_miss), width - 10)):
            lines.append((("last miss " if number == 0 else " " * 10, "muted"), *row))
    return lines


def miss_in_words(miss: str) -> str:
    """What the cache looked for last and did not have, with the names that the panel has for it."""
    name, _, rest = safe_text(miss).partition(" ")
    return f"{_LOOKED_UP.get(name, name)} {rest}".rstrip()


def compiled_in_words(templates: TemplateFigures, *, full: bool) -> str:
    """How many renders of prompts found their template compiled: "95 of 95 renders; 12 compiled once"."""
    if not templates.renders:
        return ""
    if not full:
        return f"{templates.hits:,} of {templates.renders:,}"
    renders = count(templates.renders, "render")
    return f"{templates.hits:,} of {renders}; {templates.compilations:,} compiled once"


def limiter_lines(frame: Frame, width: int) -> list[Line]:
    """How many calls each model class may have in flight, and whether the service asked for silence.

    Once the run has ended there are none, whatever was measured last.
    """
    if frame.snapshot.run.finished is not None:
        return []
    figures: list[Line] = []
    troubles: list[Line] = []
    for limiter in frame.snapshot.limiters:
        name = limited(limiter.model_class, frame.snapshot)
        spans: list[Span] = [(f"{name} ", "muted"), (f"{limiter.in_flight} of {limiter.limit}", "text")]
        if limiter.waiting:
            spans.append((f", {count(limiter.waiting, 'waits', 'wait')}", "faint"))
        figures.append(tuple(spans))
        left = (limiter.paused_until or 0.0) - frame.now
        pause = f"paused {left:.0f} s" if left > 0 else ""
        if trouble := ": ".join(part for part in (pause, safe_text(limiter.reason)) if part):
            troubles += wrapped(f"{name} {trouble}", width - 10, "warn", " " * 10)[:MOST_TROUBLE]
    rows = _in_a_line(figures, width - 10)
    return [
        ((f"{'' if number else 'in flight':<10}", "muted"), *row) for number, row in enumerate(rows)
    ] + troubles


def _in_a_line(figures: list[Line], cells: int) -> list[Line]:
    """All figures in one line of `cells` cells where that can be, closer together if it must; else a line each."""
    closer = [tuple((part.replace(" of ", "/"), tone) for part, tone in line) for line in figures]
    lines = [joined(each, "  ") for each in (figures, closer)]
    return next(([line] for line in lines if line and cells_of(line) <= cells), figures)


def limited(model_class: str, snapshot: Snapshot) -> str:
    """Which models share the limits of a class: the one that the run uses of it, or all of the class."""
    used = {
        short_model(model) for model in (*snapshot.run.roles.values(), *(s.model for s in snapshot.spend))
    }
    of_class = sorted(name for name in used if name.startswith(model_class))
    return safe_text(of_class[0] if len(of_class) == 1 else f"all {short_model(model_class)}", 20)


def spend_lines(snapshot: Snapshot, width: int) -> list[Line]:
    """Who spent what: each role on each model."""
    lines: list[Line] = []
    for line in snapshot.spend:
        parts = [
            count(line.model_calls, "call") if line.model_calls or not line.batched_requests else "",
            f"{line.batched_requests} batched" if line.batched_requests else "",
            f"{line.cache_hits} cached" if line.cache_hits else "",
        ]
        detail = " + ".join(part for part in parts if part)
        cost = lacking(dollars(line.usd), line.unpriced)
        spans = [(f"{line.role:<12}", "muted"), (f"{cost:>8}  ", "text"), (detail, "faint")]
        if width >= 70:
            usage = line.usage
            spans.append(
                (
                    f"  {short_model(line.model)}  prompt {thousands(usage.prompt)}  out {thousands(usage.output)}",
                    "faint",
                )
            )
        if line.unpriced:
            spans.append((f"  {line.unpriced} unpriced", "warn"))
        lines.append(tuple(spans))
    return lines
