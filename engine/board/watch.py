"""Notice that somebody edits the board while it is worked off."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from engine.board.parse import Board, read_board
from engine.errors import BoardError
from engine.model import BoardStatus, Task

SHOWN = 5


class BoardEdit(msgspec.Struct, frozen=True):
    """What changed: `rows` are the ids of rows that are new, gone or ask for something else, `marked` of those set to
    landed. `problem` says why the board cannot be read any more.
    """

    rows: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()
    problem: str = ""

    def __str__(self) -> str:
        more = f" and {len(self.rows) - SHOWN} more" if len(self.rows) > SHOWN else ""
        return f"{', '.join(self.rows[:SHOWN])}{more}"


class BoardWatch:
    """Compares the file with the board as it was read; ask it with `look` from time to time."""

    def __init__(self, board: Board) -> None:
        self._path = board.path
        self._rows = {task.id: task for task in board.tasks}
        self._seen: tuple[int, int, int] | None = None
        self._problem = ""

    def look(self) -> BoardEdit | None:
        """Give what has changed since the last look; None when nothing has."""
        try:
            stat = self._path.stat()
            stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if stamp == self._seen:
                return None
            self._seen = stamp
            rows = {task.id: task for task in read_board(self._path).tasks}
        except (BoardError, OSError) as error:
            problem = error.message if isinstance(error, BoardError) else f"{self._path} is gone"
            told, self._problem = problem == self._problem, problem
            return None if told else BoardEdit(problem=problem)
        self._problem = ""
        before, self._rows = self._rows, rows
        changed = [
            id for id in dict.fromkeys((*before, *rows)) if _asks(before.get(id)) != _asks(rows.get(id))
        ]
        landed = BoardStatus.LANDED
        marked = [
            id
            for id, task in rows.items()
            if task.status is landed and id in before and before[id].status is not landed
        ]
        return BoardEdit(tuple(changed), tuple(marked)) if changed or marked else None


def _asks(task: Task | None) -> Task | None:
    """The row without its state and place."""
    return replace(task, status=BoardStatus.OPEN, line=0) if task is not None else None
