"""The fourth panel: what earlier failures taught, searched as you type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input

from engine.errors import TaskyardError
from engine.figures import LessonFigures
from engine.snapshot import LessonNote
from tui.format import safe_text
from tui.frame import Frame
from tui.lesson_rows import hit_rows, note_row
from tui.line import Line, joined, text, wrapped
from tui.panels.panel import Panel
from tui.plain import count
from tui.source.lookups import Lookups
from tui.widgets.lesson_list import Entry, LessonList
from tui.widgets.typed_field import TypedField

if TYPE_CHECKING:
    from engine.store.lessons.ranking import Hit
    from engine.store.lessons.search import SearchResult

MAX_TYPED = 200  # characters of a search
LEGEND_FROM = 62  # cells of the panel from which it says what its marks mean
TYPING = "type to search · esc leaves"
WAITING = "search (4): words, type: failure: file: since:"


class LessonInput(TypedField):
    """One line to type what to look for."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "clear, leave", tooltip="Clear the search; when it is empty, leave it"),
        Binding("enter", "submit", "hits", tooltip="Go to what was found"),
        Binding("down", "submit", "Go to what was found", show=False),
    ]

    class Left(Message):
        """Somebody is done with searching."""

    def action_leave(self) -> None:
        """Clear it; when it is empty already, leave it."""
        if self.value:
            self.value = ""
        else:
            self.post_message(self.Left())

    def on_focus(self, event: events.Focus) -> None:
        """Say how to get out: the keys of the dashboard are letters here."""
        self.placeholder = TYPING

    def on_blur(self, event: events.Blur) -> None:
        """Say what can be looked for."""
        self.placeholder = WAITING


