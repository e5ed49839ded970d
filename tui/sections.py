"""The sections of the task screen that need nothing but the snapshot: each gives lines for a width."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from itertools import groupby

from engine.model import Stage, TaskState
from engine.task_view import AttemptView, LessonTaught, StageSpan, TaskView
from tui.format import cut, dollars, safe_lines, safe_text
from tui.line import BLANK, Line, bar, cut_line, text, wrapped
from tui.plain import count, duration
from tui.rows import LANDED_BEFORE, how_landed, look_of
from tui.sums import lacking

MOST_WHY = 3
"""Lines of a check's output, or findings of the Judge, that the timeline shows of an attempt that ended badly."""

# What checks of most languages write into the lines that say what is wrong.
_TELLING = re.compile(r"^E  |\b(?:\w*(?:Error|Exception)|errors?|FAIL|FAILED|assert\w*|panicked|fatal)\b")


def head_lines(view: TaskView, now: float, width: int, stuck: Container[str] = ()) -> list[Line]:
    """What the task is, how it stands, and what it cost; `stuck` holds the tasks that are blocked."""
    look = look_of(view, stuck)
    task = view.task
    spans = [(f" {safe_text(task.id, 40)} ", "text strong"), (f"{look.glyph} {look.word}", look.tone)]
    if view.attempt:
        spans.append((f"  attempt {view.attempt}", "warn" if view.attempt > 1 else "muted"))
    if view.started is not None:
        spans.append((f"  {duration(view.elapsed(now))}", "muted"))
    spans.append((f"  {lacking(dollars(view.usd), view.unpriced)}", "muted"))
    if view.usd_saved >= 0.005:
        spans.append((f"  {dollars(view.usd_saved)} saved", "good"))
    if task.lane != "fast":
        spans.append((f"  {task.lane} lane", "batch"))
    lines: list[Line] = [cut_line(tuple(spans), width)]
    lines.append(((" ", "text"), (cut(safe_text(task.scope), width - 2), "text")))
    reason, tone = (
        (view.problem, "bad" if view.state is TaskState.FAILED else "warn")
        if view.problem
        else (view.last, "muted")
    )
    if reason:
        lines.append(((" ", "text"), (cut(safe_text(reason), width - 2), tone)))
    return lines


def timeline_lines(
    view: TaskView, now: float, width: int, waits: str = "", landed_in: str = ""
) -> list[Line]:
    """Each attempt with its stages, how long each took, how it ended, and why where that was badly.

    `waits` says what a task that has not started waits for, `landed_in` names the earlier run that landed it.
    """
    lines: list[Line] = []
    begin = view.started or now
    longest = max((span.elapsed(now) for span in view.spans), default=0.0) or 1.0
    for attempt, group in groupby(view.spans, key=lambda span: span.attempt):
        spans = tuple(group)
        last = spans[-1]
        idle = last.idle + last.rested - spans[0].idle
        took = (last.ended if last.ended is not None else now) - spans[0].started - idle
        if lines:
            lines.append(BLANK)
        lines.append(
            (
                (f"attempt {attempt}", "text strong"),
                (f"  {_short(max(0.0, took))}", "text"),
                (f"  from {duration(spans[0].started - begin - spans[0].idle)} on", "faint"),
            )
        )
        for span in spans:
            lines += _span_lines(span, now, longest, width)
        if bad := next((each for each in view.ended_badly if each.attempt == attempt), None):
            told = {safe_text(span.note) for span in spans}
            lines += [row for text_ in _why(bad, told) for row in wrapped(text_, width, "bad", " " * 6)]
    if view.state is TaskState.LANDED:
        how = f"{view.commit[:10]} with train {view.train}" if view.train else safe_text(view.last)
        if landed_in:
            run = safe_text(landed_in, 60)
            how = f"in run {run} (replay with: taskyard replay {run})"
        elif not how:
            how = LANDED_BEFORE
        lines += [BLANK, ((("✓ landed ", "good"), (how.removeprefix("landed "), "muted")))]
    elif view.state is TaskState.TO_LAND:
        judged = "verified and judged" if view.verdict is not None else "verified, not judged"
        lines += [BLANK, (((f"■ {judged}, ", "info"), (safe_text(view.last), "muted")))]
    elif view.state is TaskState.ELSEWHERE:
        lines += [BLANK, ((("◇ worked on ", "info"), (safe_text(view.last), "muted")))]
    if not lines:
        why = f": {waits}" if waits else ": it waits for a free slot" * (view.state is TaskState.QUEUED)
        lines = [text(f"not started{why}", "muted")]
    if view.revised is not None:
        lines += [BLANK, text("± the row was changed since: a retry takes the new words", "warn")]
        lines += wrapped(safe_text(view.revised.scope, 2000), width, "text", "  ")
    lines += [BLANK, *_facts(view, width)]
    return lines


