"""The dashboard over a run of this process, of another one, or of the past."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tui.cli.console import say_all

if TYPE_CHECKING:
    from engine.events import Event
    from engine.store.lessons import Lesson, LessonStore, SearchResult
    from tui.cli.place import Place
    from tui.source import Lookups


def show_run(place: Place, environ: Mapping[str, str], *, kept: bool = True) -> int:
    """Run the board in a worker thread and show it; gives the exit status. What came of it stays on the terminal."""
    from engine.paths import user_state
    from engine.thread import EngineThread
    from tui.app import INTERRUPTED
    from tui.headless import ProgressLines
    from tui.show import show
    from tui.source import LiveSource

    engine = EngineThread(place.settings, environ)
    source = LiveSource(engine, lookups=_lookups_of(place))
    logs = place.paths.state / "logs" if kept else None
    hints = user_state(environ) / "hints"
    status = show(source, logs=logs, kept=kept, notify=place.settings.notify, hints=hints)
    if engine.finished is not None:
        if status == INTERRUPTED:  # it may have come to its own end while it was to stop
            status = engine.finished.exit_status
        say_all(ProgressLines(engine.latest(), kept=kept).of(engine.finished))
    return status


def show_watch(place: Place, run: str | None, *, choose: bool) -> int:
    """Show a run of another process, the newest one when none is named; gives the exit status.

    `choose`: ask first which one.
    """
    from tui.show import show
    from tui.source import WatchSource

    paths = place.paths
    return show(WatchSource(paths.state_db, paths.archive, run, lookups=_lookups_of(place)), choose=choose)


def show_replay(place: Place | None, events: Sequence[Event], speed: float) -> int:
    """Show a past run as it went; gives the exit status. Without a place there is nothing to look up beside it."""
    from tui.show import show
    from tui.source import Lookups, ReplaySource

    lookups = _lookups_of(place) if place is not None else Lookups()
    return show(ReplaySource(events, speed=speed, lookups=lookups))


class LessonSearch:
    """The lessons as the panel asks for them: by what somebody has typed so far."""

    def __init__(self, store: LessonStore) -> None:
        from engine.store.lessons import LiveSearch

        self._store = store
        self._live = LiveSearch(store.open_reader)

    def search_typed(self, typed: str, limit: int) -> AsyncIterator[SearchResult]:
        """The best lessons for the typed line; the most frequent ones while it is empty."""
        from engine.store.lessons import parse_query

        return self._live.search(parse_query(typed), limit=limit)

    def get(self, id_: str) -> Lesson | None:
        """The lesson with this id."""
        return self._store.get(id_)

    def close(self) -> None:
        """Close the store."""
        self._live.close()
        self._store.close()


def _lookups_of(place: Place) -> Lookups:
    from tui.source import Lookups, Runs

    runs = Runs(place.paths.state_db, place.paths.archive)
    return Lookups(_lessons_of(place), runs, place.settings.llm.prices)


def _lessons_of(place: Place) -> Callable[[], LessonSearch]:
    """What opens the lessons of a place, when they are first asked for."""

    def open_() -> LessonSearch:
        from engine.store.lessons import LessonStore

        file = place.settings.lessons.file or place.paths.lessons
        return LessonSearch(LessonStore(file, place.paths.lessons_index))

    return open_
