"""A task as one row of the list: its state as glyph and word, its way through the stages, and why it stands there."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from engine.figures import BatchView
from engine.model import Stage, TaskState
from engine.task_view import TaskView
from tui.format import dollars, fit, safe_text
from tui.line import Line, Span, cut_line
from tui.order import Group, GroupHead
from tui.plain import duration
from tui.sums import lacking
from tui.waiting import BLOCKED, awaited

MAX_ID = 16  # cells of an id; a longer one is cut
BAR_FROM = 64  # cells from which a row has a bar of its stages
COST_FROM = 52  # cells from which it has its cost, and room for a long id
ELAPSED_FROM = 46  # cells from which it has its time and its attempt
SCOPE_FROM = 64  # cells of the last column from which it shares them with what the task is

_STAGES = (Stage.PLAN, Stage.IMPLEMENT, Stage.VERIFY, Stage.JUDGE)


@dataclass(frozen=True, slots=True)
class Look:
    """A state as it is shown: never by colour alone."""

    glyph: str
    word: str
    tone: str


_LOOKS = {
    TaskState.WAITING: Look("·", "waiting", "faint"),
    TaskState.QUEUED: Look("○", "queued", "muted"),
    TaskState.ELSEWHERE: Look("◇", "elsewhere", "info"),
    TaskState.RUNNING: Look("▶", "starting", "accent"),
    TaskState.TO_LAND: Look("■", "to land", "info"),
    TaskState.LANDED: Look("✓", "landed", "good"),
    TaskState.FAILED: Look("✗", "failed", "bad"),
    TaskState.CANCELLED: Look("⊘", "cancelled", "warn"),
}
SENT_BACK = Look("!", "sent back", "warn")
IN_A_BATCH = Look("◔", "in a batch", "batch")
LANDED_BEFORE = "landed before this run"
IN_VAIN = Look("┤", BLOCKED, "warn")


def look_of(view: TaskView, stuck: Container[str] = ()) -> Look:
    """How the task's state is shown; `stuck` holds the tasks that are blocked."""
    if view.state is TaskState.WAITING and view.id in stuck:
        return IN_VAIN
    if view.sent_back and view.state is TaskState.QUEUED:
        return SENT_BACK
    if view.state is TaskState.RUNNING:
        if view.batched:
            return IN_A_BATCH
        if view.stage is not None:
            return Look("▶", view.stage.value, "accent")
    return _LOOKS[view.state]


def stage_bar(view: TaskView) -> tuple[Span, ...]:
    """Four cells for plan, implement, verify and judge: done, here, failed or still to come."""
    if view.state in (TaskState.TO_LAND, TaskState.LANDED) or view.stage is Stage.LAND:
        return (("▰▰▰▰", "good"),)
    if view.state is TaskState.RUNNING and view.stage is not None:
        at = _STAGES.index(view.stage)
        return (("▰" * at, "good"), ("▰", "accent"), ("▱" * (3 - at), "faint"))
    failed = next((span.stage for span in reversed(view.spans) if span.ok is False), None)
    if view.state is TaskState.FAILED and failed in _STAGES:
        at = _STAGES.index(failed)
        return (("▰" * at, "muted"), ("✗", "bad"), ("▱" * (3 - at), "faint"))
    if view.sent_back and view.state is TaskState.QUEUED:
        return (("▰▰▰▰", "warn"),)
    return (("▱▱▱▱", "faint"),) if view.attempt else (("    ", "text"),)


def why(
    view: TaskView,
    others: Mapping[str, TaskView],
    batches: Mapping[str, BatchView],
    stuck: Container[str] = (),
) -> Span:
    """The last column: what the task does, or why it does nothing."""
    if view.state is TaskState.RUNNING and view.batched:
        batch = batches.get(view.id)
        if batch is None:
            return f"{view.stage or 'request'}, gathering", "muted"
        return f"{view.stage or 'request'}, {batch.requests:,} in …{safe_text(batch.id)[-6:]}", "muted"
    if view.state is TaskState.WAITING and (words := awaited(view, others.get, stuck)):
        return words, "warn" if view.id in stuck else "faint"
    if view.state is TaskState.FAILED:
        return safe_text(view.problem or view.last), "bad"
    if view.sent_back and view.state is TaskState.QUEUED:
        return safe_text(view.problem), "warn"
    if view.state is TaskState.LANDED:
        return how_landed(view), "faint"
    if view.last:
        # The state's column names the stage already.
        last = view.last.removeprefix(f"{view.stage}: ") if view.stage is not None else view.last
        # There is no room for the columns of a tool's output.
        return " ".join(safe_text(last).split()), "muted"
    return safe_text(view.task.scope), "faint"


def how_landed(view: TaskView) -> str:
    """What is said of a task that landed; where nothing is, and this run has not tried it, that it had before."""
    return safe_text(view.last) or ("" if view.attempt else LANDED_BEFORE)


def ended_badly(view: TaskView) -> str:
    """What the last attempt that ended badly came to: "exit 1: AssertionError"; with its number where several did."""
    last = view.ended_badly[-1]
    which = f"attempt {last.attempt}: " if len(view.ended_badly) > 1 else ""
    return f"{which}{safe_text(last.problem)}"


