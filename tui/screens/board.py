"""What somebody changed on the board, row by row, to be taken in or left."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.binding import Binding, BindingType

from engine.rows import EditKind, RowEdit
from engine.snapshot import BoardOffer
from tui.edits import WORDS, differences, outcome
from tui.format import fit, safe_text
from tui.frame import Frame
from tui.line import BLANK, Line, text, width, wrapped
from tui.screens.dialogs import LinesScreen
from tui.source.protocol import Mode
from tui.widgets.sheet import Sheet

if TYPE_CHECKING:
    from tui.app import DashboardApp

_MARKS = {
    EditKind.ADDED: ("+", "good"),
    EditKind.CHANGED: ("~", "accent"),
    EditKind.LATER: ("~", "warn"),
    EditKind.REMOVED: ("−", "bad"),
    EditKind.KEPT: ("−", "muted"),
    EditKind.LANDED: ("✓", "good"),
    EditKind.GIVEN_UP: ("✗", "bad"),
    EditKind.RETRIED: ("↻", "accent"),
    EditKind.NEXT_RUN: ("~", "muted"),
}
_NOTHING: dict[Mode, str] = {
    "LIVE": "Change it while the run goes on, and each row that differs is shown here, to be taken in or left.",
    "WATCH": "Change it while the run goes on, and each row that differs is shown; the run's own dashboard answers.",
    "REPLAY": "Where somebody changed it during the run, the rows that differed are shown here.",
}
_COLUMN = 13  # cells of a column's name
_NARROW = 50  # cells below which the texts stand under the name


class BoardScreen(LinesScreen):
    """Shows the offer as it is in the newest frame. What was on the screen is what an answer is about."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Take it in", show=False),
        Binding("n", "answer(False)", "Leave it to the next run", show=False),
        Binding("b", "dismiss", "Close", show=False),
    ]
    TITLE_TEXT = "Board"

    def __init__(self) -> None:
        super().__init__()
        self._shown: BoardOffer | None = None

    @property
    def _dashboard(self) -> DashboardApp:
        return cast("DashboardApp", self.app)

    def show(self, frame: Frame) -> None:
        """Follow the offer: another save of the file, or a task that began, makes it another one."""
        if frame.snapshot.offer is not self._shown:
            self.draw()

    def write(self) -> None:
        """Write the offer, and what keys answer it."""
        super().write()
        answers = "y take in · n leave · esc later"
        if self._shown is None or self._dashboard.source.mode != "LIVE":
            answers = "esc closes"
        self.query_one(Sheet).tell_keys(answers)

    def lines(self, width: int) -> list[Line]:
        """The edits and the mistakes."""
        snapshot = self._dashboard.frame.snapshot
        self._shown = offer = snapshot.offer
        if offer is None:
            board = safe_text(snapshot.run.board, 200) or "the board"
            then = _NOTHING[self._dashboard.source.mode]
            return wrapped(f"No edit of {board} waits for an answer. {then}", width, "muted")
        lines: list[Line] = []
        for edit in offer.change.edits:
            lines += [*edit_lines(edit, outcome(edit, snapshot), width), BLANK]
        if offer.change.problems:
            lines.append(text("cannot be taken in", "bad"))
            for problem in offer.change.problems:
                lines += wrapped(safe_text(problem, 1000), width, "text", "  ")
        return lines

    def action_answer(self, yes: bool) -> None:
        """Take the edits in, or leave them to the next run."""
        if self._shown is not None:
            self._dashboard.steering.answer_board(self._shown, yes)
        self.dismiss()


def edit_lines(edit: RowEdit, then: str, cells: int) -> list[Line]:
    """One row: what was done to it and what comes of that, then each cell that differs."""
    mark, tone = _MARKS[edit.kind]
    done, _ = WORDS[edit.kind]
    head: Line = ((f"{mark} ", tone), (safe_text(edit.row.id, 40), "text strong"), (f" {done}: ", tone))
    rest = wrapped(then, max(20, cells - width(head)), "muted")
    lines: list[Line] = [(*head, *rest[0])]
    lines += [((" " * width(head), "text"), *row) for row in rest[1:]]
    if edit.kind in (EditKind.REMOVED, EditKind.KEPT):
        return [*lines, *_cell_lines("Scope", (("muted", edit.row.scope),), cells)]
    for column, old, new in differences(edit):
        if edit.was is None:
            lines += _cell_lines(column, (("text", new),), cells)
        else:
            lines += _cell_lines(
                column, (("bad", f"− {old or 'nothing'}"), ("good", f"+ {new or 'nothing'}")), cells
            )
    return lines


def _cell_lines(column: str, versions: tuple[tuple[str, str], ...], cells: int) -> list[Line]:
    """The column's name, and its texts beside it, or below it where there is little room."""
    below = cells < _NARROW
    indent = 4 if below else _COLUMN + 2
    rows = [
        row for tone, content in versions for row in wrapped(safe_text(content, 1000), cells - indent, tone)
    ]
    names = [f"  {column}", *[""] * len(rows)] if not below else [""] * len(rows)
    lines: list[Line] = [((fit(name, indent), "faint"), *row) for name, row in zip(names, rows, strict=False)]
    return [text(f"  {column}", "faint"), *lines] if below else lines