class LessonsPanel(Panel):
    """A search over all lessons; before anything is typed, what this run learned and used."""

    DEFAULT_CSS = """
    LessonsPanel > LessonInput { height: 1; border: none; padding: 0; background: transparent; }
    """
    NUMBER = 4
    NAME = "Lessons"

    class Opened(Message):
        """Somebody wants to see this lesson."""

        def __init__(self, hit: Hit) -> None:
            super().__init__()
            self.hit = hit

    def __init__(self, lookups: Lookups, *, id: str) -> None:
        super().__init__(id=id)
        self._lookups = lookups
        self._found: SearchResult | None = None
        self._problem = ""
        self._typed = ""
        self._figures = LessonFigures()
        self._drawn: object = None

    def compose(self) -> ComposeResult:
        """The field and what was found."""
        if self._lookups.has_lessons:
            yield LessonInput(WAITING)
        yield LessonList(searchable=self._lookups.has_lessons)

    @property
    def hits(self) -> LessonList:
        """What was found."""
        return self.query_one(LessonList)

    # Searching

    @on(Input.Changed)
    def _searched(self, event: Input.Changed) -> None:
        event.stop()
        if event.value.startswith("/"):
            # Typed out of habit: the field is open already. More may have been typed since.
            event.input.value = event.input.value.lstrip("/")
            return
        self._typed = event.value.strip()[:MAX_TYPED]
        self._search(self._typed)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.hits.focus()

    @on(LessonInput.Left)
    async def _left(self) -> None:
        await self.run_action("screen.back")

    @on(LessonList.SearchWanted)
    def _search_wanted(self) -> None:
        self.focus_inside()

    @work(exclusive=True, group="lessons")
    async def _search(self, typed: str) -> None:
        try:
            async for found in self._lookups.search_lessons(typed):
                if typed == self._typed:
                    self._show_found(found)
        except TaskyardError as error:
            self._show_found(None, str(error))

    def _show_found(self, found: SearchResult | None, problem: str = "") -> None:
        self._found, self._problem = found, problem
        if self.frame is not None:
            self.show(self.frame)

    # Opening

    @on(LessonList.Opened)
    def _opened(self, event: LessonList.Opened) -> None:
        hits = self._found.hits if self._found is not None else ()
        hit = next((hit for hit in hits if hit.lesson.id == event.lesson_id), None)
        if hit is not None:
            # As it was found; the screen looks whether it is another by now.
            self.post_message(self.Opened(hit))
        else:
            self._open(event.lesson_id)

    @work(exclusive=True, group="lesson")
    async def _open(self, id_: str) -> None:
        """Open what this run learned, which no search has found."""
        from engine.store.lessons.ranking import Hit

        try:
            lesson = await self._lookups.lesson(id_)
        except TaskyardError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        if lesson is not None:
            self.post_message(self.Opened(Hit(lesson, 0.0)))
            return
        told = next((note.text for note in self._notes if note.lesson == id_), "")
        self.notify(
            f"{safe_text(told)} (no more is known of it here: the lessons file does not have it)",
            severity="warning",
            markup=False,
        )

    # Drawing

    def draw(self, frame: Frame) -> None:
        """Write what was found, and how much there is."""
        figures = frame.snapshot.lessons
        if figures != self._figures and self._lookups.has_lessons:
            self._figures = figures
            self._search(self._typed)
        cells = self.hits.scrollable_content_region.width
        notes = () if self._typed else self._notes
        # Hundreds of rows are not laid out anew for a clock that ticks: ages are told in minutes.
        hits = self._listed(frame)
        drawn = (hits, self._found, self._problem, notes, self._typed, cells, int(frame.now // 60))
        if drawn != self._drawn:
            self._drawn = drawn
            self.hits.fill(*self._laid_out(hits, notes, cells, frame.now))
        foot = self._foot(frame)
        # The narrow layout has no line below for it.
        self.head(foot if self.screen.has_class("-narrow") else "", foot)

    @property
    def _notes(self) -> tuple[LessonNote, ...]:
        return self.frame.snapshot.lesson_notes if self.frame is not None else ()

    def _listed(self, frame: Frame) -> tuple[Hit, ...]:
        """What was found; while nothing is looked for in a replay, of that what was known at its moment."""
        hits = self._found.hits if self._found is not None else ()
        if self._typed or frame.mode != "REPLAY":
            return hits
        return tuple(hit for hit in hits if hit.lesson.first_seen <= frame.now)

    def _foot(self, frame: Frame) -> str:
        figures = frame.snapshot.lessons
        if figures.building is not None:
            return f"indexing {figures.building:.0%}"
        bad = f" · {count(figures.malformed, 'line')} cannot be read" if figures.malformed else ""
        if self._found is not None and self._typed:
            took = max(1, round(self._found.took_s * 1000))
            # What is searched is the file as it is now, not as it was at the moment of a replay.
            of = "found today" if frame.mode == "REPLAY" else f"of {figures.total:,}"
            return f"{_total(self._found)} {of} in {took} ms{bad}"
        then = " then" if frame.mode == "REPLAY" else ""
        return f"{_legend(self._notes, self.size.width)}{count(figures.total, 'lesson')}{then}{bad}"

    def _laid_out(
        self, listed: tuple[Hit, ...], notes: tuple[LessonNote, ...], cells: int, now: float
    ) -> tuple[list[Entry], list[Line]]:
        """What this run learned, what was found, and what is to be said below."""
        if self._problem:
            return [], [text(safe_text(self._problem), "bad")]
        entries = [Entry(note.lesson, (note_row(note, cells),)) for note in reversed(notes)]
        told = {note.lesson for note in notes}
        found = self._found
        hits = [hit for hit in listed if hit.lesson.id not in told]
        entries += [Entry(hit.lesson.id, tuple(hit_rows(hit.lesson, hit.spans, cells, now))) for hit in hits]
        if found is not None and found.cut:
            return entries, [text("searching on …", "faint")]
        today = " today" if self.frame is not None and self.frame.mode == "REPLAY" else ""
        whole = found is not None and len(listed) == len(found.hits)  # not only those of a moment
        if found is not None and whole and (found.more or found.total > len(found.hits)):
            return entries, [
                text(f"{len(found.hits)} of {_total(found)}{today}: {self._how_to_narrow}", "faint")
            ]
        if not entries and found is not None and found.hint:
            return [], wrapped(safe_text(found.hint), cells, "warn")
        if not entries:
            nothing = (
                "no lesson matches: esc clears the search"
                if self._typed
                else "no lessons yet: a failed attempt writes the first"
            )
            return [], [text(nothing, "faint")]
        return entries, []

    def clear_search(self) -> bool:
        """Look for nothing any more; gives whether anything was looked for."""
        for field in self.query(LessonInput):
            if field.value:
                field.value = ""
                return True
        return False

    @property
    def _how_to_narrow(self) -> str:
        return "more words find fewer" if self._typed else "type to find others"

    def focus_inside(self) -> None:
        """Let keys go to the search."""
        self.screen.set_focus(self.query_one(LessonInput) if self._lookups.has_lessons else self.hits)

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


def _legend(notes: Sequence[LessonNote], cells: int) -> str:
    """What the marks before a lesson of this run mean, where there is room for it."""
    if not notes or cells < LEGEND_FROM:
        return ""
    return "✓ resolved, + not · 2×: seen twice · "


def _total(found: SearchResult) -> str:
    return f"{found.total:,}{'+' if found.more else ''}"
