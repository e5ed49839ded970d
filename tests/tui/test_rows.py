"""The columns of the list of tasks: as many as there is room for."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from engine import events as ev
from engine.llm.prices import load_prices
from engine.model import AnswerSource, Role, Stage, Task, TaskState, Usage
from engine.state import RunState
from engine.task_view import CallView, TaskView
from tests import samples
from tui.bill import cost_lines, source_of
from tui.line import plain, width
from tui.rows import Columns, task_row, why
from tui.sections import head_lines

VIEW = TaskView(Task("T1", "Round once, at the end", after=("T0",)), TaskState.WAITING)


@pytest.mark.parametrize("cells", [30, 50, 80, 110, 116, 200, 400])
def test_a_row_and_its_titles_fill_the_width(cells: int) -> None:
    columns = Columns.of(cells, 5)
    assert width(columns.header()) == cells
    assert width(task_row(VIEW, columns, 0.0, {}, {})) == cells


@pytest.mark.parametrize(
    ("cells", "reasons", "told"), [(80, False, False), (118, False, True), (118, True, False)]
)
def test_where_there_is_room_a_row_says_what_the_task_is(cells: int, reasons: bool, told: bool) -> None:
    columns = Columns.of(cells, 5, reasons=reasons)
    assert ("Scope" in plain(columns.header())) is told
    assert ("Round once" in plain(task_row(VIEW, columns, 0.0, {}, {}))) is told


def test_a_sum_that_lacks_calls_has_a_plus_behind_it() -> None:
    call = CallView(
        "c1", 1, Role.JUDGE, "llama", 0.0, ended=1.0, source=AnswerSource.CALL, usage=Usage(input=900)
    )
    view = TaskView(VIEW.task, TaskState.RUNNING, attempt=1, started=0.0, unpriced=1, calls=(call,))
    row = plain(task_row(view, Columns.of(118, 5), 1.0, {}, {}))
    assert " $0.00+ " in row
    assert "  $0.00+" in plain(head_lines(view, 1.0, 118)[0])
    told = [plain(line) for line in cost_lines(view, 118)]
    assert told[0].startswith("spent  $0.00+ ")
    assert "+ 1 call without a known price is not in it" in told
    assert "attempt 1     $0.00+" in told
    assert any("900      0        ?" in line for line in told), told


def test_a_bill_of_one_model_names_its_rates() -> None:
    def call(model: str, source: AnswerSource = AnswerSource.CALL, prompt: int = 900) -> CallView:
        usage = Usage(input=prompt)
        return CallView("c", 1, Role.JUDGE, model, 0.0, ended=1.0, source=source, usage=usage, usd=0.1)

    def told(*calls: CallView) -> str:
        view = TaskView(VIEW.task, TaskState.RUNNING, attempt=1, started=0.0, calls=calls)
        lines = [plain(line) for line in cost_lines(view, 80, load_prices())]
        assert max(map(len, lines)) <= 80
        return "\n".join(lines)

    opus, other = call("claude-opus-5-5"), call("claude-sonnet-5-5", AnswerSource.CACHE)
    assert re.search(r"cache read .* \$0\.20\n", told(opus, other)), "what was used again costs nothing"
    assert f"for a million, by the prices of {load_prices().dated}" in told(opus)
    several = call("claude-sonnet-5-5")
    long = call("claude-haiku-5-5", prompt=200_000)
    assert re.search(r"output .* \$2\.50\n", told(long))
    for calls in (
        (opus, several),
        (long, call("claude-haiku-5-5")),
        (call("llama"),),
        (replace(opus, agent=True),),
    ):
        assert "for a million" not in told(*calls)


def test_a_call_that_was_ended_with_its_task_has_not_failed() -> None:
    state = RunState()
    state.apply(samples.started(VIEW.task))
    state.apply(samples.begun("T1", at=1.0))
    asked = ev.AgentAsked(at=2.0, call="c1", task="T1", attempt=1, role=Role.IMPLEMENTER, model="sh")
    for event in (asked, ev.CallStarted(at=2.0, call="c2", task="T1", attempt=1, role=Role.JUDGE, model="m")):
        state.apply(event)
    state.apply(ev.TaskEnded(at=3.0, task="T1", state=TaskState.CANCELLED, reason="cancelled"))
    assert [source_of(call) for call in state.view("T1").calls] == ["stopped", "stopped"]


def test_what_a_tool_prints_in_columns_is_told_without_them() -> None:
    """The row of a test run showed its dots, and then nothing but blanks."""
    line = f"...{' ' * 60}[100%]"
    view = TaskView(Task("T1", "a scope"), TaskState.RUNNING, attempt=1, stage=Stage.VERIFY, last=line)
    assert why(view, {}, {}) == ("... [100%]", "muted")
