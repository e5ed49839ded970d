"""Progress as plain lines, and the thread that prints it."""

from __future__ import annotations

import contextlib
import io
import os
import threading
from collections.abc import Iterator
from typing import TextIO

import msgspec
import pytest

from engine import events as ev
from engine.figures import PeerFigures
from engine.model import BoardStatus, Task
from engine.rows import BoardChange, EditKind, RowEdit
from engine.state import RunState
from tests.samples import START, finished, short_run
from tui.headless import ProgressLines
from tui.plain import ago, count, duration, money, one_line, size, table, thousands
from tui.printer import EventPrinter


def told(events: list[ev.Event]) -> list[str]:
    lines = ProgressLines()
    return [line for event in events for line in lines.of(event)]


def test_each_fact_worth_a_line_gets_one() -> None:
    assert told(short_run()) == [
        "00:00  run    r1: 3 tasks of tasks/board.md, 4 at once; lands on taskyard/board, pushed to origin",
        "00:02  T1     started",
        "00:04  T1     changed 2 files, +41 −7, 1111111",
        "00:06  T2     started",
        "00:08  T2     changed 2 files, +41 −7, 2222222",
        "00:09  T2     attempt 1 failed in verify: 3 != 4 [31m [/]",
        "00:10  T2     lesson: round once, at the end (seen 3 times)",
        "00:11  T2     started, attempt 2",
        "00:12  T1     verified, not judged; waits for a train",
        "00:13  T2     verified, not judged; waits for a train",
        "00:14  train  1 departs with T1, T2",
        "00:15  push   train 1 to origin/taskyard/board, fffffff",
        "00:16  T1     landed with train 1, 1111111",
        "00:17  T2     landed with train 1, 2222222",
        "00:18  train  1 landed 2 tasks",
        "00:19  T3     started",
        "00:20  T3     failed: no change was made (attempt 2 of 2)",
        "",
        "some failed: 2 of 3 landed, 1 failed, in 01:12",
        "  git      1 push for 2 tasks, 1 saved",
        "  models   2 calls, 0 answers used again",
        "  tokens   input 2.4k, cache read 62.0k, output 680",
        "  cost     $1.00, $0.50 saved: prompts $0.50",
        "  failed   T3  no change was made (attempt 2 of 2)",
    ]


@pytest.mark.parametrize(
    ("exit_status", "kept", "words"),
    [
        (130, True, "interrupted; the same command goes on from here"),
        (130, False, "interrupted"),
        (2, True, "stopped: mend that, and the same command goes on from here"),
        (2, False, "stopped"),
    ],
)
def test_a_run_that_stopped_says_how_it_goes_on(exit_status: int, kept: bool, words: str) -> None:
    end = finished(at=START, status="interrupted", exit_status=exit_status, total=3, landed=2)
    assert list(ProgressLines(kept=kept).of(end))[1] == f"{words}: 2 of 3 landed, in 00:00"


def test_others_on_the_board_are_told() -> None:
    def seen(at: int, *peers: PeerFigures) -> ev.Measured:
        return ev.Measured(at=START + at, peers=peers)

    def elsewhere(at: int, task: str, host: str, pid: int) -> ev.TaskElsewhere:
        return ev.TaskElsewhere(at=START + at, task=task, host=host, pid=pid)

    start = short_run()[0]
    assert isinstance(start, ev.RunStarted)
    me = PeerFigures("ada", 1, start.run, START)
    bea, cyd = PeerFigures("bea", 917, "r2", START), PeerFigures("cyd\x1b[2J", 7, "r3", START)
    gone = msgspec.structs.replace(bea, present=False, landed=2)
    lines = told(
        [
            start,
            seen(1, me),
            seen(2, me, bea),
            elsewhere(3, "T1", "bea", 917),
            elsewhere(3, "T2", "bea", 917),
            elsewhere(4, "T3", "bea", 917),
            seen(5, me, bea, cyd),
            seen(6, me, bea, msgspec.structs.replace(cyd, working=1)),
            ev.TaskLanded(at=START + 7, task="T3", commit="3" * 40, train=0, by="bea:917"),
            seen(8, me, gone, cyd),
            elsewhere(9, "T1", "cyd", 7),
            ev.TaskQueued(at=START + 9, task="T2"),
            ev.AttemptStarted(at=START + 10, task="T2", attempt=1, branch="b", base="c"),
            ev.LocksChanged(at=START + 11, problem="the server does not answer"),
            ev.LocksChanged(at=START + 12),
            ev.TaskLanded(at=START + 13, task="T1", commit="1" * 40, train=0),
            seen(14, me, gone, msgspec.structs.replace(cyd, landed=1, finished=True)),
            seen(15, me, gone, msgspec.structs.replace(cyd, landed=1, finished=True, present=False)),
        ]
    )
    assert lines[1:] == [
        "00:02  run    bea, process 917 has joined: 2 orchestrators at work",
        "00:05  run    cyd, process 7 has joined: 3 orchestrators at work",
        "00:07  T3     landed, 3333333 by bea:917",
        "00:08  run    bea, process 917 has left, with 2 tasks landed: 2 orchestrators at work",
        "00:09  T1     taken over from bea, process 917 by cyd, process 7",
        "00:10  T2     started, taken over from bea, process 917",
        "00:11  run    error: the server does not answer: no task is claimed and nothing lands until it is back",
        "00:12  run    the locks are back, and the run goes on",
        "00:13  T1     landed, 1111111",
        "00:14  run    cyd, process 7 has finished, with 1 task landed: 1 orchestrator at work",
    ]
    assert told([start, seen(2, me, bea, cyd)])[1:] == [
        "00:02  run    shares the board with bea, process 917; cyd, process 7: 3 orchestrators at work"
    ]


