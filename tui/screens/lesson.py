"""One lesson in whole: what helped, what failed, how often and when."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual.binding import Binding, BindingType

from engine.errors import StoreError
from tui.lesson_rows import field_text, whole_lesson
from tui.line import Line
from tui.screens.dialogs import LinesScreen

if TYPE_CHECKING:
    from engine.store.lessons.ranking import Span
    from engine.store.lessons.record import Lesson
    from tui.app import DashboardApp

READ_EVERY = 1.0
"""Seconds between two looks at the store."""


class LessonScreen(LinesScreen):
    """The lesson as the store has it; `spans` are the parts to mark, `look_up` reads it anew by its id."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,backspace", "dismiss", "Close", show=False)]
    TITLE_TEXT = "Lesson"

    def __init__(
        self, lesson: Lesson, spans: Sequence[Span], look_up: Callable[[str], Awaitable[Lesson | None]]
    ) -> None:
        super().__init__()
        self.lesson = lesson
        self._spans = spans
        self._look_up = look_up

    def on_mount(self) -> None:
        """It may have been seen again, or resolved, since it was found, and may be while it is open."""
        self.run_worker(self._read())
        self.set_interval(READ_EVERY, lambda: self.run_worker(self._read()))

    def lines(self, width: int) -> list[Line]:
        """All of it."""
        now = cast("DashboardApp", self.app).frame.now
        return whole_lesson(self.lesson, self._spans, width, now)

    async def _read(self) -> None:
        try:
            lesson = await self._look_up(self.lesson.id)
        except StoreError:
            return  # the panel says so; what was read stays
        if lesson is None or lesson == self.lesson:
            return
        before, self.lesson = self.lesson, lesson
        # What was marked stands elsewhere in a text that is another.
        self._spans = [
            span for span in self._spans if field_text(before, span.field) == field_text(lesson, span.field)
        ]
        self.draw()
