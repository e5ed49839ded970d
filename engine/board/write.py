"""Write statuses back into a board file: one character for each task, and no other byte."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from engine.board.parse import board_bytes, board_table, board_text, row_id
from engine.errors import BoardError
from engine.model import BoardStatus
from engine.regular import read_regular

_BOX = re.compile(r"\[.\]")


def with_statuses(data: bytes, statuses: Mapping[str, BoardStatus], path: Path = Path("board")) -> bytes:
    """Return the board file with the statuses of these tasks (by id) changed, each by its one character.

    A status that stands already stays as it is written (`[X]` too). Tasks that the board no longer holds, or whose
    Status cell is no box, are left out: somebody edited them away. Of rows that share an id, the first counts.
    Raises `BoardError` when `data` is no board; `path` names it then.
    """
    text = board_text(data, path)
    table, columns, _ = board_table(text, path)
    left = dict(statuses)
    pieces = []
    written = 0
    for row in table.rows:
        if not left:
            break
        cells = row.cells
        if len(cells) <= max(columns["ID"], columns["Status"]):
            continue
        status = left.pop(row_id(cells, columns), None)
        box = cells[columns["Status"]]
        if status is None or not _BOX.fullmatch(box) or box.lower() == status.value:
            continue
        mark = row.span(columns["Status"])[0] + 1
        pieces += [text[written:mark], status.value[1]]
        written = mark + 1
    return "".join([*pieces, text[written:]]).encode() if pieces else data


def write_statuses(path: Path, statuses: Mapping[str, BoardStatus]) -> None:
    """Change statuses in the board file at `path`: as a whole or not at all, its mode kept, a symlink followed.

    What somebody saves meanwhile is not lost: the statuses then go into the new text. Raises `BoardError` when the
    file cannot be read or written.
    """
    before = board_bytes(path)
    while (after := with_statuses(before, statuses, path)) != before:
        try:
            found = _replace(path.resolve(), before, after)
        except OSError as error:
            message = f"the board {path} cannot be written ({error.strerror})"
            raise BoardError(message, "make its folder writable") from error
        if found == before:
            return
        before = found


def _replace(path: Path, before: bytes, after: bytes) -> bytes:
    """Put `after` in the place of `before`, unless the file holds something else by now; gives what it held."""
    mode = stat.S_IMODE(path.stat().st_mode)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            os.fchmod(handle, mode)
            file.write(after)
            file.flush()
            os.fsync(handle)
        if (found := read_regular(path)) != before:
            os.unlink(name)
            return found
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    # The new name is on the disk only when the folder is.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return found
