"""The edits of the board on the screen: told above the keys, shown row by row, taken in or left by a key."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from engine import events as ev
from engine.model import Task
from engine.rows import BoardChange, EditKind, RowEdit
from engine.snapshot import Snapshot
from tests.tui import moments, sample_run
from tests.tui.test_keys import WIDE, calls, ready, shown, until
from tui.app import DashboardApp
from tui.edits import taking
from tui.screens.board import BoardScreen
from tui.screens.main import MainScreen
from tui.source import RecordedSource, ReplaySource, Source


def offer(source: RecordedSource, number: int, *edits: RowEdit) -> None:
    source.play(ev.BoardOffered(at=source.now(), number=number, change=BoardChange(edits)))


@pytest.mark.parametrize(
    ("key", "call"), [("y", [("take_board", 1)]), ("n", [("leave_board", 1)]), ("escape", [])]
)
async def test_the_offer_is_answered_by_a_key(key: str, call: list[object]) -> None:
    source = moments.edited()
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("b")
        await until(lambda: isinstance(app.screen, BoardScreen) and "coupon" in shown(app, "LineView"))
        await pilot.press(key)
        await until(lambda: isinstance(app.screen, MainScreen))
        assert calls(source) == call


async def test_the_answer_is_about_what_stands_on_the_screen() -> None:
    source = moments.edited()
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("b")
        await until(lambda: isinstance(app.screen, BoardScreen))
        row = sample_run.board()[20]
        offer(source, 2, RowEdit(EditKind.REMOVED, row, row))
        await until(lambda: "has not begun, and is cancelled" in shown(app, "LineView").split("\n")[0])
        await pilot.press("y")
        await until(lambda: calls(source) == [("take_board", 2)])


async def test_an_offer_that_was_answered_elsewhere_leaves_nothing_to_answer() -> None:
    source = moments.edited()
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        assert "board edited: 9 rows" in shown(app, "#banner")
        await pilot.press("b")
        await until(lambda: isinstance(app.screen, BoardScreen))
        source.play(ev.BoardTaken(at=source.now(), number=1, change=BoardChange()))
        await until(lambda: "No edit of tasks/board-T2.md waits for an answer" in shown(app, "LineView"))
        await pilot.press("y")
        await until(lambda: isinstance(app.screen, MainScreen))
        assert calls(source) == []
        assert "board edited" not in shown(app, "#banner")


async def test_a_run_that_is_only_watched_shows_the_edits_and_says_who_answers() -> None:
    source = moments.stale()
    row = sample_run.board()[20]
    offer(source, 1, RowEdit(EditKind.REMOVED, row, row))
    app = DashboardApp(source)
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await ready(app)
        await pilot.press("b")
        await until(lambda: isinstance(app.screen, BoardScreen) and "cancelled" in shown(app, "LineView"))
        await pilot.press("y")
        await until(lambda: isinstance(app.screen, MainScreen))
        await pilot.pause()
        assert [notice.message for notice in app._notifications] == [
            "read-only: this run belongs to another process"
        ]


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        ((EditKind.ADDED, EditKind.ADDED, EditKind.CHANGED), "taking in: 2 new, 1 changed"),
        ((EditKind.LATER,), "T0 has begun: its new words wait for a retry"),
        (
            (EditKind.REMOVED, EditKind.LATER, EditKind.KEPT, EditKind.NEXT_RUN),
            "taking in: 1 removed; T1 has begun: its new words wait for a retry; T2 has begun, and goes on; "
            "T3 has landed: its new words wait for the next run",
        ),
        ((EditKind.LATER, EditKind.LATER), "2 tasks: each has begun: its new words wait for a retry"),
    ],
)
def test_taking_edits_in_says_which_of_them_wait(edits: tuple[EditKind, ...], words: str) -> None:
    change = BoardChange(tuple(RowEdit(kind, Task(f"T{n}", "scope")) for n, kind in enumerate(edits)))
    assert taking(change, Snapshot()) == words


async def test_a_failed_task_takes_new_words_and_says_that_it_waits_for_a_retry() -> None:
    source = moments.failed()
    row = next(view.task for view in source.latest().tasks if view.id == sample_run.FAILING)
    offer(source, 1, RowEdit(EditKind.CHANGED, replace(row, command="pytest -q"), row))
    app = DashboardApp(source)
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await ready(app)
        await pilot.press("b")
        await until(lambda: isinstance(app.screen, BoardScreen) and bool(shown(app, "LineView")))
        told = " ".join(shown(app, "LineView").split())
        assert "changed: takes the new words; it has ended without landing: r tries it again" in told
        await pilot.press("y")
        end = f"taking in: 1 changed; {row.id} has ended without landing: r tries it again"
        await until(lambda: end in [n.message for n in app._notifications])


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (moments.running, "to be taken in or left"),
        (moments.stale, "the run's own dashboard answers"),
        (lambda: ReplaySource(sample_run.events(), monotonic=lambda: 0.0), "changed it during the run"),
    ],
)
async def test_without_an_edit_the_board_says_what_it_would_show(
    source: Callable[[], Source], words: str
) -> None:
    app = DashboardApp(source())
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("b")
        await until(lambda: isinstance(app.screen, BoardScreen))
        await until(lambda: words in " ".join(shown(app, "LineView").split()))


async def test_a_task_whose_row_was_rewritten_says_that_a_retry_takes_the_new_words() -> None:
    source = moments.edited()
    change = source.latest().offer
    assert change is not None
    source.play(ev.BoardTaken(at=source.now(), number=1, change=change.change))
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        app.open_task("T2.10")
        await pilot.pause()
        await until(lambda: "a retry takes the new words" in shown(app, "#body"))
