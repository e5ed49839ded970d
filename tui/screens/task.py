"""The task screen: all that is known of one task, section by section and attempt by attempt."""

from __future__ import annotations

from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from engine.blocked import blocked
from engine.model import TaskState
from engine.task_view import TaskView
from tui.format import safe_text
from tui.frame import Frame
from tui.hints import TASK
from tui.line import Line, cut_line, spread, text, width
from tui.plain import count
from tui.screens.base import FrameScreen
from tui.sections import head_lines
from tui.widgets.key_bar import KeyBar
from tui.widgets.line_view import LineView
from tui.widgets.pager import Pager
from tui.widgets.search_field import SearchField
from tui.widgets.task_body import SECTIONS, TaskBody


class TaskScreen(FrameScreen):
    """One task. Digits, or left and right, go from section to section; `<` and `>` from attempt to attempt."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace,q", "app.pop_screen", "back", tooltip="Back to the dashboard"),
        *[Binding(str(n), f"section({n - 1})", name, show=False) for n, name in enumerate(SECTIONS, 1)],
        Binding("right,tab", "turn(1)", "Next section", show=False, priority=True),
        Binding("left,shift+tab", "turn(-1)", "Previous section", show=False, priority=True),
        Binding(
            "less_than_sign",
            "attempt(-1)",
            "attempt",
            tooltip="The attempt before: its verdict, diff, logs, prompts",
        ),
        Binding("greater_than_sign", "attempt(1)", "The attempt after", show=False),
        Binding("right_square_bracket", "item(1)", "Next call, log, or file of the diff", show=False),
        Binding("left_square_bracket", "item(-1)", "Previous call, log, or file of the diff", show=False),
        Binding("slash", "find", "find", tooltip="Find text in the section"),
        Binding("n", "next_match(1)", "Next match; while nothing is looked for: notices", show=False),
        Binding("N", "next_match(-1)", "Previous match", show=False),
        Binding("f", "follow", "follow", tooltip="Follow the log as it grows, or stay"),
        Binding("w", "wrap", "wrap", tooltip="Wrap long lines, or scroll them with h and l"),
        Binding("T", "times", "Show when the lines of the log arrived, or not", show=False),
        Binding("a", "all", "Show all of a long diff", show=False),
        Binding("y", "copy", "copy", tooltip="Copy the section to the clipboard"),
        Binding("o", "open", "pager", tooltip="Open all of the section in $PAGER"),
        Binding("E", "edit", "Open all of the section in $EDITOR", show=False),
        Binding("r", "retry", "retry", tooltip="Try the task again, once it failed or was cancelled"),
        Binding("x", "cancel", "cancel", tooltip="Cancel the task, after a question"),
        Binding("m", "lane", "Move to the other lane: economy (half price, in batches) or fast", show=False),
        Binding("p", "pause", "Start no more tasks, or start them again", show=False),
        Binding("p", "play", "Play or pause; from the end, play again", show=False),
        Binding("J", "neighbour(1)", "Next task of the list", show=False),
        Binding("K", "neighbour(-1)", "Previous task of the list", show=False),
    ]

    def __init__(self, task_id: str, section: int = 0) -> None:
        super().__init__()
        self.task_id = task_id
        self._begin_at = section
        self._view: TaskView | None = None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While somebody types, the arrows move in what is typed."""
        if action == "turn" and isinstance(self.focused, SearchField):
            return False
        return super().check_action(action, parameters)

    def compose(self) -> ComposeResult:
        """Head, sections, where the reader is, body, keys."""
        for name in ("head", "sections", "place"):
            view = LineView(id=name)
            view.can_focus = False
            yield view
        yield TaskBody(self.dashboard.source.lookups, SECTIONS[self._begin_at])
        yield SearchField("find text in this section")
        yield KeyBar()

    def on_mount(self) -> None:
        """Let keys go to the text."""
        self._body.focus()
        if self.dashboard.hints.first_time("task"):
            self.dashboard.tell(TASK)

    @property
    def _body(self) -> TaskBody:
        return self.query_one(TaskBody)

    @property
    def _section(self) -> int:
        return SECTIONS.index(self._body.section)

    # Frames

    def show(self, frame: Frame) -> None:
        """Show the task as it is in this frame."""
        view = frame.snapshot.task(self.task_id)
        cells = self.app.size.width
        if view is None:
            self.query_one("#head", LineView).show(
                [text(f" {safe_text(self.task_id)} is not on this board", "warn")]
            )
            return
        before, self._view = self._view, view
        if before is None or (_landed(before), before.attempt) != (_landed(view), view.attempt):
            self.query_one(KeyBar).refresh()
        self.query_one("#head", LineView).show(head_lines(view, frame.until, cells, blocked(frame.snapshot)))
        self.query_one("#sections", LineView).show([self._section_line(cells)])
        self._body.show_task(view, frame)
        self._show_place()

    def in_bar(self, binding: Binding) -> bool:
        """What has landed can be neither tried again nor cancelled; what nobody tried has no attempts."""
        view = self._view
        hidden = {"retry", "cancel"} if view is not None and _landed(view) else set()
        if view is not None and not view.attempt:
            hidden.add("attempt(-1)")
        return binding.show and binding.action not in hidden

    def _section_line(self, cells: int) -> Line:
        spans = [(" ", "text")]
        at = self._section
        names = (
            SECTIONS if cells >= 80 else [name if n == at else name[:3] for n, name in enumerate(SECTIONS)]
        )
        for number, name in enumerate(names):
            here = number == at
            if cells < 60 and not here:
                spans.append((f"{number + 1} ", "faint"))
            else:
                spans.append((f"{number + 1} {name}", "accent strong underlined" if here else "muted"))
                spans.append(("  " if cells >= 80 else " ", "text"))
        return tuple(spans)

    @on(Pager.Changed)
    def _show_place(self) -> None:
        left: Line = ((" ", "text"), *self._body.place())
        found: Line = (*self._found_line(), (" ", "text"))
        cells = self.app.size.width
        self.query_one("#place", LineView).show(
            [spread(cut_line(left, cells - width(found) - 1), found, cells)]
        )

    def _found_line(self) -> Line:
        body = self._body
        if not body.searching:
            return ()
        at, total = body.found
        if not total:
            return text("not found", "warn")
        return text(f"{at} of {total} found, n N" if at else f"{total} found, n N", "accent")

    # Keys

    def _open(self, section: str, *, newest: bool = False) -> None:
        self._body.open(section, newest=newest)
        self.show(self.dashboard.frame)

    def action_section(self, number: int) -> None:
        """Go to a section."""
        self._open(SECTIONS[number])

    def action_turn(self, step: int) -> None:
        """Go to the next section, or the one before."""
        self.action_section((self._section + step) % len(SECTIONS))

    def action_attempt(self, step: int) -> None:
        """Another attempt, in the same section; from one that is the same for all, to the verdict."""
        if self._body.step_attempt(step):
            self.show(self.dashboard.frame)
        else:
            self.dashboard.tell(
                "there is no attempt before this one" if step < 0 else "this is the newest attempt"
            )

    def action_item(self, step: int) -> None:
        """Another call, another log, or another file of the diff."""
        self._body.step_item(step)
        self.show(self.dashboard.frame)

    def action_find(self) -> None:
        """Type what to look for."""
        self.query_one(SearchField).open()

    @on(SearchField.Left)
    def action_read(self) -> None:
        """Let keys go to the text."""
        self._body.focus()

    @on(Input.Changed)
    def _search_typed(self, event: Input.Changed) -> None:
        event.stop()
        self._body.search(event.value[:200])

    def action_next_match(self, step: int) -> None:
        """Go to another match; while nothing is looked for, n shows the notices as elsewhere."""
        if self._body.searching:
            self._body.next_match(step)
        elif step > 0:
            self.dashboard.action_notices()

    def action_follow(self) -> None:
        """Go with the log as it grows, or stay."""
        if self._body.section == "Log":
            self._body.set_follow(not self._body.follow)

    def action_wrap(self) -> None:
        """Wrap long lines or not."""
        self._body.set_wrap(not self._body.wrap)

    def action_times(self) -> None:
        """Show when the lines of the log arrived, or not."""
        if not self._body.toggle_times():
            self.dashboard.tell("nobody wrote down when the lines of this log arrived", "warning")

    def action_all(self) -> None:
        """Show all of a long diff."""
        self._body.show_all()
        self.show(self.dashboard.frame)

    def action_copy(self) -> None:
        """Copy the section."""
        copied = self._body.plain()
        self.app.copy_to_clipboard(copied)
        self.dashboard.tell(f"copied {count(len(copied.splitlines()), 'line')}")

    def action_open(self) -> None:
        """Open all of the section in the pager."""
        self.dashboard.programs.page(self._body.whole())

    def action_edit(self) -> None:
        """Open all of the section in the editor."""
        self.dashboard.programs.edit(self._body.whole())

    def action_retry(self) -> None:
        """Try the task again."""
        if self._view is not None:
            self.dashboard.steering.retry([self._view])

    def action_cancel(self) -> None:
        """Cancel the task."""
        if self._view is not None:
            self.dashboard.steering.cancel([self._view])

    def action_lane(self) -> None:
        """Move the task to the other lane."""
        if self._view is not None:
            self.dashboard.steering.change_lane([self._view])

    def action_pause(self) -> None:
        """Pause or go on."""
        self.dashboard.steering.toggle_pause()

    def action_neighbour(self, step: int) -> None:
        """The next task of the list, in the same section."""
        ids = [view.id for view in self.dashboard.listed]
        if self.task_id in ids:
            self.task_id = ids[(ids.index(self.task_id) + step) % len(ids)]
            self._open(self._body.section, newest=True)

    def on_click(self, event: events.Click) -> None:
        """A click on a section's name opens it."""
        if event.widget is self.query_one("#sections"):
            at = 0
            for content, _ in self._section_line(self.app.size.width):
                if at <= event.x < at + len(content) and content[:1].isdigit():
                    self.action_section(int(content[0]) - 1)
                    return
                at += len(content)


def _landed(view: TaskView) -> bool:
    return view.state is TaskState.LANDED
