"""The small screens: a question, a sheet of lines, and the notices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from engine.snapshot import Notice, Snapshot
from tui.format import safe_text
from tui.frame import Frame
from tui.line import Line, text, wrapped
from tui.plain import duration
from tui.screens.base import Guarded
from tui.sums import rows_listed, rows_not_run
from tui.widgets.line_view import LineView
from tui.widgets.sheet import Sheet

if TYPE_CHECKING:
    from tui.app import DashboardApp


_Answer = TypeVar("_Answer")


class Question(Guarded, ModalScreen[_Answer]):
    """Asks something, for as long as `settled` says no: what has been answered by the run is not asked any more."""

    KEYS: ClassVar[str] = ""
    """Those that answer, in words: all others do nothing while it is asked."""

    def __init__(self, settled: Callable[[], bool]) -> None:
        super().__init__()
        self.settled = settled

    def on_mount(self) -> None:
        """Say which keys answer; the commands of the dashboard wait."""
        self.query_one(".dialog").border_subtitle = Content(f"answer first: {self.KEYS}")


class ConfirmScreen(Question[bool]):
    """Asks before what cannot be undone. The answer that changes nothing has the focus."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes", show=False),
        Binding("n,escape", "answer(False)", "No", show=False),
        Binding("q", "app.leave", "Quit the dashboard", show=False),
        Binding("left,right,up,down,tab", "app.focus_next", "Other button", show=False),
    ]
    KEYS = "y, n or esc"

    def __init__(self, question: str, detail: str, yes: str, no: str, *, settled: Callable[[], bool]) -> None:
        super().__init__(settled)
        self._words = (question, detail, yes, no)

    def compose(self) -> ComposeResult:
        """The question and two answers."""
        question, detail, yes, no = self._words
        with Vertical(classes="dialog"):
            yield Static(Content(question), classes="question")
            yield Static(Content(detail), classes="detail")
            with Horizontal(classes="answers"):
                yield Button(Content(f"{yes} (y)"), id="yes", compact=True)
                yield Button(Content(f"{no} (n)"), id="no", compact=True)

    def on_mount(self) -> None:
        """The safe answer is one key away."""
        self.query_one("#no").focus()

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")

    def action_answer(self, answer: bool) -> None:
        """Answer by key."""
        self.dismiss(answer)


class PendingBatchesScreen(Question[str]):
    """Asks, before a quit, what becomes of the batches at the model service: `leave`, `cancel`, or empty to stay."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,l", "answer('leave')", "Quit and leave them", show=False),
        Binding("c", "answer('cancel')", "Quit and cancel them", show=False),
        Binding("n,escape", "answer('')", "Stay", show=False),
        Binding("q", "app.leave", "Quit and leave them", show=False),
        Binding("left,right,up,down,tab", "app.focus_next", "Other button", show=False),
    ]
    KEYS = "y, c, n or esc"
    BROAD = 64
    """Cells from which the answers stand side by side."""

    def __init__(self, pending: int, *, settled: Callable[[], bool]) -> None:
        super().__init__(settled)
        self._pending = pending

    def compose(self) -> ComposeResult:
        """The question and three answers."""
        self._arrange()
        one = self._pending == 1
        batches, them = (
            ("a batch is", "the batch") if one else (f"{self._pending} batches are", "the batches")
        )
        with Vertical(classes="dialog"):
            yield Static(Content(f"Quit while {batches} at the model service?"), classes="question")
            yield Static(
                Content("Left there, the work goes on, and the next run picks the answers up."),
                classes="detail",
            )
            with Horizontal(classes="answers"):
                yield Button(Content("Leave (y)"), id="leave", compact=True)
                yield Button(Content(f"Cancel {them} (c)"), id="cancel", compact=True)
                yield Button(Content("Stay (n)"), id="stay", compact=True)

    def on_mount(self) -> None:
        """The safe answer is one key away."""
        self.query_one("#stay").focus()

    def on_resize(self, event: events.Resize) -> None:
        """Another width may need another layout."""
        self._arrange()

    def _arrange(self) -> None:
        self.set_class(self.app.size.width < self.BROAD, "-narrow")

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        self.dismiss("" if event.button.id == "stay" else event.button.id)

    def action_answer(self, answer: str) -> None:
        """Answer by key."""
        self.dismiss(answer)


class LinesScreen(Guarded, ModalScreen[None]):
    """Lines in a box, left with escape."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "Close", show=False),
        Binding("question_mark", "app.help", "help", show=False),
    ]

    TITLE_TEXT = ""
    KEYS_TEXT = "esc closes"

    def compose(self) -> ComposeResult:
        """The box."""
        yield Sheet(LineView(), self.TITLE_TEXT, self.KEYS_TEXT)

    def on_mount(self) -> None:
        """Write the lines."""
        self.call_after_refresh(self.draw)

    def on_resize(self, event: events.Resize) -> None:
        """Lay out for the new size."""
        self.call_after_refresh(self.draw)

    def draw(self) -> None:
        """Write the lines for the width there is, while the screen is open."""
        # Else it was closed by a key that came before it was drawn, or the app ends and has taken the lines away.
        if self in self.app.screen_stack and self.query(LineView):
            self.write()

    def write(self) -> None:
        """Write the lines for the width there is."""
        view = self.query_one(LineView)
        view.show(self.lines(view.scrollable_content_region.width))

    def lines(self, width: int) -> list[Line]:
        """What to show."""
        raise NotImplementedError


