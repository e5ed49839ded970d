"""The main screen: all five panels where there is room, the task list with a line for each other panel where not."""

from __future__ import annotations

from typing import ClassVar, Self

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.geometry import Region

from tui.estimates import Forecast
from tui.format import fit
from tui.frame import Frame
from tui.left import Left
from tui.line import Line, cut_line, text
from tui.panels.batches import BatchesPanel
from tui.panels.caches import CachesPanel
from tui.panels.dispatch import DispatchPanel
from tui.panels.history import HistoryPanel
from tui.panels.lessons import LessonsPanel
from tui.panels.panel import Panel
from tui.screens.base import FrameScreen
from tui.screens.lesson import LessonScreen
from tui.screens.task import TaskScreen
from tui.tape import tape_line
from tui.widgets.banner import banner_line
from tui.widgets.header import header_line
from tui.widgets.key_bar import KeyBar
from tui.widgets.line_view import LineView
from tui.widgets.pick_list import PickList
from tui.widgets.task_list import TaskList

WIDE = (100, 28)  # cells and lines from which the panels are laid out wide
NORMAL = (60, 18)  # the same for the normal layout; below it is the narrow one
JUMP = 10.0
"""Seconds of the run that one key jumps in a replay."""


class MainScreen(FrameScreen):
    """Header, panels, keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "slash",
            "filter",
            "filter",
            tooltip="List only tasks with these words in id, scope, state or last line",
        ),
        Binding(
            "e",
            "problems",
            "problems",
            tooltip="List only what failed, was sent back or is tried again; all again",
        ),
        Binding("s", "sort", "Sort the tasks another way", show=False),
        Binding(
            "r",
            "retry",
            "retry",
            tooltip="Try the marked tasks (or this one) again, once failed or cancelled",
        ),
        Binding("x", "cancel", "cancel", tooltip="Cancel the marked tasks (or this one), after a question"),
        Binding("p", "pause", "pause", tooltip="Start no more tasks, or start them again"),
        Binding("p", "play", "play/pause", tooltip="Play or pause; from the end, play again"),
        Binding(
            "X", "drain", "Drain, after a question: start no more tasks, end with those that run", show=False
        ),
        Binding("m", "lane", "Move to the other lane: economy (half price, in batches) or fast", show=False),
        Binding("L", "land_now", "Let the train leave now", show=False),
        Binding("greater_than_sign", "more(1)", "One more task at once", show=False),
        Binding("less_than_sign", "more(-1)", "One task fewer at once", show=False),
        Binding("greater_than_sign", "speed(1)", "faster", tooltip="Play faster"),
        Binding("less_than_sign", "speed(-1)", "slower", tooltip="Play slower"),
        Binding("right_square_bracket", "seek(1)", "+10 s", tooltip="10 s of the run on"),
        Binding("left_square_bracket", "seek(-1)", "-10 s", tooltip="10 s of the run back"),
        Binding(
            "plus", "zoom", "zoom", tooltip="Show the panel that has the keys in full, or all panels again"
        ),
        Binding("1", "panel(1)", "Dispatch", show=False),
        Binding("2", "panel(2)", "Caches", show=False),
        Binding("3", "panel(3)", "Batches", show=False),
        Binding("4", "panel(4)", "Lessons", show=False),
        Binding("5", "panel(5)", "History", show=False),
        Binding("tab", "app.focus_next", "Next panel", show=False),
        Binding("shift+tab", "app.focus_previous", "Previous panel", show=False),
        Binding("w", "choose_run", "other run", tooltip="Watch another run"),
        Binding("escape", "back", "Back: close the panel, clear the filter, leave a replay", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._opened: int | None = None
        self._forecast = Forecast()
        self._left = Left()

    def compose(self) -> ComposeResult:
        """All parts; which of them are seen depends on the size."""
        header = LineView(id="header")
        header.can_focus = False
        yield header
        tape = LineView(id="tape")
        tape.can_focus = False
        yield tape
        with Horizontal(id="top"):
            yield DispatchPanel(id="dispatch")
            with Vertical(id="side"):
                yield CachesPanel(id="caches")
                yield BatchesPanel(id="batches")
        with Horizontal(id="bottom"):
            yield LessonsPanel(self.dashboard.source.lookups, id="lessons")
            yield HistoryPanel(self.dashboard.source.lookups, id="history")
        summary = LineView(id="summary")
        summary.can_focus = False
        yield summary
        banner = LineView(id="banner")
        banner.can_focus = False
        yield banner
        yield KeyBar()

    def on_mount(self) -> None:
        """Begin with the tasks."""
        self.query_one("#tape").display = self.dashboard.source.playback is not None
        self._arrange()
        self.query_one(TaskList).focus()
        # Each part draws it as soon as it has its size: nothing is drawn empty first.
        self.show(self.dashboard.frame)

    def in_bar(self, binding: Binding) -> bool:
        """Once the run has ended, what can still be done with it; and where to look at what it left."""
        if binding.action == "back":
            return bool(self.words_in_bar(binding))
        if binding.action == "zoom" and self._opened is not None:
            return False  # the key back stands there for it
        if not self._left.over:
            return binding.show
        match binding.action:
            case "retry":
                return self._left.to_retry
            case "pause":
                return self._left.to_start
            case "cancel":
                return False
            case "zoom":
                return False  # there is little room
            case "panel(4)" | "panel(5)":
                return True
        return binding.show

    def words_in_bar(self, binding: Binding) -> str:
        """Where escape leads, when that has to be seen."""
        if binding.action != "back":
            return ""
        if self._opened is not None:
            return "back"
        return "leaves the replay" if self.dashboard.replays.showing else ""

    # Layout

    @property
    def layout_name(self) -> str:
        """Wide, normal or narrow."""
        size = self.app.size
        if size.width >= WIDE[0] and size.height >= WIDE[1]:
            return "wide"
        return "normal" if size.width >= NORMAL[0] and size.height >= NORMAL[1] else "narrow"

    def _arrange(self) -> None:
        layout = self.layout_name
        opened = self._opened
        everything = layout == "wide" and opened is None
        alone = opened or 1
        for panel in self.query(Panel):
            panel.display = everything or alone == panel.NUMBER
        self.query_one("#side").display = everything or alone in (2, 3)
        self.query_one("#top").display = everything or alone in (1, 2, 3)
        self.query_one("#bottom").display = everything or alone in (4, 5)
        self.query_one("#summary").display = layout == "normal" and alone == 1
        self.set_class(not everything, "-alone")
        self.set_class(layout == "narrow", "-narrow")
        self.set_class(self.app.size.height >= 36, "-tall")

    def on_screen_resume(self) -> None:
        """Tell when all parts have been laid out, which Textual does after this."""
        self.call_next(self.dashboard.laid_out)

    def refresh(
        self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False
    ) -> Self:
        """Draw anew; what was never drawn is drawn once, and not once more for this."""
        if self.is_attached and not self.dashboard.seen:
            repaint = False
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def on_resize(self, event: events.Resize) -> None:
        """Another size may need another layout."""
        self._arrange()

    @on(Panel.Wanted)
    def _panel_wanted(self, event: Panel.Wanted) -> None:
        self._open(event.number if event.number != self._opened else None)

    def _open(self, number: int | None) -> None:
        self._opened = number
        self.query_one(KeyBar).refresh()
        self._arrange()
        self._panel(number or 1).focus_inside()
        self.call_after_refresh(self.catch_up)

    def _panel(self, number: int) -> Panel:
        return next(panel for panel in self.query(Panel) if number == panel.NUMBER)

    @property
    def _focused_panel(self) -> Panel | None:
        """The panel that has the keys."""
        around = self.focused.ancestors_with_self if self.focused is not None else []
        return next((widget for widget in around if isinstance(widget, Panel)), None)

    # Frames

    def show(self, frame: Frame) -> None:
        """Show this frame in every part that is seen."""
        cells = self.app.size.width
        estimate = self._forecast.at(frame.snapshot, frame.now)
        self.query_one("#header", LineView).show([header_line(frame, cells, estimate)])
        if (tape := self.dashboard.source.playback) is not None:
            self.query_one("#tape", LineView).show([tape_line(tape, cells, over=frame.over)])
        self._show_banner(frame, cells)
        if (left := Left.of(frame)) != self._left:
            self._left = left
            self.query_one(KeyBar).refresh()
        for panel in self.query(Panel):
            if panel.display:
                panel.show(frame)
        if self.query_one("#summary").display:
            self.query_one("#summary", LineView).show(self._summary_lines(frame, cells))

    def _show_banner(self, frame: Frame, cells: int) -> None:
        banner = self.query_one("#banner", LineView)
        line = banner_line(frame, cells - 2) or self._hint_line(frame, cells)
        banner.display = bool(line)
        banner.show([cut_line(((" ", "text"), *line), cells)])

    def _hint_line(self, frame: Frame, cells: int) -> Line:
        full, short = self.dashboard.hints.text(frame)
        return text(f"› {full if len(full) + 4 <= cells else short}", "accent") if full else ()

    def _summary_lines(self, frame: Frame, cells: int) -> list[Line]:
        lines: list[Line] = []
        for panel in self.query(Panel):
            if panel.NUMBER > 1:
                head: Line = ((f" {panel.NUMBER} ", "accent"), (fit(panel.NAME, 9), "muted"))
                lines.append(cut_line((*head, *panel.summary(frame)), cells))
        return lines

    def on_click(self, event: events.Click) -> None:
        """A click on a line of the summary opens its panel; on the tape it goes there."""
        if event.widget is self.query_one("#summary"):
            self._open(event.screen_y - self.query_one("#summary").region.y + 2)
        elif event.widget is self.query_one("#tape"):
            self._seek(event.screen_x)

    def _seek(self, x: int) -> None:
        tape = self.dashboard.source.playback
        if tape is not None:
            tape.seek(tape.length * x / max(1, self.app.size.width - 1))

    @on(LessonsPanel.Opened)
    def _lesson_opened(self, event: LessonsPanel.Opened) -> None:
        self.app.push_screen(
            LessonScreen(event.hit.lesson, event.hit.spans, self.dashboard.source.lookups.lesson)
        )

    @on(TaskList.Opened)
    def _task_opened(self, event: TaskList.Opened) -> None:
        self.app.push_screen(TaskScreen(event.task_id))

    @on(PickList.Picked, "#runs")
    def _run_picked(self, event: PickList.Picked) -> None:
        self.dashboard.replays.open(event.key)

    # Keys

    @property
    def tasks(self) -> TaskList:
        """The task list."""
        return self.query_one(TaskList)

    def action_panel(self, number: int) -> None:
        """Go to a panel; where it is not seen, open it in full."""
        if self.layout_name == "wide" and self._opened is None:
            self._panel(number).focus_inside()
        else:
            self._open(number if number > 1 or self.layout_name == "wide" else None)

    def action_zoom(self) -> None:
        """Show the panel that has the keys in full, or all panels again."""
        if self._opened is not None:
            self._open(None)
            return
        inside, focused = self._focused_panel, self.focused
        self._open(inside.NUMBER if inside is not None else 1)
        if inside is not None:
            self.set_focus(focused)  # among the hits of a search, say

    def action_back(self) -> None:
        """Close what is open, or go back to the tasks: the search, the panel, the marks, the filter."""
        dispatch, lessons = self.query_one(DispatchPanel), self.query_one(LessonsPanel)
        if self._focused_panel is lessons and lessons.clear_search():
            return
        if self._opened is not None:
            self._open(None)
        elif (panel := self._focused_panel) is not None and panel.NUMBER > 1:
            self.tasks.focus()
        elif self.tasks.marked:
            self.tasks.unmark()
        elif dispatch.clear_filter():
            return
        elif self.dashboard.hints.dismiss():
            self.catch_up()
        elif self.dashboard.replays.showing:
            self.dashboard.replays.close()
        elif self.dashboard.source.mode == "REPLAY" and self.tasks.has_focus:
            self.dashboard.tell("q leaves the replay")
        else:
            self.tasks.focus()

    def action_filter(self) -> None:
        """Type what to list."""
        if self._opened not in (None, 1):
            self._open(1 if self.layout_name == "wide" else None)
        self.query_one(DispatchPanel).open_filter()

    def action_problems(self) -> None:
        """List only what went wrong, or all again."""
        self.tasks.relist(problems_only=not self.tasks.problems_only)
        self.tasks.focus()

    def action_sort(self) -> None:
        """Another order."""
        self.tasks.relist(order=self.tasks.order.next)

    def action_retry(self) -> None:
        """Try the chosen tasks again."""
        self.dashboard.steering.retry(self.tasks.acted_on())
        self.tasks.unmark()

    def action_cancel(self) -> None:
        """Cancel the chosen tasks, after a question."""
        self.dashboard.steering.cancel(self.tasks.acted_on(), self.tasks.unmark)

    def action_lane(self) -> None:
        """Move the chosen tasks to the other lane."""
        self.dashboard.steering.change_lane(self.tasks.acted_on())
        self.tasks.unmark()

    def action_pause(self) -> None:
        """Pause or go on."""
        self.dashboard.steering.toggle_pause()

    def action_choose_run(self) -> None:
        """Ask which run to watch."""
        self.dashboard.replays.choose()

    def action_drain(self) -> None:
        """Start no more tasks, after a question."""
        self.dashboard.steering.drain()

    def action_land_now(self) -> None:
        """Let the train leave."""
        self.dashboard.steering.land_now()

    def action_more(self, step: int) -> None:
        """More or fewer tasks at once."""
        self.dashboard.steering.step_concurrency(step)

    def action_speed(self, step: int) -> None:
        """Play faster or slower."""
        self.dashboard.steering.step_speed(step)

    def action_seek(self, direction: int) -> None:
        """Jump in a replay."""
        self.dashboard.steering.seek_by(direction * JUMP)
