"""One lesson in whole: what helped, what failed, how often and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from tui.lesson_rows import whole_lesson
from tui.line import Line
from tui.screens.dialogs import LinesScreen

if TYPE_CHECKING:
    from engine.store.lessons.ranking import Span
    from engine.store.lessons.record import Lesson


class LessonScreen(LinesScreen):
    """The lesson, at the time `now` (seconds since the epoch); `spans` are the parts to mark."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,backspace", "dismiss", "Close", show=False)]
    TITLE_TEXT = "Lesson"

    def __init__(self, lesson: Lesson, spans: Sequence[Span], now: float) -> None:
        super().__init__()
        self.lesson = lesson
        self._spans = spans
        self._now = now

    def lines(self, width: int) -> list[Line]:
        """All of it."""
        return whole_lesson(self.lesson, self._spans, width, self._now)
