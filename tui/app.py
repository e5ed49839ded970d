"""The dashboard: it asks its source for the newest snapshot fifteen times a second, and draws what changed."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar

from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.command import Provider
from textual.css.query import NoMatches
from textual.driver import Driver
from textual.screen import Screen
from textual.worker import WorkerFailed

from engine.errors import TaskyardError
from engine.snapshot import Snapshot
from engine.task_view import TaskView
from tui.commands import DashboardCommands
from tui.format import cut, safe_text
from tui.frame import Frame
from tui.hints import Hints
from tui.leaving import Leaving
from tui.notify import Notifier
from tui.programs import Programs
from tui.pulse import Pulse
from tui.replays import Replays
from tui.screens.base import FrameScreen, Guarded
from tui.screens.board import BoardScreen
from tui.screens.dialogs import NoticesScreen, Question
from tui.screens.help import HelpScreen
from tui.screens.main import MainScreen
from tui.screens.palette import Palette
from tui.screens.task import TaskScreen
from tui.source import Source
from tui.steering import Steering
from tui.terminal import TerminalDriver
from tui.theme import DARK, DEFAULT_VARIABLES, LIGHT, theme_for
from tui.widgets.typed_field import TypedField

if TYPE_CHECKING:
    from engine.settings import NotifySettings

_Answer = TypeVar("_Answer")

FRAMES = 15.0
"""Looks at the source a second; each costs a comparison when nothing changed."""

FRAMES_IN_CALM = 4.0
"""The same while nothing happens and nobody is at the keys."""

INTERRUPTED = 130  # the exit status of what ctrl-c ended, by the shells' custom


class DashboardApp(App[int]):
    """Shows one source, or a past run over it. The result is the exit status.

    `kept`: whether an interrupted run can be taken up again. With `notify`, who looks elsewhere is told that the run
    ended or that a task was given up. `choose`: begin by asking which run to watch.
    `hints` are for newcomers.
    """

    CSS_PATH = "dashboard.tcss"
    TITLE = "taskyard"
    COMMANDS: ClassVar[set[type[Provider]]] = {DashboardCommands}  # type: ignore[assignment]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "help", tooltip="Every key and what it does"),
        Binding("n", "notices", "Notices: all that a person was told", show=False),
        Binding("b", "board", "Board: the rows that were edited and wait for an answer", show=False),
        Binding("t", "theme", "Light or dark", show=False),
        Binding(
            "q", "leave", "quit", tooltip="Quit, in a live run after a question; a second press quits at once"
        ),
        Binding("ctrl+c,ctrl+q", "leave", "Quit", show=False, priority=True),
    ]

    def __init__(
        self,
        source: Source,
        *,
        kept: bool = True,
        notify: NotifySettings | None = None,
        choose: bool = False,
        hints: Hints | None = None,
    ) -> None:
        super().__init__()
        self.hints = hints or Hints()
        self._choose = choose
        self._notifier: Notifier | None = None
        if notify is not None:
            self._notifier = Notifier(notify, os.environ, write=self._ring, complain=self._not_notified)
        self.behind = source
        self.source = source
        self.steering = Steering(self)
        self.replays = Replays(self)
        self.programs = Programs(self)
        self._leaving = Leaving(self, kept)
        self.dismissed = 0
        self.crash: BaseException | None = None
        self._told = 0
        self.frame = self.look(source)
        self._heeded = self.frame.snapshot
        self._since = self.frame.now
        self._heard: int | None = None
        self._home: asyncio.AbstractEventLoop | None = None
        self._pulse = Pulse(self._beat, quick=FRAMES, calm=FRAMES_IN_CALM)
        self.seen = False
        """Whether the first frame is complete; until then the terminal is told nothing."""
        self._unseen = ExitStack()
        self._unseen.enter_context(self.batch_update())
        for theme in (DARK, LIGHT):
            self.register_theme(theme)
        self.theme = theme_for(os.environ)

    def get_default_screen(self) -> Screen[None]:
        """The main screen."""
        return MainScreen()

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """What themes other than ours lack."""
        return DEFAULT_VARIABLES

    def get_driver_class(self) -> type[Driver]:
        """One that a closed terminal does not stop, unless the environment names another."""
        return super().get_driver_class() if "TEXTUAL_DRIVER" in os.environ else TerminalDriver

    # Frames

    def laid_out(self) -> None:
        """Show the first frame at once, now that its parts have their sizes, and start the source after that.

        Empty panels first would be one whole screen more for a slow line.
        """
        if not self.seen:
            self.seen = True
            self.show_frame()
            self._unseen.close()
            self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        self._home = asyncio.get_running_loop()
        if self._heard is not None:  # while all came up: its parts would look for each other in vain
            self.end(self._heard)
            return
        self.source.start()
        self._pulse.start()
        if self._choose:
            self.replays.choose()

    def hear(self, number: int) -> None:
        """Quit, as this signal asks for, at any moment of the start and the end as well; the first one counts."""
        if self._heard is None:
            self._heard = number
            if self._home is not None:
                with suppress(RuntimeError):  # the loop has ended
                    self._home.call_soon_threadsafe(self.end, number)

    def end(self, number: int) -> None:
        """Quit, as this signal asks for."""
        self.exit(128 + number, return_code=128 + number)

    def _handle_exception(self, error: Exception) -> None:
        # As the app ends, screens lose their parts before they go: whoever looks for one then has found none.
        cause = error.error if isinstance(error, WorkerFailed) else error
        if self.is_running or not isinstance(cause, NoMatches):
            super()._handle_exception(error)

    def _fatal_error(self) -> None:
        # Textual would print pages of source and local values, which may hold what models and files said.
        self.crash = self.crash or sys.exc_info()[1]
        self._close_messages_no_wait()

    def look(self, source: Source) -> Frame:
        """A frame of this source as it is now."""
        playback = source.playback
        tape = (playback.playing, playback.speed) if playback is not None else None
        over = source is not self.behind
        return Frame(source.latest(), source.now(), source.health(), source.mode, self.dismissed, tape, over)

    def turn_to(self, source: Source, *, dismissed: int) -> None:
        """Show another source from now on; of its notices, those up to `dismissed` were seen."""
        self.source, self.dismissed = source, dismissed
        self.frame = self.look(source)

    def on_unmount(self) -> None:
        """Look no more."""
        self._pulse.stop()

    def _beat(self) -> bool:
        """Show what changed; says whether anything happened but that time passed in a run."""
        try:
            told = self.behind.error is not None or self.behind.latest() is not self._heeded
            new = self.look(self.source)
            changed = told or self._differs(self.frame, new)
        except Exception:
            self.call_next(self._tick)  # it fails again in the app's own turn, and there Textual hears of it
            return True
        if changed:
            self.call_next(self._tick)
        return told or new.snapshot is not self.frame.snapshot or (changed and new.tape is not None)

    def _tick(self) -> None:
        error = self.behind.error
        if error is not None:
            if self._notifier is not None:
                self._notifier.tell(f"stopped: {error}")
            self.exit(error.exit_status if isinstance(error, TaskyardError) else 1, return_code=1)
            return
        self._heed(self.behind.latest())
        old, new = self.frame, self.look(self.source)
        if self._differs(old, new):
            self.frame = new
            self.show_frame()
        for screen in self.screen_stack[-1:]:  # there is none once the app is about to end
            if isinstance(screen, Question) and screen.settled():
                screen.dismiss()

    def _heed(self, snapshot: Snapshot) -> None:
        """Tell what is news of the run that the dashboard was started for, whatever covers it."""
        if snapshot is self._heeded:
            return
        if snapshot.run.run != self._heeded.run.run:
            self._told = 0
        ended = self._heeded.run.finished is None and snapshot.run.finished is not None
        self._heeded = snapshot
        if self._notifier is not None:
            self._notifier.look(snapshot)
        self._point_at_errors(snapshot)
        if ended and self.replays.showing:
            self.tell("the run behind this replay has ended: esc goes back to it")

    def _differs(self, old: Frame, new: Frame) -> bool:
        """Whether anything on the screen may look different. A run that stands still costs not one byte."""
        if new.snapshot is not old.snapshot or new.health.text != old.health.text:
            return True
        if new.dismissed != old.dismissed or new.health.alive != old.health.alive or new.tape != old.tape:
            return True
        if new.moving or new.tape is not None:
            step = 1
        elif new.snapshot.run.finished is not None:
            step = 1 if new.now - new.snapshot.at < 60 else 60  # how long ago its last things were
        else:
            return False
        return int(new.now / step) != int(old.now / step)

    def show_frame(self) -> None:
        """Show the newest frame on every screen that can be seen."""
        if not self.is_running:  # as the app ends, screens lose their parts before they go
            return
        for screen in reversed(self.screen_stack):
            if screen.is_mounted and isinstance(screen, Guarded):  # it catches up by itself once it is
                screen.show(self.frame)
            if not screen.is_modal:
                break

    def _point_at_errors(self, snapshot: Snapshot) -> None:
        # What was told before anybody looked stands in the list, and is no news.
        late = (n for n in snapshot.notices if n.number > self._told and n.at >= self._since)
        new = [n for n in late if n.level == "error"]
        self._told = max(self._told, snapshot.notice_count)
        if new and self.behind.playback is None:
            more = f", and {len(new) - 1} more" if len(new) > 1 else ""
            about = f"{new[-1].task}: " if new[-1].task else ""
            then = "esc goes back to the run" if self.replays.showing else "n lists all"
            end = f"{more}; {then}"
            room = max(20, self.size.width - 4 - len(end))
            self.tell(f"✗ {cut(about + safe_text(new[-1].text, 400), room)}{end}", "error")

    def _ring(self, codes: str) -> None:
        if self._driver is not None:
            self._driver.write(codes)

    def _not_notified(self, problem: str) -> None:
        self.call_later(self.tell, problem, "warning")

    def tell(
        self, message: str, severity: Literal["information", "warning", "error"] = "information"
    ) -> None:
        """Say something in passing, on the line of the keys."""
        self.notify(message, severity=severity, markup=False, timeout=4)

    def _untell(self) -> None:
        """Take away what was said in passing, whose place another key may leave; what went wrong stays its time."""
        told = list(self._notifications)
        if told and all(each.severity != "error" for each in told):
            self.clear_notifications()

    # Commands

    @property
    def listed(self) -> tuple[TaskView, ...]:
        """The tasks in the order of the list."""
        main = next(screen for screen in reversed(self.screen_stack) if isinstance(screen, MainScreen))
        return main.tasks.shown

    def open_task(self, task_id: str) -> None:
        """Open the screen of a task."""
        self._back_to_main()
        self.push_screen(TaskScreen(task_id))

    def change_lane(self) -> None:
        """Move the chosen tasks of the main screen to the other lane."""
        self._back_to_main().action_lane()

    def go_to_panel(self, number: int) -> None:
        """Go to a panel of the main screen."""
        self._back_to_main().action_panel(number)

    def _back_to_main(self) -> MainScreen:
        while not isinstance(self.screen, MainScreen):
            self.pop_screen()
        return self.screen

    def push_main(self) -> None:
        """Put a main screen over all others, for another source."""
        self.push_screen(MainScreen())

    def pop_main(self) -> None:
        """Take the topmost main screen away, with all that stands over it."""
        self._back_to_main()
        self.pop_screen()

    async def on_event(self, event: events.Event) -> None:
        """Whoever is at the keys or the mouse sees at once what comes of it; after a quit, nothing does."""
        if isinstance(event, events.InputEvent | events.Paste):
            # Thousands of keys may stand between a signal and its end, and each would take its time.
            if self._heard is not None or not self.screen_stack:
                return
            self._pulse.hurry()
        if isinstance(event, events.Paste):
            # A field takes one line and shows it as it is, and what was copied anywhere may hold escape sequences.
            line = next(iter(event.text.splitlines()), "")
            event.text = safe_text(line, max(1, len(line)))
        if isinstance(event, events.Key | events.MouseDown):
            self._untell()
        await super().on_event(event)

    async def on_key(self, event: events.Key) -> None:
        """What was typed right after the key that opened a field belongs to the field; a key of another mode says so.

        Such keys were on their way to what had the focus before: "/fix" in one go must not press x. They are looked at
        here, where all that was pressed before them has had its effect.
        """
        if isinstance(self.focused, TypedField):
            if await self.focused.take(event):
                event.prevent_default()
                event.stop()
        elif isinstance(self.screen, FrameScreen) and (wanted := self.screen.refused(event.key)):
            event.stop()
            self.steering.refuse(wanted)

    def on_paste(self, event: events.Paste) -> None:
        """What was pasted right after the key that opened a field belongs to the field."""
        if isinstance(self.focused, TypedField):
            self.focused.paste(event)

    def action_command_palette(self) -> None:
        """Show all commands by name."""
        if not isinstance(self.screen, Palette):
            self.push_screen(Palette())

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(HelpScreen())

    def action_notices(self) -> None:
        """Show what there was to tell."""
        self.push_screen(NoticesScreen())

    def action_board(self) -> None:
        """Show what was changed on the board."""
        self.push_screen(BoardScreen())

    def action_theme(self) -> None:
        """Change between light and dark."""
        self.theme = LIGHT.name if self.current_theme.dark else DARK.name

    @property
    def exit_status(self) -> int:
        """What a quit means now: the run's own status when it has finished."""
        finished = self.behind.latest().run.finished
        if self.behind.playback is not None:
            return 0
        if finished is not None:
            return finished.exit_status
        return INTERRUPTED if self.behind.mode == "LIVE" else 0

    def ask(self, question: Question[_Answer], answered: Callable[[_Answer | None], None]) -> None:
        """Ask a question, in the place of one that is asked already: that counts as answered by no."""
        if isinstance(self.screen, Question):
            self.pop_screen()
        self.push_screen(question, answered)

    def action_leave(self) -> None:
        """Quit; in the middle of a live run after a question, to which a second press says yes."""
        self._leaving.ask()