def _span_lines(span: StageSpan, now: float, longest: float, width: int) -> list[Line]:
    """One stage: its outcome, its time beside that of the `longest` (seconds), and its note."""
    mark, tone = ("✓", "good") if span.ok else ("▶", "accent") if span.ended is None else ("✗", "bad")
    if span.ok is None and span.ended is not None:
        mark, tone = "↻", "warn"
    seconds = span.elapsed(now)
    spans = [(f"  {mark} ", tone), (f"{span.stage:<10}", "text"), (f"{_short(seconds):>8}  ", "muted")]
    if width >= 70:
        spans += [*bar(seconds / longest, 12, tone), ("  ", "text")]
    note = safe_text(span.note) or ("running" if span.ended is None else "")
    indent = sum(len(part) for part, _ in spans)
    rows = wrapped(note, width - indent, "bad" if tone == "bad" else "muted")
    return [(*spans, *rows[0]), *(((" " * indent, "text"), *row) for row in rows[1:])]


def _why(bad: AttemptView, told: Container[str]) -> list[str]:
    """What made the attempt end badly, in few lines, where its stages have not `told` it already."""
    problem = safe_text(bad.problem)
    lines = [problem] if problem and problem not in told else []
    if bad.stage is Stage.VERIFY and bad.verification is not None:
        output = [line.strip() for line in safe_lines(bad.verification.output) if line.strip()]
        telling = [line for line in output if _TELLING.search(line)]
        lines += [line for line in (telling or output)[-MOST_WHY:] if line not in problem]
    elif bad.stage is Stage.JUDGE and bad.verdict is not None:
        lines += [f"- {safe_text(finding)}" for finding in bad.verdict.findings[:MOST_WHY]]
    return lines


def _facts(view: TaskView, width: int) -> Iterable[Line]:
    task = view.task
    facts = (
        ("scope", task.scope),
        ("type", task.type),
        ("lane", str(task.lane)),
        ("after", ", ".join(task.after)),
        ("branch", view.branch or task.branch),
        ("worktree", view.worktree),
        ("check", task.command or ""),
        ("accepted", task.acceptance),
        ("board", f"line {task.line}" if task.line else ""),
    )
    for name, value in facts:
        for index, line in enumerate(wrapped(safe_text(value, 1000), width - 12)) if value else ():
            yield ((f"{name if index == 0 else '':<10}", "faint"), *line)


