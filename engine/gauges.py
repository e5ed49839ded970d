"""Measure what the panels show, and tell only what changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from engine import events as ev
from engine.bus import Bus
from engine.figures import (
    HistoryFigures,
    LessonFigures,
    LimiterFigures,
    PeerFigures,
    QueueFigures,
    ResultCacheFigures,
    TemplateFigures,
)

_T = TypeVar("_T")


class Gauges:
    """Reads every gauge on `measure`. A reader is called on the engine's loop and must be quick.

    `state_lost` gives the words for a state folder that was removed under the run, empty while it is there.
    """

    def __init__(
        self,
        bus: Bus,
        *,
        results: Callable[[], ResultCacheFigures],
        templates: Callable[[], TemplateFigures],
        lessons: Callable[[], LessonFigures],
        history: Callable[[], HistoryFigures],
        limiters: Callable[[], tuple[LimiterFigures, ...]],
        queues: Callable[[], tuple[QueueFigures, ...]],
        peers: Callable[[], tuple[PeerFigures, ...]] = tuple,
        state_lost: Callable[[], str],
    ) -> None:
        self._bus = bus
        self._results = results
        self._templates = templates
        self._lessons = lessons
        self._history = history
        self._limiters = limiters
        self._queues = queues
        self._peers = peers
        self._state_lost = state_lost
        self._told_lost = False
        self._last = ev.Measured(at=0.0)

    def measure(self) -> None:
        """Tell the gauges that changed since the last time, in one event; none when none did."""
        now = ev.Measured(
            at=0.0,
            results=self._results(),
            templates=self._templates(),
            lessons=self._lessons(),
            history=self._history(),
            limiters=self._limiters(),
            queues=self._queues(),
            peers=self._peers(),
        )
        lost = self._state_lost()
        if lost and not self._told_lost:
            self._told_lost = True
            self._bus.notice("error", lost)
        last, self._last = self._last, now
        if now == last:
            return
        self._tell_trouble(now, last)
        self._bus.emit(
            ev.Measured(
                at=self._bus.clock(),
                results=_changed(now.results, last.results),
                templates=_changed(now.templates, last.templates),
                lessons=_changed(now.lessons, last.lessons),
                history=_changed(now.history, last.history),
                limiters=_changed(now.limiters, last.limiters),
                queues=_changed(now.queues, last.queues),
                peers=_changed(now.peers, last.peers),
            )
        )

    def _tell_trouble(self, now: ev.Measured, last: ev.Measured) -> None:
        """Say in words what a person would have to know although the run goes on."""
        results, before = now.results, last.results
        if results is not None and results.disabled and (before is None or not before.disabled):
            self._bus.notice(
                "warning", f"the result cache is off, the run goes on without it: {results.disabled}"
            )
        history, earlier = now.history, last.history
        if history is not None and history.problem and (earlier is None or not earlier.problem):
            self._bus.notice(
                "warning", f"the history is not archived, and keeps more than it should: {history.problem}"
            )


def _changed(now: _T, last: _T) -> _T | None:
    return now if now != last else None