def group_row(head: GroupHead, cells: int, *, here: bool = False) -> Line:
    """The line over a group of tasks."""
    tone = "bad strong" if head.group is Group.PERSON else "text strong"
    mark = "▸" if head.folded else "▾"
    spans = [("▌" if here else " ", "accent"), (f"{mark} {head.group} ", tone), (f"{head.count:,}", "muted")]
    if head.folded:
        spans.append(("  enter shows them", "faint"))
    return cut_line(tuple(spans), cells)


@dataclass(frozen=True, slots=True)
class Columns:
    """The widths of the columns, in cells; 0 leaves a column out.

    What the task does takes the rest, and where that is much, shares it with what the task is.
    """

    id: int
    state: int
    bar: int
    attempt: int
    elapsed: int
    cost: int
    last: int
    scope: int = 0

    @classmethod
    def of(cls, width: int, longest_id: int, *, reasons: bool = False) -> Columns:
        """The columns for a list that is `width` cells wide; `reasons`: the last one says why, and needs the room."""
        ids = max(2, min(MAX_ID if width >= COST_FROM else 10, longest_id))
        bar = 4 if width >= BAR_FROM and not reasons else 0
        attempt = 3 if width >= ELAPSED_FROM else 0
        elapsed = 7 if width >= ELAPSED_FROM and not reasons else 0
        cost = 7 if width >= COST_FROM else 0
        state = 12
        used = 2 + sum(column + 1 for column in (ids, state, bar, attempt, elapsed, cost) if column)
        rest = max(0, width - used)
        last = max(SCOPE_FROM // 2, rest * 2 // 5) if rest >= SCOPE_FROM and not reasons else rest
        return cls(ids, state, bar, attempt, elapsed, cost, last, rest - last)

    def header(self) -> Line:
        """The titles over the columns."""
        # The bar needs no title, and the number beside it is narrower than its own.
        number = ("Attempt", self.bar + 1 + self.attempt) if self.bar else ("Att", self.attempt)
        titles = (
            ("ID", self.id, False),
            ("State", self.state, False),
            (*number, True),
            ("Elapsed", self.elapsed, True),
            ("Cost", self.cost, True),
        )
        parts = [fit(title, width, right=right) for title, width, right in titles if width]
        return (("  " + " ".join(parts) + " " + fit("Last", self.last) + fit("Scope", self.scope), "faint"),)


def longest_id(tasks: Sequence[TaskView]) -> int:
    """The cells of the longest id."""
    return max(
        (
            len(view.task.id) if view.task.id.isascii() else cell_len(safe_text(view.task.id))
            for view in tasks
        ),
        default=2,
    )


def task_row(
    view: TaskView,
    columns: Columns,
    now: float,
    others: Mapping[str, TaskView],
    batches: Mapping[str, BatchView],
    *,
    here: bool = False,
    marked: bool = False,
    tell_problem: bool = False,
    stuck: Container[str] = (),
) -> Line:
    """The row of a task. `here`: the cursor is on it; `marked`: it is chosen for the next command.

    `tell_problem`: say why it is tried again rather than what it does; `stuck` holds the tasks that are blocked.
    """
    look = look_of(view, stuck)
    calm = "muted" if view.state.ended and view.state is not TaskState.FAILED else "text"
    spans: list[Span] = [("▌" if here else " ", "accent"), ("◆" if marked else " ", "accent")]
    spans.append((fit(safe_text(view.task.id), columns.id) + " ", f"{calm} strong" if here else calm))
    spans.append((look.glyph + " ", look.tone))
    spans.append((fit(look.word, columns.state - 2) + " ", look.tone))
    if columns.bar:
        spans += [*stage_bar(view), (" ", "text")]
    begun = view.started is not None
    if columns.attempt:
        again = "warn" if view.attempt > 1 and not view.state.ended else calm
        spans.append(
            (fit(str(view.attempt) if view.attempt else "", columns.attempt, right=True) + " ", again)
        )
    if columns.elapsed:
        spans.append(
            (fit(duration(view.elapsed(now)) if begun else "", columns.elapsed, right=True) + " ", calm)
        )
    if columns.cost:
        cost = lacking(dollars(view.usd), view.unpriced) if view.usd or view.unpriced else ""
        spans.append((fit(cost, columns.cost, right=True) + " ", calm))
    content, tone = last_of(view, others, batches, stuck, tell_problem=tell_problem)
    if columns.scope:
        spans.append((fit(content, columns.last - 1) + " ", tone))
        spans.append(
            (fit(safe_text(view.task.scope), columns.scope), "faint" if calm == "muted" else "muted")
        )
    else:
        spans.append((fit(content, columns.last), tone))
    return tuple(spans)


def last_of(
    view: TaskView,
    others: Mapping[str, TaskView],
    batches: Mapping[str, BatchView],
    stuck: Container[str] = (),
    *,
    tell_problem: bool,
) -> Span:
    """What the last column says, whole; `tell_problem` and `stuck` as for a row."""
    if tell_problem and view.ended_badly and view.state not in (TaskState.FAILED, TaskState.CANCELLED):
        return ended_badly(view), "muted" if view.state is TaskState.LANDED else "warn"
    return why(view, others, batches, stuck)
