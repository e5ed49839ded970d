"""Follow the board that a run works on: see what somebody edits, offer it, and take it in.

A row that is set to `[x]` before its task began is heeded at once. All else is taken in when a person says so, or
without asking, or left to the next run, as `[run] follow_board` says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal

from engine import events as ev
from engine.board import Diagnostic, Stamp, board_stamp, read_board
from engine.board.compare import compare
from engine.bus import Bus
from engine.errors import BoardError, GitError
from engine.git.words import count_of
from engine.model import TaskState
from engine.project import Project, Rows
from engine.rows import BoardChange, EditKind, RowEdit
from engine.task_view import TaskView

SHOWN = 5  # ids that a notice names
Mode = Literal["ask", "always", "never"]


class Follower:
    """Compares the file with what the run knows; ask it with `look` from time to time.

    `runs` says of a task whether it has been dispatched and has not ended. `taken` is called with what the state has
    taken in. With the mode `ask` there has to be somebody who answers by `take` or `leave`.
    """

    def __init__(
        self,
        project: Project,
        bus: Bus,
        *,
        mode: Mode,
        runs: Callable[[str], bool],
        taken: Callable[[BoardChange], None],
    ) -> None:
        self._project = project
        self._bus = bus
        self._mode = mode
        self._runs = runs
        self._on_taken = taken
        self._rows: Rows | None = project.rows
        self._before = {task.id: task for task in project.rows.tasks}
        self._told = {_key(each) for each in project.rows.refused}
        self._number = 0
        self._problem = ""
        self._seen = self._read = project.stamp
        self._left: Stamp | None = (0, 0, 0)
        self._offered = False
        self._looking = asyncio.Lock()

    def take_up(self) -> None:
        """Take in what was edited while the run was interrupted: who starts it again means the board as it is."""
        self._before = {view.id: view.task for view in self._bus.state.snapshot().tasks}
        change = self._compare(self._project.rows, lambda view: view.state is TaskState.TO_LAND)
        if change.acts:
            self._bus.emit(ev.BoardTaken(at=self._bus.clock(), change=change))
        self._settle(change.edits)

    async def look(self, *, last: bool = False) -> None:
        """See whether the file was edited, and do what is to be done about it.

        A file that has just changed is read at the next look, for somebody may still be writing; the `last` look of a
        run cannot wait for that.
        """
        async with self._looking:  # the last look comes beside those that are made again and again
            await self._look(last=last)

    async def _look(self, *, last: bool) -> None:
        stamp = board_stamp(self._project.board.path)
        steady, self._seen = stamp == self._seen, stamp
        if stamp != self._read:
            if not (steady or last):
                return
            rows = await self._read_rows()
            # Both at once: what is left meanwhile are the edits that were read before.
            self._read, self._rows = stamp, rows
        elif not self._offered:
            return
        if self._rows is not None:
            self._weigh(self._rows)
        elif self._offered:
            self._offer(BoardChange())

    async def _read_rows(self) -> Rows | None:
        try:
            board = await asyncio.to_thread(read_board, self._project.board.path)
            rows = await self._project.read(board)
        except (BoardError, GitError) as error:
            if error.message != self._problem:
                self._problem = error.message
                self._bus.notice("warning", f"{error.message}; the run goes on with the rows it knows")
            return None
        self._problem = ""
        return rows

    def _weigh(self, rows: Rows) -> None:
        change = self._compare(rows, self._busy)
        marked = tuple(
            edit for edit in change.edits if edit.kind is EditKind.LANDED and not self._begun(edit)
        )
        if marked:
            self._take(BoardChange(marked))
            self._tell_marked(marked)
            change = self._compare(rows, self._busy)
        offer = self._bus.state.offer
        if not change.acts:
            if self._offered:
                self._offer(BoardChange())
            self._tell(change)
        elif self._mode == "always":
            self._take(change)
            self._tell(change)
        elif self._left != self._read:
            if self._mode == "never":
                self._left = self._read
                self._bus.notice("info", self._for_the_next_run(change))
            elif offer is None or offer.change != change:
                self._offer(change)

    def take(self, number: int) -> None:
        """Take in what was offered by this number. An offer that another has replaced is not meant any more."""
        offer = self._bus.state.offer
        if offer is not None and offer.number == number and self._rows is not None:
            # Tasks may have begun or ended since it was offered.
            change = self._compare(self._rows, self._busy)
            self._offered = False
            self._take(change, number)
            self._tell(change)

    def leave(self, number: int) -> None:
        """Leave what was offered by this number; with the next edit of the file it is offered again."""
        offer = self._bus.state.offer
        if offer is not None and offer.number == number:
            self._left = self._read
            self._offered = False
            self._bus.emit(ev.BoardLeft(at=self._bus.clock(), number=number))

    def _compare(self, rows: Rows, busy: Callable[[TaskView], bool]) -> BoardChange:
        edits = compare(
            self._before,
            {task.id: task for task in rows.tasks},
            refused={each.task for each in rows.refused},
            find=self._bus.state.find,
            busy=busy,
        )
        return BoardChange(edits, tuple(str(each) for each in rows.refused if _key(each) not in self._told))

    def _busy(self, view: TaskView) -> bool:
        return view.state is TaskState.TO_LAND or self._runs(view.id)

    def _begun(self, edit: RowEdit) -> bool:
        view = self._bus.state.find(edit.row.id)
        return view is not None and self._busy(view) and view.state is not TaskState.ELSEWHERE

    def _offer(self, change: BoardChange) -> None:
        self._number += 1
        self._offered = bool(change.edits)
        self._bus.emit(ev.BoardOffered(at=self._bus.clock(), number=self._number, change=change))

    def _take(self, change: BoardChange, number: int = 0) -> None:
        self._bus.emit(ev.BoardTaken(at=self._bus.clock(), change=change, number=number))
        self._settle(change.edits)
        self._on_taken(change)
        self._tell_put_off(change.edits)
        self._tell_uncommitted(change.edits)

    def _settle(self, edits: Sequence[RowEdit]) -> None:
        """Note that the run knows of these edits."""
        for edit in edits:
            if edit.kind in (EditKind.REMOVED, EditKind.KEPT):
                self._before.pop(edit.row.id, None)
            else:
                self._before[edit.row.id] = edit.row

    # What a person is told

    def _tell(self, change: BoardChange) -> None:
        """Tell, once, what was not or not yet taken in, and why."""
        self._settle(change.edits)
        rows = self._rows
        if rows is None:
            return
        for each in rows.refused:
            if _key(each) not in self._told:
                self._told.add(_key(each))
                self._bus.notice("error", f"{self._project.board_path}, {each}", each.task)
        self.tell_refused(rows)
        for edit in change.edits:
            if edit.kind in _NOT_TAKEN:
                self._bus.notice("info", _NOT_TAKEN[edit.kind].format(edit.row.id), edit.row.id)

    def tell_refused(self, rows: Rows) -> None:
        """Tell which rows of the board cannot run, when they are others than before."""
        # A row with two mistakes is one row.
        mistakes: dict[int, dict[str, None]] = {}
        for each in rows.refused:
            mistakes.setdefault(each.line, {})[each.message] = None
        board = self._project.board_path
        refused = tuple(f"{board}, line {line}: {'; '.join(told)}" for line, told in mistakes.items())
        if refused != self._bus.state.refused:
            self._bus.emit(ev.RowsRefused(at=self._bus.clock(), rows=refused))

    def _tell_marked(self, edits: Sequence[RowEdit]) -> None:
        for edit in edits:
            if edit.was is not None and self._put_off(edit) is None:
                text = f"{self._project.board_path} says that {edit.row.id} has landed: it is left out"
                self._bus.notice("info", text, edit.row.id)

    def _put_off(self, edit: RowEdit) -> TaskView | None:
        view = self._bus.state.find(edit.row.id)
        return view if view is not None and view.put_off == edit else None

    def _tell_put_off(self, edits: Sequence[RowEdit]) -> None:
        for edit in edits:
            view = self._put_off(edit)
            if view is not None:
                text = (
                    f"{view.id} is worked on {view.last}: what the board says of it counts once nobody does"
                )
                self._bus.notice("info", text, view.id)

    def _tell_uncommitted(self, edits: Sequence[RowEdit]) -> None:
        rows = self._rows
        new = [edit.row.id for edit in edits if edit.kind is EditKind.ADDED]
        alone = [name for name in new if rows is not None and name in rows.uncommitted]
        if alone:
            path, target = self._project.board_path, self._project.preflight.target
            self._bus.notice("info", _UNCOMMITTED.format(count_of(len(alone), "new row"), path, target))

    def _for_the_next_run(self, change: BoardChange) -> str:
        names = [edit.row.id for edit in change.edits if edit.acts]
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        shown = ", ".join(names[:SHOWN])
        return (
            f"{self._project.board_path} was edited ({shown}{more}): the next run takes that in "
            "(with --follow-board always, this one would)"
        )


_NOT_TAKEN = {
    EditKind.KEPT: "the row of {} is gone, but it has begun, so it goes on: cancel it if it should not",
    EditKind.NEXT_RUN: "{} has landed and its row asks for something else now: commit and push that, "
    "and the next run works on it anew",
    EditKind.LATER: "{} has begun, and keeps the words it began with: a retry takes the new ones",
}
_UNCOMMITTED = (
    "{} of {} came after the run had begun: the work lands on {} like any other, "
    "and is marked on its board with what lands next once the rows are committed"
)


def _key(each: Diagnostic) -> tuple[str, str]:
    """What is wrong with which row, wherever it stands by now."""
    return each.task, each.message
