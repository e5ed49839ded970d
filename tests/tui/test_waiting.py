"""What a task waits for is told in the same words everywhere, and one that waits in vain is blocked."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from engine.blocked import blocked
from engine.closing import closing
from engine.course import Course
from engine.model import Stage, Task, TaskState
from engine.snapshot import RunView, Snapshot
from engine.task_view import TaskView
from tui.line import plain
from tui.order import Listing, Order
from tui.panels.dispatch import counts_of
from tui.rows import look_of, why
from tui.sections import timeline_lines
from tui.sums import counts_at_the_end
from tui.waiting import awaited


def _view(name: str, state: TaskState, *after: str) -> TaskView:
    return TaskView(Task(name, f"scope of {name}", after=after), state)


_VIEWS = (
    _view("T1", TaskState.LANDED),
    _view("T2", TaskState.FAILED, "T1"),
    _view("T3", TaskState.WAITING, "T1", "T8", "T2"),
    _view("T4", TaskState.WAITING, "T3"),
    _view("T5", TaskState.CANCELLED),
    _view("T6", TaskState.WAITING, "T5"),
    _view("T7", TaskState.WAITING, "T8"),
    replace(_view("T8", TaskState.RUNNING), stage=Stage.PLAN),
)


def _snapshot(*views: TaskView, run: RunView | None = None) -> Snapshot:
    views = views or _VIEWS
    counts: dict[TaskState, int] = {}
    for view in views:
        counts[view.state] = counts.get(view.state, 0) + 1
    return Snapshot(run=run or RunView(started=0.0), tasks=views, counts=counts)


@pytest.mark.parametrize(
    ("task", "word", "words"),
    [
        ("T3", "blocked", "after T2 (failed), T8"),
        ("T4", "blocked", "after T3 (blocked)"),
        ("T6", "blocked", "after T5 (cancelled)"),
        ("T7", "waiting", "after T8"),
    ],
)
def test_what_a_task_waits_for_is_told_in_one_form(task: str, word: str, words: str) -> None:
    snapshot = _snapshot()
    stuck, known = blocked(snapshot), {view.id: view for view in snapshot.tasks}
    view = known[task]
    assert awaited(view, known.get, stuck) == words
    assert look_of(view, stuck).word == word
    assert why(view, known, {}, stuck)[0] == words
    assert plain(timeline_lines(view, 0.0, 80, awaited(view, known.get, stuck))[0]) == f"not started: {words}"


def test_the_blocked_are_counted_and_found_by_that_word() -> None:
    snapshot = _snapshot()
    counts = ["1 running", "1 failed", "1 cancelled", "3 blocked", "1 waiting", "1 landed"]
    assert counts_of(snapshot) == counts
    rows = Listing().rows(snapshot.tasks, Order.BOARD, 0.0, filter_text="blocked", stuck=blocked(snapshot))
    assert [row.id for row in rows if isinstance(row, TaskView)] == ["T3", "T4", "T6"]


def test_who_stands_above_what_it_waits_for_is_blocked_too() -> None:
    assert blocked(_snapshot(*reversed(_VIEWS))) == {"T3", "T4", "T6"}


def test_nobody_is_blocked_while_nothing_went_wrong() -> None:
    assert blocked(_snapshot(*_VIEWS[-2:])) == frozenset()


async def test_the_end_of_a_run_counts_apart_who_waits_in_vain_and_who_only_waits() -> None:
    """An interrupted run told what had not come to its turn as blocked, and what was at work or queued not at all."""
    course = Course()
    course.stopping.set()
    ended = closing(_snapshot(), course, at=2.0)
    assert (ended.status, ended.blocked, ended.waiting) == ("interrupted", 3, 2)
    snapshot = _snapshot(run=RunView(started=0.0, finished=ended))
    assert len(blocked(snapshot)) == ended.blocked
    assert counts_at_the_end(ended) == ["1 failed", "1 cancelled", "3 blocked", "2 left"]
    assert ended.total == ended.landed + ended.failed + ended.cancelled + ended.blocked + ended.waiting
    only = closing(_snapshot(*_VIEWS[-2:]), course, at=2.0)
    assert (only.blocked, only.waiting) == (0, 2)


def test_the_end_of_a_run_counts_the_rows_that_could_not_run() -> None:
    snapshot = replace(_snapshot(), refused=("line 3: it has no command", "line 4: it waits for line 3"))
    ended = closing(snapshot, Course(), at=2.0)
    assert (ended.not_run, ended.total) == (2, 8)
    assert counts_at_the_end(ended)[-1] == "2 rows not run"


def test_of_many_that_are_waited_for_the_first_are_named() -> None:
    view = _view("T9", TaskState.WAITING, *(f"A{n}" for n in range(20)))
    assert awaited(view, {}.get) == "after A0, A1, A2, A3, A4, A5, A6, A7, 12 more"
