"""Lines, cutting and wrapping by cells, and text that must not do anything."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from engine import events as ev
from engine.model import TaskState
from engine.snapshot import RunView, Snapshot
from engine.state import RunState
from tests import samples
from tests.tui import moments, sample_run
from tui.estimates import time_to_go
from tui.format import dollars, fit, safe_lines, safe_text
from tui.frame import Frame
from tui.headless import ProgressLines
from tui.line import bar, cut_line, hard_wrapped, plain, sparkline, spread, text, width, wrapped
from tui.notify import ending
from tui.plain import money
from tui.rows import Columns
from tui.source import RecordedSource
from tui.source.protocol import Health
from tui.source.replay import Tape
from tui.source.runs import ListedRun, Progress
from tui.tape import tape_line
from tui.widgets.banner import banner_line
from tui.widgets.header import header_line, health_of
from tui.widgets.run_list import run_line

_NASTY = st.text(
    alphabet=st.one_of(
        st.characters(),
        st.sampled_from(
            ["\x1b", "[", "]", "/", "\r", "\n", "\t", "\x9b", "漢", "👩", "\u200d", "💻", "\u202e"]
        ),
    ),
    max_size=80,
)


@given(_NASTY)
def test_safe_text_holds_nothing_that_moves_the_cursor(content: str) -> None:
    shown = safe_text(content)
    assert all(c.isprintable() or c in "\u200c\u200d" for c in shown)
    assert len(shown) <= 400


@given(_NASTY)
def test_safe_lines_hold_nothing_that_moves_the_cursor(content: str) -> None:
    assert all(c.isprintable() or c in "\u200c\u200d" for line in safe_lines(content) for c in line)


def test_markup_is_shown_as_it_stands() -> None:
    assert safe_text("[/] [red]list[int][/red]") == "[/] [red]list[int][/red]"


def test_escape_sequences_go_whole() -> None:
    assert safe_text("a\x1b[31mred\x1b[0m b\x1b]0;title\x07c\x1b[2J") == "ared bc"
    assert safe_lines("one\x1b[1mtwo\nthree") == ["onetwo", "three"]


def test_a_progress_bar_leaves_its_last_state() -> None:
    assert safe_lines("10%\r50%\r100%\r\ndone\n") == ["100%", "done"]


def test_tabs_keep_columns() -> None:
    assert safe_lines("a\tb") == ["a   b"]


@given(_NASTY, st.integers(min_value=1, max_value=60), st.booleans())
def test_fit_gives_exactly_the_cells_asked_for(content: str, cells: int, right: bool) -> None:
    assert cell_len(fit(safe_text(content), cells, right=right)) == cells


def test_fit_cuts_wide_characters_without_halving_them() -> None:
    assert fit("漢字漢字", 6) == "漢字 …"
    assert fit("👩‍💻 works", 4) == "👩‍💻 …"


@given(_NASTY, _NASTY, st.integers(min_value=1, max_value=60))
def test_a_cut_line_never_leaves_its_cells(first: str, second: str, cells: int) -> None:
    line = (*text(safe_text(first)), *text(safe_text(second), "bad"))
    assert width(cut_line(line, cells)) <= cells


@given(_NASTY, _NASTY, st.integers(min_value=2, max_value=40))
def test_wrapping_loses_nothing_but_blanks(first: str, second: str, cells: int) -> None:
    line = (*text(safe_text(first)), *text(safe_text(second), "bad"))
    rows = hard_wrapped(line, cells)
    assert all(width(row) <= cells for row in rows)
    told = "".join(content for row in rows for content, _ in row)
    expected = "".join(content for content, _ in line)
    assert told.replace(" ", "") == expected.replace(" ", "")


@pytest.mark.parametrize("cells", [1, 0, -2])
def test_wrapping_ends_where_there_is_no_room(cells: int) -> None:
    assert [plain(row) for row in hard_wrapped(text("ab漢"), cells)] == ["a", "b", "\ufffd", ""]


def test_prose_breaks_between_words() -> None:
    assert [row[0][0] for row in wrapped("one two three four", 9, indent="")] == ["one two", "three", "four"]


def test_a_word_longer_than_the_line_is_broken() -> None:
    rows = [row[0][0] for row in wrapped("x" * 20, 10)]
    assert rows == ["x" * 10, "x" * 10]


def test_spread_leaves_the_right_part_out_when_there_is_no_room() -> None:
    assert width(spread(text("left"), text("right"), 20)) == 20
    assert spread(text("left"), text("right"), 8) == text("left")


def test_a_bar_is_full_only_when_all_is_done() -> None:
    assert bar(0.999, 10)[0][0] == "▰" * 9
    assert bar(0.001, 10)[0][0] == "▰"
    assert bar(1.0, 10)[0][0] == "▰" * 10
    assert bar(None, 10)[0][0] == ""


def test_a_sparkline_of_nothing_is_flat() -> None:
    assert sparkline([0, 0]) == (("▁▁", "faint"),)
    assert sparkline([0, 4])[0][0] == "▁█"


def test_small_sums_are_not_nothing() -> None:
    assert [dollars(usd) for usd in (0.0, 0.001, 0.05, 1234.5)] == ["$0.00", "<$0.01", "$0.05", "$1,234.50"]


def test_a_sum_below_nothing_has_its_minus_and_nothing_has_none() -> None:
    assert [dollars(usd) for usd in (-0.0, -0.0008, -0.02, -3.0)] == ["$0.00", "$0.00", "−$0.02", "−$3.00"]
    assert [money(usd) for usd in (-0.0, -0.00001, -0.0008, -3.0)] == ["$0.00", "$0.00", "−$0.0008", "−$3.00"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"failed": 1, "landed": 23}, "some failed"),
        ({"failed": 0, "landed": 23}, "not all landed"),
        ({"failed": 0, "landed": 24}, "some not run"),
        ({"status": "landed"}, "all landed"),
        ({"status": "budget", "exit_status": 3}, "budget reached"),
        ({"status": "interrupted", "exit_status": 130}, "interrupted"),
        ({"status": "interrupted", "exit_status": 2}, "stopped"),
    ],
)
def test_how_a_run_ended_is_told_in_the_same_words_everywhere(changes: dict[str, Any], words: str) -> None:
    ended = sample_run.finished(2.0, **changes)
    frame = Frame(Snapshot(run=RunView(started=1.0, finished=ended)), 3.0, Health(), "LIVE")
    assert plain(health_of(frame)) == f"■ {words}"
    assert plain(banner_line(frame, 200)).startswith(f"■ run finished: {words} · ")
    assert ending(ended).startswith(f"{words}: ")
    assert list(ProgressLines(kept=False).of(ended))[1].startswith(f"{words}: ")
    run = ListedRun("r1", "board.md", "h", 1, 0.0, 2.0, ended.status)
    listed = plain(run_line(run, Progress(1, 2, finished=ended), 3.0, 80, here=False, process=False))
    assert listed[3:].startswith(f"{words} ")


def test_how_long_ago_a_run_was_counts_from_its_end() -> None:
    run = ListedRun("r1", "board.md", "h", 1, 100.0, 145.0, "landed")
    line = plain(run_line(run, None, 155.0, 80, here=False, process=False))
    assert "10 s ago" in line
    assert "00:45" in line
    known = Progress(2, 2, finished=sample_run.finished(150.0, status="landed", failed=0))
    still = replace(run, state="running")  # as the journal says: the screen knows better
    assert "5 s ago" in plain(run_line(still, known, 155.0, 80, here=False, process=False))
    going = plain(run_line(still, None, 155.0, 80, here=False, process=False))
    assert " now " in going
    assert "ago" not in going


def test_beside_what_failed_the_state_is_that_of_the_run() -> None:
    source = moments.failed()
    frame = Frame(source.latest(), source.now(), source.health(), source.mode)
    assert "✗ 1 failed" in plain(header_line(frame, 120))
    assert plain(health_of(frame)) == "● running"
    narrow = plain(header_line(frame, 40))
    assert "LIVE" in narrow
    assert "✗ 1 failed" in narrow
    assert "running" not in narrow, "whose run it is, is more than that it goes on"


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (130, "run finished: some failed · {counts} · 2 pushes · {sums} · {again} · q quits"),
        (119, "run finished: some failed · {counts} · {sums} · {again} · q quits"),
        (92, "run finished: some failed · {counts} · {again} · q quits"),
        (82, "run finished: some failed · {counts} · {again}"),
        (78, "some failed · {counts} · {again} · q quits"),
        (68, "some failed · {counts} · {again}"),
        (38, "some failed · {again}"),
    ],
)
def test_of_how_a_run_ended_what_matters_least_goes_first(cells: int, words: str) -> None:
    ended = samples.finished(at=2.0, status="failed", landed=5, failed=1, blocked=1, pushes=2)
    frame = Frame(Snapshot(run=RunView(started=1.0, finished=ended)), 3.0, Health(), "LIVE")
    expected = words.format(
        counts="5 landed, 1 failed, 1 blocked",
        sums="$0.00 spent, $0.00 saved",
        again="r tries a task again",
    )
    assert plain(banner_line(frame, cells)) == f"■ {expected}"


def test_of_a_run_that_stopped_it_is_told_by_what() -> None:
    state = RunState().apply_all(
        [
            samples.started(at=1.0),
            ev.Noticed(at=2.0, level="error", text="cannot start agent: install it"),
            ev.Noticed(at=2.0, level="info", text="a batch goes on"),
        ]
    )

    def told() -> str:
        return plain(banner_line(Frame(state.snapshot(), 3.0, Health(), "WATCH"), 130))

    state.apply(samples.finished(at=2.0, status="interrupted", exit_status=2))
    assert told().startswith("■ run finished: stopped · 0 landed · cannot start agent: install it · ")
    state.apply(ev.RunResumed(at=9.0, host="h", pid=2))
    state.apply(samples.finished(at=10.0, status="interrupted", exit_status=2))
    assert "cannot start" not in told(), "that was the process before"
    state.apply(ev.Noticed(at=11.0, level="error", text="a later one"))
    state.apply(samples.finished(at=12.0, status="interrupted", exit_status=130))
    assert "a later one" not in told(), "somebody quit"


def test_a_replay_over_a_run_ends_with_how_to_leave_it() -> None:
    ended = samples.finished(at=2.0, status="landed", landed=5, failed=0, blocked=0, pushes=2)
    snapshot = Snapshot(run=RunView(started=1.0, finished=ended))
    over = plain(banner_line(Frame(snapshot, 3.0, Health(), "REPLAY", over=True), 130))
    assert over.endswith(" · esc leaves the replay")
    assert plain(banner_line(Frame(snapshot, 3.0, Health(), "REPLAY"), 130)).endswith(" · q quits")
    tape = Tape(120.0, 4.0, lambda: 0.0)
    assert "▱ esc leaves the replay  02:00" in plain(tape_line(tape, 80, over=True))


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (80, "02:00  ×4  p play/pause  [ ] jump  < > speed"),
        (60, "02:00  ×4  p play/pause  [ ] jump"),
        (46, "02:00  ×4  p play/pause"),
        (32, "02:00  ×4"),
    ],
)
def test_a_narrow_replay_loses_its_hints_one_by_one(cells: int, words: str) -> None:
    tape = Tape(120.0, 4.0, lambda: 0.0)
    tape.seek(30.0)
    shown = plain(tape_line(tape, cells))
    assert cell_len(shown) == cells
    assert shown.strip("▰▱ ").replace("▱", "▰").split("▰")[-1].strip() == words
    assert shown.startswith(" ‖ 00:30 ▰▰")


@pytest.mark.parametrize(
    ("cells", "titles"),
    [
        (80, "  ID    State         Attempt Elapsed    Cost Last"),
        (56, "  ID    State        Att Elapsed    Cost Last"),
        (40, "  ID    State        Last"),
    ],
)
def test_the_titles_name_the_columns_in_the_words_of_the_settings(cells: int, titles: str) -> None:
    assert plain(Columns.of(cells, 5).header()).rstrip() == titles


@given(st.integers(min_value=38, max_value=200), st.sampled_from(sorted(moments.MOMENTS)))
@settings(max_examples=60, deadline=None)
def test_the_header_fits_and_always_tells_what_landed_and_what_failed(cells: int, moment: str) -> None:
    source = _moment(moment)
    frame = Frame(source.latest(), source.now(), source.health(), source.mode)
    shown = plain(header_line(frame, cells, time_to_go(frame.snapshot, frame.now)))
    assert cell_len(shown) <= cells
    known = frame.snapshot.run.started is not None
    assert (" landed" in shown) is known or frame.snapshot.run.finished is not None
    failed = frame.snapshot.count(TaskState.FAILED)
    if failed and cells >= 60:
        assert f"{failed} failed" in shown
    if frame.snapshot.run.budget_reached:
        assert "budget reached" in shown


@cache
def _moment(name: str) -> RecordedSource:
    return moments.MOMENTS[name]()
