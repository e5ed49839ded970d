"""Read a board: its tasks, and everything about it that a person should mend, by line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from engine.board.conflicts import Conflict, without_conflicts
from engine.board.dependencies import blocked
from engine.board.tables import Row, Table, closing_backticks, find_tables, split_row, unescape_pipes
from engine.errors import BoardError
from engine.model import BoardStatus, Lane, Task
from engine.regular import read_regular

NEEDED = ("ID", "Scope", "Status", "Verification")
OPTIONAL = ("Branch", "After", "Type", "Lane", "Priority")

_COLUMNS = {name.casefold(): name for name in NEEDED + OPTIONAL}
_NOTHING = frozenset({"", "-", "–", "—"})
_STATUS = {
    "[ ]": BoardStatus.OPEN,
    "[x]": BoardStatus.LANDED,
    "[X]": BoardStatus.LANDED,
    "[!]": BoardStatus.FAILED,
}
_BACKTICKS = re.compile(r"`+")


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """Something to mend. `line` counts from 1; an error keeps its row's task from running, a warning does not."""

    line: int
    severity: Literal["error", "warning"]
    message: str
    task: str = ""

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}"


@dataclass(frozen=True, slots=True)
class Board:
    """The tasks of a board file, in its order.

    `tasks` holds every row that names a task, each id once; `runnable` those that have not landed and that nothing
    on the board keeps from running. `line` is where the table begins. Diagnostics are in the order of their lines.
    """

    path: Path
    tasks: tuple[Task, ...]
    diagnostics: tuple[Diagnostic, ...]
    runnable: tuple[Task, ...]
    line: int
    _by_id: dict[str, Task] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_id", {task.id: task for task in self.tasks})

    def task(self, id: str) -> Task | None:
        """Return the task with this id, or None."""
        return self._by_id.get(id)


def read_board(path: Path) -> Board:
    """Read and parse the board at `path`. Raises `BoardError` when the file as a whole is no board."""
    return parse_board(board_bytes(path), path)


Stamp = tuple[int, int, int]


def board_stamp(path: Path) -> Stamp | None:
    """Give what changes whenever somebody saves the file; None while there is none."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def board_bytes(path: Path) -> bytes:
    """Read the board file. Raises `BoardError` with what to do when it cannot be read."""
    try:
        return read_regular(path)
    except FileNotFoundError:
        raise BoardError(
            f"there is no board at {path}", "run `taskyard init` to make one, or name another"
        ) from None
    except OSError as error:
        raise BoardError(
            f"the board {path} cannot be read ({error.strerror})", "name a readable file"
        ) from error


def parse_board(data: bytes, path: Path) -> Board:
    """Parse the bytes of a board file; `path` is only for messages.

    Problems of single rows become diagnostics, and the rest stays runnable. Raises `BoardError` when the bytes are
    not UTF-8 or hold no table with the columns ID, Scope, Status and Verification.
    """
    table, columns, others = board_table(board_text(data, path), path)
    width = len(table.header.cells)
    not_read = f"this table is not read; the board is that of line {table.header.line}"
    found = [Diagnostic(other.header.line, "warning", not_read) for other in others]
    found += _not_read(table, columns, width)
    rows, conflicts = without_conflicts(table.rows)
    found += [Diagnostic(conflict.begin, "error", _conflict(conflict)) for conflict in conflicts]
    tasks: dict[str, Task] = {}
    places: dict[str, list[int]] = {}
    for row in rows:
        cells = row.cells
        if not any(cells):
            continue
        task, problems = _read_row(cells, columns, width, row.line)
        found += problems
        if task.id:
            tasks.setdefault(task.id, task)
            places.setdefault(task.id, []).append(row.line)
    for id, lines in places.items():
        if len(lines) > 1:
            where = " and ".join(map(str, lines))
            found += [Diagnostic(line, "error", f"the id {id} stands in lines {where}", id) for line in lines]
    kept_back = {d.task for d in found if d.severity == "error"}
    for id, message in blocked(tasks, kept_back):
        found.append(Diagnostic(tasks[id].line, "error", message, id))
        kept_back.add(id)
    return Board(
        path=path,
        tasks=tuple(tasks.values()),
        diagnostics=tuple(sorted(found, key=lambda d: d.line)),
        runnable=tuple(
            task
            for task in tasks.values()
            if task.id not in kept_back and task.status is not BoardStatus.LANDED
        ),
        line=table.header.line,
    )


def read_statuses(data: bytes) -> dict[str, BoardStatus]:
    """Give the states that a board's bytes tell, but for open rows; none for bytes that are no board."""
    try:
        board = parse_board(data, Path("board"))
    except BoardError:
        return {}
    return {task.id: task.status for task in board.tasks if task.status is not BoardStatus.OPEN}


