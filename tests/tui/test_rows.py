"""The columns of the list of tasks: as many as there is room for."""

from __future__ import annotations

import pytest

from engine.model import Task, TaskState
from engine.snapshot import TaskView
from tui.line import plain, width
from tui.rows import Columns, task_row

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
