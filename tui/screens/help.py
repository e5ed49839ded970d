"""The keys, made from the bindings themselves, so that they cannot be wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from textual.binding import Binding, BindingType

from tui.format import fit
from tui.line import BLANK, Line, text, wrapped
from tui.modes import works_in
from tui.screens.dialogs import LinesScreen
from tui.source.protocol import Mode
from tui.widgets.key_bar import SHOWN_AS

if TYPE_CHECKING:
    from tui.app import DashboardApp


def key_groups(mode: Mode) -> list[tuple[str, list[tuple[str, str]]]]:
    """The keys that work in this mode with what they do, by the place where they work."""
    from tui.app import DashboardApp
    from tui.panels.lessons import LessonInput
    from tui.screens.main import MainScreen
    from tui.screens.task import TaskScreen
    from tui.widgets.lesson_list import LessonList
    from tui.widgets.line_view import LineView
    from tui.widgets.task_list import TaskList

    places = (
        ("Tasks", TaskList),
        ("Dashboard", MainScreen),
        ("Task screen", TaskScreen),
        ("Lessons", LessonList),
        ("Search of lessons", LessonInput),
        ("Any text", LineView),
        ("Everywhere", DashboardApp),
    )
    groups = [(name, _rows(place.BINDINGS, mode)) for name, place in places]
    groups[-1][1].append(("ctrl+p", "Commands: all of this by name"))
    return groups


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

    TITLE_TEXT = "Keys"

    def lines(self, width: int) -> list[Line]:
        """The keys by place."""
        lines: list[Line] = []
        for name, rows in key_groups(cast("DashboardApp", self.app).source.mode):
            lines += [text(name, "accent strong")]
            for keys, words in rows:
                for number, row in enumerate(wrapped(words, max(16, width - 19), "muted")):
                    lines.append(((f"  {fit('' if number else keys, 16)} ", "text strong"), *row))
            lines.append(BLANK)
        return lines[:-1]