class NoticesScreen(LinesScreen):
    """Everything a person was told in this run, newest first, until it is dismissed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "dismiss_all", "Dismiss all", show=False),
        Binding("n", "dismiss", "Close", show=False),
    ]
    TITLE_TEXT = "Notices"
    KEYS_TEXT = "d dismisses all · esc closes"

    def __init__(self) -> None:
        super().__init__()
        self._shown = 0

    def show(self, frame: Frame) -> None:
        """Take in what was told while they are read."""
        if frame.snapshot.notice_count != self._shown:
            self.draw()

    def lines(self, width: int) -> list[Line]:
        """The notices, the newest first."""
        app = cast("DashboardApp", self.app)
        snapshot = app.frame.snapshot
        self._shown = snapshot.notice_count
        lines: list[Line] = []
        for notice in reversed(snapshot.notices):
            if notice.number <= app.dismissed:
                break
            mark, tone = _MARKS.get(notice.level, _MARKS["info"])
            rows = wrapped(_said(notice), width - 10)
            for number, row in enumerate(rows):
                head = f"{duration(notice.elapsed):>7} " if number == 0 else " " * 8
                lines.append(((head, "faint"), (f"{mark} " if number == 0 else "  ", tone), *row))
        if app.dismissed:
            lines += _rows_not_run(
                snapshot, width
            )  # the dashboard sends here for them as long as there are any
        return lines or [text("nothing to tell", "muted")]

    def action_dismiss_all(self) -> None:
        """Take note of all of them."""
        app = cast("DashboardApp", self.app)
        app.dismissed = self._shown
        self.dismiss()


def _rows_not_run(snapshot: Snapshot, cells: int) -> list[Line]:
    """Which rows of the board cannot run, and why; nothing where all can."""
    if not snapshot.refused:
        return []
    lines: list[Line] = [text(rows_not_run(len(snapshot.refused)), "warn")]
    for row in rows_listed(snapshot.refused):
        lines += wrapped(safe_text(row, 1000), cells, "text", "  ")
    return lines


_MARKS = {"error": ("✗", "bad"), "warning": ("!", "warn"), "info": ("·", "muted")}


def _said(notice: Notice) -> str:
    """What was told, and of which task, where it does not begin with that itself."""
    task, said = safe_text(notice.task), safe_text(notice.text, 2000)
    return f"{task}: {said}" if task and not said.startswith(task) else said