def test_a_push_of_the_boards_new_states_is_told_as_that() -> None:
    start, finished = short_run()[0], short_run()[-1]
    assert isinstance(finished, ev.RunFinished)
    push = ev.Pushed(at=START + 20, train=0, ref="taskyard/board", tip="f" * 40)
    end = msgspec.structs.replace(finished, landed=0, failed=3, trains=0)
    lines = told([start, push, end])
    assert lines[1] == "00:20  push   the board's new states to taskyard/board, fffffff"
    assert "  git      1 push of the board's states" in lines
    assert "  git      nothing landed, nothing pushed" in told([start, end])
    *before, _ = short_run()
    lines = told([*before, push, msgspec.structs.replace(finished, pushes=2)])
    assert "  git      2 pushes for 2 tasks; 1 push of the board's states alone" in lines


def test_a_resumed_run_goes_on_from_what_is_known() -> None:
    *known, finished = short_run()
    lines = ProgressLines(RunState().apply_all(known).snapshot())
    resumed = ev.RunResumed(at=START + 60, host="here", pid=77)
    assert list(lines.of(resumed)) == ["00:20  run    taken up again by process 77"]
    assert "  failed   T3  no change was made (attempt 2 of 2)" in list(lines.of(finished))


def test_a_resumed_run_tells_what_of_its_settings_is_other() -> None:
    *known, _ = short_run()
    state = RunState().apply_all([msgspec.structs.replace(known[0], roles={"judge": "opus"}), *known[1:]])
    names = ev.RunSetup.__struct_fields__
    same = ev.RunSetup(**{name: getattr(state.run, name) for name in names})
    other = msgspec.structs.replace(
        same, max_concurrency=9, budget_usd=2.5, remote="", roles={**same.roles, "judge": "none"}
    )
    lines = ProgressLines(state.snapshot())
    told = [
        list(lines.of(ev.RunResumed(at=START + 60 + pid, host="here", pid=pid, setup=setup)))
        for pid, setup in ((1, same), (2, other), (3, other))
    ]
    assert told == [
        ["00:20  run    taken up again by process 1"],
        [
            "00:20  run    taken up again by process 2: now 9 at once, budget $2.50, judge none, "
            "lands on taskyard/board, kept local: there is no remote"
        ],
        ["00:20  run    taken up again by process 3"],
    ]


def test_what_landed_before_the_run_saved_it_nothing() -> None:
    begun, *rest = short_run()
    assert isinstance(begun, ev.RunStarted)
    before = tuple(Task(f"B{n}", "Old", status=BoardStatus.LANDED) for n in range(30))
    *_, end = rest
    assert isinstance(end, ev.RunFinished)
    end = msgspec.structs.replace(end, total=33, landed=32)
    lines = told([msgspec.structs.replace(begun, tasks=(*begun.tasks, *before)), *rest[:-1], end])
    assert "some failed: 32 of 33 landed, 1 failed, in 01:12" in lines
    assert "  git      1 push for 2 tasks, 1 saved" in lines


def test_only_rows_that_still_cannot_run_are_listed_at_the_end() -> None:
    *before, end = short_run()
    wrong = "tasks/board.md, line 9: T4 waits for T9, which the board does not have"
    told_of = [
        ev.Noticed(at=START + 1, level="error", text=wrong, task="T4"),
        ev.RowsRefused(at=START + 1, rows=(wrong,)),
    ]
    assert isinstance(end, ev.RunFinished)
    lines = told([*before, *told_of, msgspec.structs.replace(end, not_run=1)])
    assert f"  not run  {wrong}" in lines
    assert "some failed: 2 of 3 landed, 1 failed, 1 row not run, in 01:12" in lines
    mended = ev.RowsRefused(at=START + 2, rows=())
    assert [line for line in told([*before, *told_of, mended, end]) if "not run" in line] == []


