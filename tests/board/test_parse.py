"""Reading a board: every way people write one, and every mistake told by its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.board import parse_board, read_board, starter_board
from engine.board.parse import read_verification
from engine.errors import BoardError
from engine.model import BoardStatus, Lane, Task
from tests.board.boards import HEADER, board, row, runnable, told


def test_a_row_becomes_a_task() -> None:
    found = board("| T1 | Add a total | [ ] | task/T1 | `pytest -q` rounds half up | |")
    assert found.tasks == (
        Task(
            id="T1",
            scope="Add a total",
            branch="task/T1",
            command="pytest -q",
            acceptance="rounds half up",
            line=3,
        ),
    )
    assert found.diagnostics == ()
    assert found.task("T1") is found.tasks[0]
    assert found.task("T2") is None
    assert found.line == 1


def test_columns_in_any_order_and_case_with_extra_ones() -> None:
    header = "| Notes | status | VERIFICATION | lane | id | Priority | branch | Scope | type | after |\n"
    text = header + "|-|:-|-:|:-:|-|-|-|-|-|-|\n| n | [!] | `x` | Economy | A | -2 | | do it | fix | B |\n"
    text += "| | [X] | | | B | +7 | b | do b | | |\n"
    a, b = parse_board(text.encode(), Path("b")).tasks
    assert (a.id, a.status, a.lane, a.priority, a.type, a.after, a.branch) == (
        "A", BoardStatus.FAILED, Lane.ECONOMY, -2, "fix", ("B",), "",
    )  # fmt: skip
    assert (b.id, b.status, b.lane, b.priority, b.type, b.branch) == (
        "B", BoardStatus.LANDED, Lane.FAST, 7, "task", "b",
    )  # fmt: skip
    assert b.command is None


@pytest.mark.parametrize(
    ("cell", "command", "acceptance"),
    [
        ("`pytest -q`", "pytest -q", ""),
        ("`pytest -q`; the total is right", "pytest -q", "the total is right"),
        ("the total is right: `pytest -q`", "pytest -q", "the total is right"),
        ("`` echo `date` ``", "echo `date`", ""),
        ("```a `` b```", "a `` b", ""),
        ("only words", None, "only words"),
        ("", None, ""),
        ("` ` nothing", None, "nothing"),
    ],
)
def test_the_command_is_what_stands_in_backticks(cell: str, command: str | None, acceptance: str) -> None:
    assert read_verification(cell) == (command, acceptance, "")


def test_an_odd_verification_is_told() -> None:
    only_text = board(row("T1", verification="`pytest"))
    assert told(only_text) == ["line 3: a backtick in Verification has no partner"]
    assert runnable(only_text) == []
    with_command = board(row("T1", verification="`a` and `b`"))
    assert with_command.tasks[0].command == "a"
    assert "join commands with &&" in told(with_command)[0]
    assert runnable(with_command) == ["T1"], "a warning keeps nothing back"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r"| T1 | a \| b | [ ] | b | `x \| y` z | |", ("a | b", "x | y", "z")),
        ("| T1 | use `a|b` here | [ ] | b | `x | y` z | |", ("use `a|b` here", "x | y", "z")),
        (r"| T1 | s | [ ] | b | `grep 'a\\|b'` | |", ("s", r"grep 'a\|b'", "")),
        (r"| T1 | a \` tick | [ ] | b | `x` | |", (r"a \` tick", "x", "")),
        (r"| T1 | ends in \\ | [ ] | b | `x` | |", (r"ends in \\", "x", "")),
        ("|T1|s|[ ]|b|`x`||", ("s", "x", "")),
        ("T1 | s | [ ] | b | `x` | T9", ("s", "x", "")),
        ("| T1 | s | [ ] | b | `x` | - |   ", ("s", "x", "")),
        ("| T1 | don`t | [ ] | b | x | |", ("don`t", None, "x")),
        ("      | T1 | s | [ ] | b | `x` | — |", ("s", "x", "")),
        (
            "| T1 | 漢字 👩‍💻 [/] [red] \x1b[31m \r mid | [ ] | b | `x` | |",
            ("漢字 👩‍💻 [/] [red] \x1b[31m \r mid", "x", ""),
        ),
    ],
)
def test_cells_as_people_write_them(written: str, meant: tuple[str, str | None, str]) -> None:
    found = board(written, row("T9"))
    task = found.tasks[0]
    assert (task.scope, task.command, task.acceptance) == meant
    assert found.diagnostics == ()


def test_bom_and_crlf() -> None:
    text = "\ufeff" + HEADER.replace("\n", "\r\n") + row("T1") + "\r\n" + row("T2", "T1") + "\r\n"
    found = parse_board(text.encode(), Path("b"))
    assert [(task.id, task.line) for task in found.tasks] == [("T1", 3), ("T2", 4)]
    assert found.diagnostics == ()


def test_names_may_stand_in_backticks() -> None:
    found = board("| `T1` | s | [ ] | `task/T1` | `x` | |", "| T2 | s | [ ] | - | `x` | `T1`, T1,, |")
    assert [(task.id, task.branch, task.after) for task in found.tasks] == [
        ("T1", "task/T1", ()),
        ("T2", "", ("T1",)),
    ]


def test_other_tables_fences_comments_and_indented_code_are_not_the_board() -> None:
    decoys = (
        "| Column | Meaning |\n|---|---|\n| ID | the id |\n\n"
        f"```md\n{HEADER}{row('F1')}\n```\n\n~~~\n{HEADER}{row('F2')}\n```\n~~~~\n\n"
        f"<!--\n{HEADER}{row('F3')}\n-->\n\n"
        + "".join(f"    {line}\n" for line in (HEADER + row("F4")).splitlines())
        + "\n"
    )
    found = board(row("T1"), before=decoys)
    assert [task.id for task in found.tasks] == ["T1"]
    assert found.line == decoys.count("\n") + 1
    assert found.diagnostics == ()


def test_the_first_board_counts_and_the_second_is_told() -> None:
    found = board(row("T1"), "", HEADER + row("T2"))
    assert [task.id for task in found.tasks] == ["T1"]
    assert told(found) == ["line 5: this table is not read; the board is that of line 1"]


def test_rows_behind_an_empty_line_are_told() -> None:
    found = board(row("T1"), "", "", row("T2"), row("T3"))
    message = "this row is not read: an empty line ends the table that begins in line 1"
    assert told(found) == [f"line 6: {message}", f"line 7: {message}"]
    assert runnable(found) == ["T1"]
    assert board(row("T1"), "", "Some | words").diagnostics == ()


def test_rows_of_other_tables_are_not_told() -> None:
    other = "| a | b | c | d | e | f |\n|---|---|---|---|---|---|\n"
    assert board(row("T1"), "", other + row("T2"), "", row("T3")).diagnostics == ()


def test_a_row_of_empty_cells_is_no_marker_of_a_git_conflict() -> None:
    assert board(row("T1"), "|||||||", row("T2")).diagnostics == ()


def test_a_git_conflict_is_told_and_the_rest_runs() -> None:
    found = board(
        row("T1"),
        "<<<<<<< HEAD",
        row("T2"),
        row("T3"),
        "=======",
        row("T3"),
        row("T4"),
        ">>>>>>> origin/x",
        row("T5"),
    )
    both = "the id T3 stands in lines 6 and 8"
    assert told(found) == [
        "line 4: a git conflict begins here and ends in line 10: keep the rows that count, and remove the marker lines",
        f"line 6: {both}",
        f"line 8: {both}",
    ]
    assert runnable(found) == ["T1", "T2", "T4", "T5"]


def test_what_was_there_before_a_git_conflict_does_not_run() -> None:
    found = board(
        "<<<<<<< ours", row("T1"), "||||||| 1234567", row("T2"), "=======", row("T3"), ">>>>>>> theirs"
    )
    assert [each.line for each in found.diagnostics] == [3]
    assert runnable(found) == ["T1", "T3"]


@pytest.mark.parametrize("marker", ["<<<<<<< HEAD", "=======", ">>>>>>> x"])
def test_a_forgotten_marker_of_a_git_conflict_is_told(marker: str) -> None:
    found = board(row("T1"), marker, row("T2"))
    assert told(found) == [
        "line 4: a git conflict has a marker here: keep the rows that count, and remove the marker lines"
    ]
    assert runnable(found) == ["T1", "T2"]


@pytest.mark.parametrize("end", ["# Next", "> said", "- item", "1. item", "```", "---", "***", "<p>"])
def test_what_ends_the_table(end: str) -> None:
    found = board(row("T1"), end, row("T2"))
    assert [task.id for task in found.tasks] == ["T1"]
    told_of = [] if end == "```" else [5]
    assert [each.line for each in found.diagnostics] == told_of, "what stands in a fence is no row"
    assert len(board(row("T1"), "<b>T2</b> | s | [ ] | b | `x` | |").tasks) == 2, "a row may begin with a tag"


def test_an_empty_row_is_no_task() -> None:
    assert board("| | | | | | |", row("T1")).diagnostics == ()


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("| T1 | s | [ ] | b |", "the row has 4 cells, the header 6: an empty cell needs its pipe too"),
        ("a note below the table", "the row has 1 cell, the header 6"),
        ("| T1 | a | b | [ ] | b | `x` | |", r"the row has 7 cells, the header 6: write \| for a pipe"),
        ("| T1 | don`t | [ ] | b | `x` | |", "a backtick has no partner"),
        ("| | s | [ ] | b | `x` | |", "the row has no ID"),
        ("| T1 | | [ ] | b | `x` | |", "the row has no Scope"),
        ("| T1 | s | [-] | b | `x` | |", "the Status '[-]' is not one of"),
        ("| T1 | s | | b | `x` | |", "the Status '' is not one of"),
        ("| T1 | s | [ ] done | b | `x` | |", "the Status '[ ] done' is not one of"),
        ("| T,1 | s | [ ] | b | `x` | |", "an ID holds no comma"),
    ],
)
def test_a_bad_row_is_told_by_its_line_and_the_rest_runs(written: str, message: str) -> None:
    found = board(row("A"), written, row("Z", "A"))
    assert [d.line for d in found.diagnostics] == [4]
    assert message in found.diagnostics[0].message
    assert found.diagnostics[0].severity == "error"
    assert runnable(found) == ["A", "Z"]


@pytest.mark.parametrize(
    ("lane", "priority", "message"),
    [("slow", "", "the Lane"), ("", "high", "the Priority"), ("", "1.5", "Priority")],
)
def test_bad_lane_and_priority(lane: str, priority: str, message: str) -> None:
    header = "|ID|Scope|Status|Branch|Verification|Lane|Priority|\n|-|-|-|-|-|-|-|\n"
    found = board(f"|T1|s|[ ]|b|`x`|{lane}|{priority}|", "|T2|s|[ ]|b|`x`||3|", header=header)
    assert message in told(found)[0]
    assert runnable(found) == ["T2"]


def test_an_id_used_twice_is_told_at_each_line_and_neither_runs() -> None:
    found = board(row("T1"), row("T2"), row("T1"), row("T3", "T1"))
    assert told(found) == [
        "line 3: the id T1 stands in lines 3 and 5",
        "line 5: the id T1 stands in lines 3 and 5",
        "line 6: T3 waits for T1 (line 3), which cannot run",
    ]
    assert [task.id for task in found.tasks] == ["T1", "T2", "T3"], "each id once"
    assert runnable(found) == ["T2"]


def test_landed_tasks_are_not_runnable_and_failed_ones_are() -> None:
    found = board(row("T1", status="[x]"), row("T2", "T1", status="[!]"), row("T3", "T2"))
    assert runnable(found) == ["T2", "T3"]


def test_the_branch_is_a_note_that_no_board_needs() -> None:
    header = "| ID | Scope | Status | Verification |\n|---|---|---|---|\n"
    found = board("| T1 | scope | [ ] | `x` fine |", "| T2 | scope | [x] | `y` |", header=header)
    assert found.diagnostics == ()
    assert runnable(found) == ["T1"]
    assert (found.tasks[0].branch, found.tasks[0].command, found.tasks[0].acceptance) == ("", "x", "fine")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "board.md holds no task board: it needs a table with the columns ID | Scope"),
        (b"# Only words\n", "holds no task board"),
        (b"| ID | Scope | Status | Branch |\n|-|-|-|-|\n", "the table at line 1 lacks Verification"),
        (b"| ID | Scope | Status |\n|-|-|-|\n", "lacks Verification: add the column Verification to it"),
        (b"| ID | Status |\n|-|-|\n", "lacks Scope, Verification: add the columns Scope, Verification to it"),
        (b"\n" + HEADER.splitlines()[0].encode(), "line 2 names the columns, but no |---| line follows it"),
        (
            b"\n" + HEADER.replace("|---|---|---|---|---|---|", "|---|---|").encode(),
            "below the header in line 2",
        ),
        (
            b"|ID|Scope|Status|Branch|Verification|Id|\n|-|-|-|-|-|-|\n",
            "line 1 of board.md has the column ID twice",
        ),
        (b"| ID |\n caf\xe9 |\n", "is not UTF-8: byte 11, in line 2"),
        ("| ID |".encode("utf-16"), "is not UTF-8: byte 0, in line 1"),
    ],
)
def test_a_file_that_is_no_board_says_why(data: bytes, message: str) -> None:
    with pytest.raises(BoardError) as caught:
        parse_board(data, Path("board.md"))
    assert message in str(caught.value)
    assert caught.value.hint
    assert caught.value.exit_status == 2


def test_a_missing_board_names_the_command_that_makes_one(tmp_path: Path) -> None:
    with pytest.raises(BoardError, match="taskyard init"):
        read_board(tmp_path / "tasks" / "board.md")
    with pytest.raises(BoardError, match="cannot be read"):
        read_board(tmp_path)


def test_the_starter_board_is_sound(tmp_path: Path) -> None:
    file = tmp_path / "board.md"
    file.write_text(starter_board())
    found = read_board(file)
    assert found.diagnostics == ()
    assert runnable(found) == ["T1", "T2"]
    assert found.tasks[1].lane is Lane.ECONOMY


def test_ten_thousand_rows_are_read_at_once() -> None:
    """A rule of thumb against quadratic work: each row ten times over costs about ten times as much."""
    import time

    def seconds(count: int) -> float:
        rows = [
            row(f"T{n}", f"T{n - 1}" if n % 10 else "", verification=r"`a \| b` `` c ``")
            for n in range(count)
        ]
        data = (HEADER + "\n".join(rows)).encode()
        started = time.process_time()
        assert len(parse_board(data, Path("b")).runnable) == count
        return time.process_time() - started

    seconds(100)
    small = min(seconds(1_000) for _ in range(3))
    large = min(seconds(10_000) for _ in range(2))
    assert large < small * 40
