"""What waits for what: circles, unknown ids, and everything behind them."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

from hypothesis import given
from hypothesis import strategies as st

from engine.board.dependencies import blocked
from engine.model import BoardStatus, Task
from tests.board.boards import board, row, runnable, told


def test_an_unknown_id_and_all_behind_it() -> None:
    found = board(row("T1", "T9, T8"), row("T2", "T1"), row("T3"))
    assert told(found) == [
        "line 3: T1 waits for T9, T8, which the board does not have",
        "line 4: T2 waits for T1 (line 3), which cannot run",
    ]
    assert runnable(found) == ["T3"]


def test_a_circle_names_every_task_and_every_line() -> None:
    found = board(row("T1", "T3"), row("T2", "T1"), row("T3", "T2"), row("T4", "T1"), row("T5"))
    circle = "T1, T2, T3 wait for each other in a circle (lines 3, 4, 5)"
    assert told(found)[:3] == [f"line 3: {circle}", f"line 4: {circle}", f"line 5: {circle}"]
    assert told(found)[3] == "line 6: T4 waits for T1 (line 3), which cannot run"
    assert runnable(found) == ["T5"]


def test_a_task_that_waits_for_itself() -> None:
    assert told(board(row("T1", "T1"))) == ["line 3: T1 waits for itself"]


def test_two_circles_are_told_apart() -> None:
    found = board(row("A", "B"), row("B", "A"), row("C", "D, A"), row("D", "C"))
    assert [d.message.split(" wait")[0] for d in found.diagnostics] == ["A, B", "A, B", "C, D", "C, D"]


def test_a_landed_task_waits_for_nothing_and_blocks_nobody() -> None:
    found = board(row("T1", "T9", status="[x]"), row("T2", "T1"), row("T3", "T3", status="[x]"))
    assert found.diagnostics == ()
    assert runnable(found) == ["T2"]


def test_a_long_chain_and_a_long_circle() -> None:
    length = 5_000
    chain = [row("T0")] + [row(f"T{n}", f"T{n - 1}") for n in range(1, length)]
    assert len(board(*chain).runnable) == length
    chain[0] = row("T0", f"T{length - 1}")
    found = board(*chain)
    assert len(found.diagnostics) == length
    assert "and 4992 more" in found.diagnostics[0].message
    assert found.runnable == ()


IDS = [f"T{n}" for n in range(8)]


@given(
    st.dictionaries(st.sampled_from(IDS), st.lists(st.sampled_from(IDS), max_size=3)),
    st.sets(st.sampled_from(IDS)),
)
def test_what_is_not_blocked_can_run_in_some_order(waits: dict[str, list[str]], landed: set[str]) -> None:
    tasks = {
        id: Task(id=id, scope=id, after=tuple(after), status=BoardStatus("[x]" if id in landed else "[ ]"))
        for id, after in waits.items()
    }
    stopped = [id for id, _ in blocked(tasks, ())]
    free = {id: set(tasks[id].after) for id in tasks if id not in stopped and id not in landed}
    done = landed & tasks.keys()
    order = [id for id in TopologicalSorter(free).static_order() if id not in done]
    assert sorted(order) == sorted(free), "only free tasks, each of them"
    for id in set(stopped):
        assert id not in landed
        try:
            needed = set(TopologicalSorter({i: tasks[i].after for i in _behind(id, tasks)}).static_order())
        except CycleError:
            continue
        assert needed - tasks.keys(), "a blocked task has a circle or an unknown id somewhere behind it"


def _behind(id: str, tasks: dict[str, Task]) -> set[str]:
    """The task and all open tasks it needs."""
    found: set[str] = set()
    ahead = [id]
    while ahead:
        at = ahead.pop()
        if at in tasks and at not in found and tasks[at].status is not BoardStatus.LANDED:
            found.add(at)
            ahead += tasks[at].after
    return found
