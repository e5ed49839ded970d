"""What the commits say of a board's tasks: which have landed, and which ask for something else since.

The checkout's board may be behind the target branch, and ahead of it: somebody edits it while runs land on the other.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from engine.board import Board, parse_board
from engine.errors import BoardError
from engine.git.combine import trailers_of
from engine.git.names import slug
from engine.git.preflight import Preflight
from engine.git.repository import Repository
from engine.git.train import landed_refs
from engine.model import BoardStatus
from engine.rows import asks, words

_TRAILERS = f"--format={trailers_of('Taskyard-Task', 'Taskyard-Row')}"


class Committed(msgspec.Struct, frozen=True):
    """What the commits say of the board's tasks. `unknown` are those whose rows are only in the checkout.

    Of those that have landed and ask for something else now, `reopened` are to be done again, while the rows of
    `edited` are not committed yet. Those of `rewritten` are open, and committed in other words only.
    """

    landed: frozenset[str]
    unknown: frozenset[str]
    reopened: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()


async def committed_of(repository: Repository, found: Preflight, board_path: str, board: Board) -> Committed:
    """The tasks that have landed: by this checkout's board, or by that of the target branch, which may be ahead.

    A row that was never committed cannot be marked there; of its task the ref tells whether it has landed.
    """
    there = await _board_at(repository, found.tip or found.base, board_path, board.path)
    rows = {task.id: task for task in there.tasks} if there is not None else {}
    marked = {name for name, task in rows.items() if task.status is BoardStatus.LANDED}
    landed = {task.id for task in board.tasks if task.status is BoardStatus.LANDED or task.id in marked}
    other = [
        task
        for task in board.tasks
        if task.status is BoardStatus.OPEN
        and task.id in marked
        and asks(task) != asks(rows[task.id])
        and await _words_done(repository, found.tip or found.base, task.id) != words(task)
    ]
    base = await _board_at(repository, found.base, board_path, board.path)
    begun = {task.id: asks(task) for task in base.tasks} if base is not None else {}
    # While only an edit in the checkout says so, it would be so again after every run.
    reopened = tuple(task.id for task in other if begun.get(task.id) == asks(task))
    landed.difference_update(reopened)
    unknown = frozenset(task.id for task in board.tasks if task.id not in rows and task.id not in begun)
    # A row that the target's board does not hold could not be marked there when its task landed.
    absent = frozenset(task.id for task in board.tasks if task.id not in rows)
    if found.tip and absent - landed:
        prefix = landed_refs(found.target)
        listing = await repository.run("for-each-ref", "--format=%(objectname) %(refname)", f"{prefix}/")
        refs = {
            name: commit for commit, _, name in (line.partition(" ") for line in listing.stdout.splitlines())
        }
        for name in absent - landed:
            commit = refs.get(f"{prefix}/{slug(name)}")
            if commit is not None and await repository.is_ancestor(commit, found.tip):
                landed.add(name)
    edited = tuple(task.id for task in other if task.id not in reopened)
    rewritten = tuple(
        task.id
        for task in board.tasks
        if task.id not in landed
        and task.id not in unknown
        and asks(task) not in (begun.get(task.id), asks(rows[task.id]) if task.id in rows else None)
    )
    return Committed(frozenset(landed), unknown, reopened, edited, rewritten)


async def _words_done(repository: Repository, tip: str, task_id: str) -> str:
    """The digest of the words for which the task was done last; empty when its commits do not tell.

    A row that was rewritten while a run went on is marked on the target's board in its old words.
    """
    log = await repository.run(
        "log", "--no-merges", "--fixed-strings", f"--grep=Taskyard-Task: {task_id}", _TRAILERS, tip
    )
    for line in log.stdout.splitlines():
        name, _, done = line.partition("\0")
        if name == task_id:
            return done
    return ""


async def _board_at(repository: Repository, commit: str, board_path: str, shown: Path) -> Board | None:
    result = await repository.run("cat-file", "blob", f"{commit}:{board_path}", check=False)
    if result.status != 0:
        return None
    try:
        return parse_board(result.stdout.encode("utf-8", "surrogateescape"), shown)
    except BoardError:
        return None