def _short(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else duration(seconds)


def landed_untried(view: TaskView) -> str:
    """How a task landed that this run has not worked on; empty for any other."""
    if view.state is not TaskState.LANDED or view.attempt:
        return ""
    return how_landed(view)


def plan_lines(view: TaskView, width: int) -> list[Line]:
    """The Planner's steps and files."""
    plan = view.plan
    if plan is None or not (plan.steps or plan.files):
        why = "no plan was made" if view.attempt else "the task has not started"
        return [text(f"{why}; without a Planner the task's text goes to the Implementer as it is", "muted")]
    lines: list[Line] = [text(", ".join([safe_text(plan.type, 40), *_number(plan.steps, "step")]), "faint")]
    for number, step in enumerate(plan.steps, 1):
        for index, line in enumerate(wrapped(safe_text(step, 2000), width - 5)):
            lines.append(((f"{number:>2}. " if index == 0 else "    ", "accent"), *line))
    if plan.files:
        lines += [BLANK, text("files", "faint")]
        lines += [text(f"  {safe_text(path)}", "info") for path in plan.files]
    return lines


def _number(found: Sequence[object], one: str) -> list[str]:
    """How many there are, where there are any."""
    return [count(len(found), one)] if found else []


def verdict_lines(view: TaskView, shown: AttemptView | None, width: int) -> list[Line]:
    """What verification and the Judge said of an attempt, and the exact error where there is one."""
    if shown is None:
        return [text("the task has not started", "muted")]
    lines: list[Line] = []
    done = shown.verification
    if done is not None:
        mark, tone = ("✓ passed", "good") if done.passed else ("✗ failed", "bad")
        how = "timed out" if done.timed_out else f"exit status {done.exit_status}"
        cached = ", cached" if done.cached else ""
        lines.append(
            (("verify  ", "faint"), (mark, tone), (f"  {how}, {done.duration:.1f} s{cached}", "muted"))
        )
        lines += wrapped(safe_text(done.command), width, "info", " " * 8)
        lines += [text(f"  {row}", "muted") for row in safe_lines(done.output)]
        lines.append(BLANK)
    verdict = shown.verdict
    if verdict is None and done is not None and view.state in (TaskState.TO_LAND, TaskState.LANDED):
        lines += [(("judge   ", "faint"), ("– not judged", "muted")), BLANK]
    if verdict is not None:
        mark, tone = ("✓ approved", "good") if verdict.approved else ("✗ refused", "bad")
        lines.append((("judge   ", "faint"), (mark, tone)))
        lines += wrapped(safe_text(verdict.reason, 4000), width, "text", "  ")
        for finding in verdict.findings:
            rows = wrapped(safe_text(finding, 2000), width - 4)
            lines += [(("  - " if n == 0 else "    ", "warn"), *row) for n, row in enumerate(rows)]
        lines.append(BLANK)
    refused = verdict is not None and not verdict.approved and verdict.reason in shown.problem
    if shown.problem and not refused:
        where = f"ended at {shown.stage}" if shown.stage is not None else "ended"
        lines += [text(where, "faint"), *wrapped(safe_text(shown.problem, 4000), width, "bad", "  "), BLANK]
    if shown.feedback:
        lines.append(text("what the next attempt is told", "faint"))
        for row in safe_lines(shown.feedback):
            lines += wrapped(row, width, "muted", "  ")
    return lines or [text("nothing was verified or judged yet", "muted")]


def lesson_lines(shown: AttemptView | None, width: int, taught: Sequence[LessonTaught] = ()) -> list[Line]:
    """The lessons that an attempt was given, and below them those that the task has taught so far, resolved or not."""
    if shown is None:
        return [text("the task has not started", "muted")]
    lines: list[Line] = []
    if shown.lessons:
        lines.append(text("given to this attempt", "faint"))
    for lesson in shown.lessons:
        lines.append(text(safe_text(lesson.id, 40), "faint"))
        lines += [*wrapped(safe_text(lesson.text, 4000), width, "text", "  "), BLANK]
    if not shown.lessons:
        lines += [text("no lesson was given to this attempt", "muted"), BLANK]
    if taught:
        lines.append(text("taught by this task", "faint"))
    for own in taught:
        stands = ("✓ resolved", "good") if own.resolved else ("+ not resolved", "warn")
        lines.append(((f"{safe_text(own.id, 40)}  attempt {own.attempt}  ", "faint"), stands))
        if own.landed_with and not own.resolved:
            lines += wrapped(_left_open(own), width, "muted", "  ")
        lines += [*wrapped(safe_text(own.text, 4000), width, "text", "  "), BLANK]
    return lines[:-1]


def _left_open(lesson: LessonTaught) -> str:
    """Why a lesson is not resolved though its task has landed."""
    if lesson.changed:
        why = "after the row, its check or the roles had been changed"
        return f"landed since with attempt {lesson.landed_with}, {why}: what helped is not known"
    return f"landed since with attempt {lesson.landed_with}; its agent did not say what helped"