def test_a_row_that_came_and_went_is_not_told_as_cancelled() -> None:
    *before, end = short_run()
    row = Task("T9", "scope")
    taken = [
        ev.BoardTaken(at=START + 1, change=BoardChange((RowEdit(kind, row),)))
        for kind in (EditKind.ADDED, EditKind.REMOVED)
    ]
    assert [line for line in told([*before, *taken, end]) if "cancelled" in line] == []


def test_a_cycle_that_opens_with_the_compact_state_is_enough() -> None:
    *known, finished = short_run()
    state = msgspec.Raw(msgspec.json.encode(RunState().apply_all(known).snapshot()))
    lines = told([ev.CycleStarted(at=START + 50, cycle=2, state=state), finished])
    assert "  git      1 push for 2 tasks, 1 saved" in lines


def test_a_reader_that_goes_away_is_told_once_and_the_run_is_not_disturbed() -> None:
    reading, writing = os.pipe()
    closed = threading.Event()
    calls: list[None] = []

    def on_closed() -> None:
        calls.append(None)
        closed.set()

    with _stream(writing) as stream:
        printer = EventPrinter(stream, None, on_closed=on_closed)
        os.close(reading)
        for event in short_run():
            printer.print(event)
        assert closed.wait(timeout=200)
        assert printer.close(10)
        assert isinstance(printer.problem, BrokenPipeError)
        assert len(calls) == 1


def test_a_reader_that_stops_reading_does_not_keep_the_printer_from_closing() -> None:
    reading, writing = os.pipe()
    with _stream(writing) as stream:
        printer = EventPrinter(stream, None)
        for number in range(100):
            printer.print(ev.Noticed(at=float(number), level="info", text="x" * 4096))
        assert not printer.close(0.05)
        os.close(reading)
        assert printer.close(10)


@contextlib.contextmanager
def _stream(descriptor: int) -> Iterator[TextIO]:
    stream = os.fdopen(descriptor, "w")
    yield stream
    with contextlib.suppress(BrokenPipeError):
        stream.close()


def test_json_lines_are_the_events() -> None:
    stream = io.StringIO()
    printer = EventPrinter(stream, None)
    for event in short_run():
        printer.print(event)
    assert printer.close(10)
    assert [ev.decode(line.encode()) for line in stream.getvalue().splitlines()] == short_run()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("[red]x[/]", "[red]x[/]"),
        ("a\x1b[2Jb\rc\x07", "a [2Jb c"),
        ("one\ntwo\u2028three\ttab", "one two three tab"),
        ("漢字 👩\u200d💻 é", "漢字 👩\u200d💻 é"),
        ("a\u202eb", "a\ufffdb"),
        ("\udc80", "\ufffd"),
    ],
)
def test_text_from_elsewhere_cannot_move_the_cursor(text: str, shown: str) -> None:
    assert one_line(text) == shown


def test_long_text_is_cut() -> None:
    assert one_line("x" * 500, 10) == "xxxxxxxxx…"
    assert len(one_line("\x00y" * 100_000)) <= 400


def test_figures_have_their_units() -> None:
    assert [count(1, "push", "pushes"), count(1200, "task")] == ["1 push", "1,200 tasks"]
    assert [money(0), money(0.0042), money(1234.5)] == ["$0.00", "$0.0042", "$1,234.50"]
    assert [duration(-1), duration(252.9), duration(3852)] == ["00:00", "04:12", "1:04:12"]
    assert [size(812), size(4100), size(41_000_000), size(999_600)] == ["812 B", "4.1 kB", "41 MB", "1.0 MB"]
    assert [thousands(812), thousands(4100), thousands(999_600), thousands(151_000)] == [
        "812",
        "4.1k",
        "1.0M",
        "151k",
    ]
    assert [ago(0.5), ago(59), ago(720), ago(11_000), ago(800_000)] == ["0 s", "59 s", "12 min", "3 h", "9 d"]


def test_columns_line_up_by_cells_not_by_characters() -> None:
    assert table(("ID", "N", "Last"), [("漢字", "9", "x"), ("T1", "12", "")], right=frozenset({1})) == [
        "ID     N  Last",
        "漢字   9  x",
        "T1    12",
    ]


def test_edits_of_the_board_are_told_in_one_line_each() -> None:
    row = Task("T9", "Ninth")
    change = BoardChange(
        (RowEdit(EditKind.ADDED, row), RowEdit(EditKind.KEPT, Task("T1", "First"))), ("line 9: no",)
    )
    lines = told(
        [
            ev.BoardOffered(at=1.0, number=1, change=change),
            ev.BoardOffered(at=1.0, number=2, change=BoardChange()),
            ev.BoardTaken(at=1.0, change=change),
            ev.BoardLeft(at=1.0, number=1),
        ]
    )
    assert [line.removeprefix("00:00  board  ") for line in lines] == [
        "was edited (1 new, 1 removed, 1 mistake): the dashboard asks whether to take that in",
        "is as the run has it again",
        "taken in: T9 new",
        "its edits are left to the next run",
    ]
