"""The command palette: every command by name, and every task by id or text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from engine.blocked import blocked
from tui.format import safe_text
from tui.rows import look_of

if TYPE_CHECKING:
    from tui.app import DashboardApp

MAX_TASKS = 30
"""Tasks that one search lists."""


class DashboardCommands(Provider):
    """Finds commands and tasks."""

    @property
    def _dashboard(self) -> DashboardApp:
        return cast("DashboardApp", self.app)

    def _commands(self) -> Iterator[tuple[str, str, Callable[[], object]]]:
        app = self._dashboard
        steering = app.steering
        if app.source.mode == "REPLAY":
            yield "Play or pause", "The tape of the replay (p)", steering.toggle_play
            yield "Faster", "Play the tape faster (>)", partial(steering.step_speed, 1)
            yield "Slower", "Play the tape slower (<)", partial(steering.step_speed, -1)
        elif app.source.mode == "LIVE":
            yield "Pause or go on", "Start no more tasks, or start them again (p)", steering.toggle_pause
            yield "Drain", "Start no more tasks, end with those that run (X)", steering.drain
            yield "Land now", "Let the train leave with what is ready (L)", steering.land_now
            yield "Change the lane", "Of the chosen tasks: economy or fast (m)", app.change_lane
            yield "One more task at once", "Raise the limit (>)", partial(steering.step_concurrency, 1)
            yield "One task fewer at once", "Lower the limit (<)", partial(steering.step_concurrency, -1)
        for number, name in enumerate(("Dispatch", "Caches", "Batches", "Lessons", "History"), 1):
            yield f"Panel: {name}", f"Go to it ({number})", partial(app.go_to_panel, number)
        yield "Board", "The rows that were edited and wait for an answer (b)", app.action_board
        yield "Notices", "All that a person was told in this run (n)", app.action_notices
        yield "Keys", "Every key and what it does (?)", app.action_help
        yield "Light or dark", "The other theme (t)", app.action_theme
        yield "Quit", "Leave the dashboard (q)", app.action_leave

    async def discover(self) -> Hits:
        """All commands, before anything is typed."""
        for name, help_, run in self._commands():
            yield DiscoveryHit(name, run, help=help_)

    async def search(self, query: str) -> Hits:
        """Commands and tasks that match."""
        matcher = self.matcher(query)
        for name, help_, run in self._commands():
            if (score := matcher.match(name)) > 0:
                yield Hit(score, matcher.highlight(name), run, help=help_)
        found = 0
        words = query.lower().split()
        for view in self._dashboard.frame.snapshot.tasks:
            label = safe_text(f"{view.id}  {view.task.scope}", 100)
            if all(word in label.lower() for word in words):
                look = look_of(view, blocked(self._dashboard.frame.snapshot))
                yield Hit(
                    0.9 if view.id.lower().startswith(query.lower()) else 0.5,
                    Content(label),
                    partial(self._dashboard.open_task, view.id),
                    text=label,
                    help=f"{look.glyph} {look.word}",
                )
                found += 1
                if found >= MAX_TASKS:
                    return
