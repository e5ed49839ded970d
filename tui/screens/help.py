"""The keys, made from the bindings themselves, so that they cannot be wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual.binding import Binding, BindingType
from textual.dom import DOMNode

from tui.format import fit
from tui.line import BLANK, Line, text, wrapped
from tui.modes import works_in
from tui.screens.dialogs import LinesScreen
from tui.source.protocol import Mode
from tui.widgets.key_bar import SHOWN_AS

if TYPE_CHECKING:
    from tui.app import DashboardApp


def key_groups(mode: Mode, here: Sequence[DOMNode] = ()) -> list[tuple[str, list[tuple[str, str]]]]:
    """The keys that work in this mode with what they do, by the place where they work.

    Those of the places that keys go to now come first: `here` is the widget that has the focus, and what it lies in.
    """
    from tui.app import DashboardApp
    from tui.panels.lessons import LessonInput
    from tui.screens.main import MainScreen
    from tui.screens.task import TaskScreen
    from tui.widgets.lesson_list import LessonList
    from tui.widgets.line_view import LineView
    from tui.widgets.run_list import RunList
    from tui.widgets.task_list import TaskList

    places = (
        ("Tasks", TaskList),
        ("Runs", RunList),
        ("Lessons", LessonList),
        ("Search of lessons", LessonInput),
        ("Dashboard", MainScreen),
        ("Task screen", TaskScreen),
        ("Any text", LineView),
        ("Everywhere", DashboardApp),
    )
    more = {"Everywhere": [("ctrl+p", "Commands: all of this by name")]}
    groups = [(name, _rows(place.BINDINGS, mode) + more.get(name, [])) for name, place in places]
    now = {next((name for name, place in places if isinstance(node, place)), "") for node in here}
    return sorted(groups, key=lambda group: group[0] not in now)


def _rows(bindings: Iterable[BindingType], mode: Mode) -> list[tuple[str, str]]:
    rows = []
    for binding in bindings:
        assert isinstance(binding, Binding)
        if not works_in(binding.action, mode):
            continue
        keys = " ".join(SHOWN_AS.get(key, key) for key in binding.key.split(","))
        words = binding.tooltip or binding.description
        rows.append((keys, words[:1].upper() + words[1:]))
    return rows


class HelpScreen(LinesScreen):
    """Every key and what it does."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark", "dismiss", "Close", show=False)]
    TITLE_TEXT = "Keys"

    def lines(self, width: int) -> list[Line]:
        """The keys by place."""
        lines: list[Line] = []
        app = cast("DashboardApp", self.app)
        below = app.screen_stack[app.screen_stack.index(self) - 1]
        here = (below.focused or below).ancestors_with_self
        for name, rows in key_groups(app.source.mode, here):
            lines += [text(name, "accent strong")]
            for keys, words in rows:
                for number, row in enumerate(wrapped(words, max(16, width - 19), "muted")):
                    lines.append(((f"  {fit('' if number else keys, 16)} ", "text strong"), *row))
            lines.append(BLANK)
        return lines[:-1]
