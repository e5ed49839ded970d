"""The fourth panel: what earlier failures taught, searched as you type."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from engine.errors import TaskyardError
from tui.format import fit, safe_text
from tui.frame import Frame
from tui.line import Line, joined, text
from tui.panels.panel import Panel
from tui.plain import ago, count
from tui.source.lookups import LessonHits, Lookups
from tui.widgets.line_view import LineView

if TYPE_CHECKING:
    from engine.store.lessons.record import Lesson

MAX_TYPED = 200


class LessonInput(Input):
    """One line to type what to look for."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Clear the search", show=False)]

    def action_leave(self) -> None:
        """Clear it; when it is empty already, go back to the dashboard."""
        if self.value:
            self.value = ""
        else:
            self.screen.focus_next()


class LessonsPanel(Panel):
    """A search over all lessons; before anything is typed, what this run learned and used."""

    DEFAULT_CSS = """
    LessonsPanel > LessonInput { height: 1; border: none; padding: 0; background: transparent; }
    """
    NUMBER = 4
    NAME = "Lessons"

    def __init__(self, lookups: Lookups, *, id: str) -> None:
        super().__init__(id=id)
        self._lookups = lookups
        self._found: LessonHits | None = None
        self._problem = ""
        self._typed = ""
        self._total = 0

    def compose(self) -> ComposeResult:
        """The field and what was found."""
        if self._lookups.has_lessons:
            yield LessonInput(placeholder="search: words, type: failure: file: since:", compact=True)
        yield LineView()

    @on(Input.Changed)
    def _searched(self, event: Input.Changed) -> None:
        event.stop()
        self._typed = event.value.strip()[:MAX_TYPED]
        self.run_worker(self._search(self._typed), exclusive=True, group="lessons")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.query_one(LineView).focus()

    async def _search(self, typed: str) -> None:
        try:
            found = await self._lookups.search_lessons(typed)
        except TaskyardError as error:
            self._found, self._problem = None, str(error)
        else:
            if typed != self._typed:
                return
            self._found, self._problem = found, ""
        if self.frame is not None:
            self.show(self.frame)

    def draw(self, frame: Frame) -> None:
        """Write what was found, and how much there is."""
        total = frame.snapshot.lessons.total
        if total != self._total and self._lookups.has_lessons:
            self._total = total
            self.run_worker(self._search(self._typed), exclusive=True, group="lessons")
        super().draw(frame)
        self.head("", self._foot(frame))

    def _foot(self, frame: Frame) -> str:
        figures = frame.snapshot.lessons
        if figures.building is not None:
            return f"indexing {figures.building:.0%}"
        bad = f" · {count(figures.malformed, 'line')} cannot be read" if figures.malformed else ""
        if self._found is not None and self._typed:
            found = self._found
            return f"{found.total:,} of {figures.total:,} in {max(1, round(found.took_s * 1000))} ms{bad}"
        return f"{count(figures.total, 'lesson')}{bad}"

    def lines(self, frame: Frame, width: int, height: int) -> list[Line]:
        """What was found, or what this run learned."""
        if self._problem:
            return [text(safe_text(self._problem), "bad")]
        lines = [] if self._typed else note_lines(frame, width)
        if self._found is not None:
            shown = {note.lesson for note in frame.snapshot.lesson_notes} if not self._typed else set()
            words = self._typed.lower().split()
            lines += [
                lesson_line(lesson, width, frame.now, words)
                for lesson in self._found.lessons
                if lesson.id not in shown
            ]
        if not lines:
            nothing = (
                "no lesson matches" if self._typed else "no lessons yet: a failed attempt writes the first"
            )
            return [text(nothing, "faint")]
        return lines

    def focus_inside(self) -> None:
        """Let keys go to the search."""
        if self._lookups.has_lessons:
            self.query_one(LessonInput).focus()
        else:
            super().focus_inside()

    def summary(self, frame: Frame) -> Line:
        """How many there are, and how many were of use in this run."""
        totals = frame.snapshot.totals
        used = f"{totals.lessons_used} used" if totals.lessons_used else ""
        new = f"{totals.lessons_recorded} new" if totals.lessons_recorded else ""
        parts = [
            text(count(frame.snapshot.lessons.total, "lesson"), "text"),
            text(new, "warn"),
            text(used, "good"),
        ]
        return joined([part for part in parts if part[0][0]], " · ")


def note_lines(frame: Frame, width: int) -> list[Line]:
    """What this run learned, newest first."""
    lines: list[Line] = []
    for note in reversed(frame.snapshot.lesson_notes):
        mark, tone = ("✓", "good") if note.resolved else ("+", "warn")
        times = f"{note.times_seen}×" if note.times_seen > 1 else "new"
        head = f"{fit(safe_text(note.task), 8)} {fit(times, 4)} "
        room = max(8, width - 2 - len(head))
        lines.append(((mark + " ", tone), (head, "muted"), (fit(safe_text(note.text), room), "text")))
    return lines


def lesson_line(lesson: Lesson, width: int, now: float, words: list[str]) -> Line:
    """A lesson on one line: its kind, how often and when, and what helped. The words that were typed stand out."""
    age = ago(max(0.0, now - lesson.last_seen)) if lesson.last_seen else ""
    kind = f"{fit(safe_text(lesson.task_type), 9)} {fit(safe_text(lesson.failure_type), 14)}"
    head = f"{kind} {fit(f'{lesson.times_seen}×', 4, right=True)} {fit(age, 6, right=True)}  "
    if width < 84:
        head = f"{fit(safe_text(lesson.failure_type), 12)} {fit(f'{lesson.times_seen}×', 4, right=True)}  "
    helped = f" → {lesson.resolution}" if lesson.resolution else ""
    told = fit(safe_text(f"{lesson.failure_msg}{helped}"), max(8, width - len(head)))
    return ((head, "muted"), *highlighted(told, words))


def highlighted(content: str, words: list[str], tone: str = "text") -> Line:
    """The text with every place of a word (in lower case) underlined."""
    lower = content.lower()
    if len(lower) != len(content):
        return text(content, tone)
    hits = [False] * len(content)
    for word in words:
        start = lower.find(word)
        while start >= 0:
            hits[start : start + len(word)] = [True] * len(word)
            start = lower.find(word, start + len(word))
    spans: list[tuple[str, str]] = []
    begin = 0
    for index in range(1, len(content) + 1):
        if index == len(content) or hits[index] != hits[begin]:
            spans.append((content[begin:index], "accent underlined" if hits[begin] else tone))
            begin = index
    return tuple(spans)