def board_text(data: bytes, path: Path) -> str:
    """Decode a board file. Raises `BoardError` naming the first byte that is not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"the board {path} is not UTF-8: byte {error.start}, in line {line}"
        raise BoardError(message, "save it as UTF-8") from None


def board_table(text: str, path: Path) -> tuple[Table, dict[str, int], list[Table]]:
    """Find the board among the tables: gives it, where its columns stand, and further tables that look like it."""
    boards = []
    start = "`taskyard init` writes one to start from"
    nearest = 0, "it needs a table with the columns " + " | ".join(NEEDED), start
    for table in find_tables(text):
        names = _column_names(table.header)
        known = Counter(name for name in names if name)
        missing = [name for name in NEEDED if name not in known]
        line = table.header.line
        if not missing:
            if not table.well_formed:
                message = (
                    f"the |---| line below the header in line {line} of {path} has another number of cells"
                )
                raise BoardError(message, f"give it {len(names)}")
            if twice := [name for name, count in known.items() if count > 1]:
                raise BoardError(
                    f"line {line} of {path} has the column {twice[0]} twice", "rename one of them"
                )
            boards.append((table, {name: at for at, name in enumerate(names) if name}))
        elif len(known) > nearest[0]:
            lacks = ", ".join(missing)
            add = f"add the {'columns' if len(missing) > 1 else 'column'} {lacks} to it"
            nearest = len(known), f"the table at line {line} lacks {lacks}", add
    if not boards:
        for at, words in enumerate(text.split("\n"), 1):
            if set(NEEDED) <= set(_column_names(split_row(at, words, 0))):
                nearest = 0, f"line {at} names the columns, but no |---| line follows it", start
        raise BoardError(f"{path} holds no task board: {nearest[1]}", nearest[2])
    (table, columns), *others = boards
    return table, columns, [other for other, _ in others]


def _column_names(header: Row) -> list[str]:
    """Give the name of each column that is ours, and nothing for the others."""
    return [_COLUMNS.get(_plain(cell).strip("*_").casefold(), "") for cell in header.cells]


def row_id(cells: list[str], columns: dict[str, int]) -> str:
    """Give the id of a row, or nothing when the row has none."""
    at = columns["ID"]
    return _plain(unescape_pipes(cells[at])) if at < len(cells) else ""


def _read_row(
    cells: list[str], columns: dict[str, int], width: int, line: int
) -> tuple[Task, list[Diagnostic]]:
    """Make the task of one row as far as it can be read, with what is wrong about it. No id: no task."""

    def cell(column: str) -> str:
        at = columns.get(column, width)
        return unescape_pipes(cells[at]) if at < len(cells) else ""

    def plain(column: str) -> str:
        return _plain(cell(column))

    id = row_id(cells, columns)
    problems: list[Diagnostic] = []

    def report(message: str, severity: Literal["error", "warning"] = "error") -> None:
        problems.append(Diagnostic(line, severity, message, id))

    if not id:
        report("the row has no ID")
    if len(cells) != width:
        has = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
        report(f"the row has {has}, the header {width}: {_why_cells(cells, width)}")
        return Task(id=id, scope=cell("Scope"), line=line), problems
    if not cell("Scope"):
        report("the row has no Scope: say what is to be done")
    if "," in id:
        report("an ID holds no comma, for After is a list with commas")
    status = _STATUS.get(cells[columns["Status"]])
    if status is None:
        report(
            f'the Status {cells[columns["Status"]]!r} is not one of "[ ]" open, "[x]" landed, "[!]" failed'
        )
    lane = plain("Lane").casefold() or Lane.FAST
    if lane not in set(Lane):
        report(f'the Lane "{lane}" is neither "fast" nor "economy"')
        lane = Lane.FAST
    priority = plain("Priority") or "0"
    if not re.fullmatch(r"[+-]?[0-9]{1,9}", priority):
        report(f'the Priority "{priority}" is no whole number')
        priority = "0"
    command, acceptance, problem = read_verification(cell("Verification"))
    if problem:
        report(problem, "warning" if command else "error")
    return (
        Task(
            id=id,
            scope=cell("Scope"),
            branch=plain("Branch"),
            command=command,
            acceptance=acceptance,
            after=_names(plain("After")),
            type=plain("Type") or "task",
            lane=Lane(lane),
            priority=int(priority),
            status=status or BoardStatus.OPEN,
            line=line,
        ),
        problems,
    )


def read_verification(cell: str) -> tuple[str | None, str, str]:
    """Split a Verification cell into its command, the acceptance text, and what is odd about it (or nothing).

    The command is the content of the first backticks; a double pair may hold single ones.
    """
    command = None
    problem = ""
    rest = cell
    at = 0
    while opening := _BACKTICKS.search(rest, at):
        closing = closing_backticks(rest, opening.end(), len(opening.group()))
        if closing is None:
            problem = "a backtick in Verification has no partner"
            at = opening.end()
        elif command is None:
            command = rest[opening.end() : closing.start()].strip() or None
            rest = rest[: opening.start()] + rest[closing.end() :]
            at = opening.start()
        else:
            problem = "only the first backticks of Verification are run: join commands with &&"
            at = closing.end()
    return command, " ".join(rest.split()).strip(" ;,:–—-"), problem


def _not_read(table: Table, columns: dict[str, int], width: int) -> Iterator[Diagnostic]:
    """Tell of what looks like a row of the table, but stands below its end."""
    if table.end is None:
        return
    end = f"line {table.end.line}" if table.end.text.strip() else "an empty line"
    message = f"this row is not read: {end} ends the table that begins in line {table.header.line}"
    for stray in table.strays:
        cells = stray.cells
        if len(cells) == width and cells[columns["Status"]] in _STATUS:
            yield Diagnostic(stray.line, "warning", message, row_id(cells, columns))


def _conflict(conflict: Conflict) -> str:
    where = (
        f"begins here and ends in line {conflict.end}"
        if conflict.end > conflict.begin
        else "has a marker here"
    )
    return f"a git conflict {where}: keep the rows that count, and remove the marker lines"


def _why_cells(cells: list[str], width: int) -> str:
    if len(cells) > width:
        return "write \\| for a pipe that belongs to the text"
    if sum(len(_BACKTICKS.findall(cell)) for cell in cells) % 2:
        return "a backtick has no partner, so the pipes behind it do not count"
    return "an empty cell needs its pipe too, and an empty line ends the table"


def _plain(cell: str) -> str:
    """Give a name without backticks around it; a dash is what people write for nothing."""
    name = cell.strip("`").strip() if cell.startswith("`") and cell.endswith("`") else cell
    return "" if name in _NOTHING else name


def _names(cell: str) -> tuple[str, ...]:
    names = (_plain(name.strip()) for name in cell.split(","))
    return tuple(dict.fromkeys(name for name in names if name))
