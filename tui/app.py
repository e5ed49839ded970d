"""The dashboard: it asks its source for the newest snapshot fifteen times a second, and draws what changed.

    status = show(LiveSource(EngineThread(settings, environ)))

`show` runs the app, and whatever happens gives the terminal back and stops the source.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from textual.app import App
from textual.binding import Binding, BindingType
from textual.command import Provider
from textual.screen import Screen

from engine.errors import TaskyardError
from engine.snapshot import TaskView
from tui.commands import DashboardCommands
from tui.format import safe_text
from tui.frame import Frame
from tui.notify import Notifier
from tui.screens.base import FrameScreen
from tui.screens.dialogs import ConfirmScreen, NoticesScreen, PendingBatchesScreen
from tui.screens.help import HelpScreen
from tui.screens.main import MainScreen
from tui.screens.task import TaskScreen
from tui.source import Source
from tui.steering import Steering
from tui.theme import DARK, DEFAULT_VARIABLES, LIGHT, theme_for

if TYPE_CHECKING:
    from engine.settings import NotifySettings

FRAMES = 15.0
"""Looks at the source a second; each costs a comparison when nothing changed."""

INTERRUPTED = 130

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class DashboardApp(App[int]):
    """Shows one source. The result is the exit status. `kept`: whether an interrupted run can be taken up again.

    With `notify`, who looks elsewhere is told that the run ended or that a task was given up.
    """

    CSS_PATH = "dashboard.tcss"
    TITLE = "taskyard"
    COMMANDS: ClassVar[set[type[Provider]]] = {DashboardCommands}  # type: ignore[assignment]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "help", tooltip="Every key and what it does"),
        Binding("n", "notices", "Notices: all that a person was told", show=False),
        Binding("t", "theme", "Light or dark", show=False),
        Binding(
            "q", "leave", "quit", tooltip="Quit, in a live run after a question; a second press quits at once"
        ),
        Binding("ctrl+c,ctrl+q", "leave", "Quit", show=False, priority=True),
    ]

    def __init__(self, source: Source, *, kept: bool = True, notify: NotifySettings | None = None) -> None:
        super().__init__()
        self._kept = kept
        self._notifier: Notifier | None = None
        if notify is not None:
            self._notifier = Notifier(notify, os.environ, write=self._ring, complain=self._not_notified)
        self.source = source
        self.steering = Steering(self)
        self.dismissed = 0
        self.crash: BaseException | None = None
        self._told = 0
        self._question: Screen[bool] | Screen[str] | None = None
        self.frame = self._look()
        for theme in (DARK, LIGHT):
            self.register_theme(theme)
        self.theme = theme_for(os.environ)

    def get_default_screen(self) -> Screen[None]:
        """The main screen."""
        return MainScreen()

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """What themes other than ours lack."""
        return DEFAULT_VARIABLES

    # Frames

    def on_mount(self) -> None:
        """Take signals over, and start the source once the first frame is on the screen."""
        loop = asyncio.get_running_loop()
        for number in _ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self._signalled, number)
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        self.source.start()
        self.set_interval(1 / FRAMES, self._tick)

    def _signalled(self, number: int) -> None:
        self.exit(128 + number, return_code=128 + number)

    def _fatal_error(self) -> None:
        # Textual would print pages of source and local values, which may hold what models and files said.
        self.crash = self.crash or sys.exc_info()[1]
        self._close_messages_no_wait()

    def _look(self) -> Frame:
        source = self.source
        return Frame(source.latest(), source.now(), source.health(), source.mode, self.dismissed)

    def _tick(self) -> None:
        error = self.source.error
        if error is not None:
            if self._notifier is not None:
                self._notifier.tell(f"stopped: {error}")
            self.exit(error.exit_status if isinstance(error, TaskyardError) else 1, return_code=1)
            return
        old, new = self.frame, self._look()
        if not self._differs(old, new):
            return
        self.frame = new
        if self._notifier is not None:
            self._notifier.look(new.snapshot)
        self._point_at_errors(new)
        self.show_frame()

    def _differs(self, old: Frame, new: Frame) -> bool:
        """Whether anything on the screen may look different. A run that stands still costs not one byte."""
        if new.snapshot is not old.snapshot or new.health.text != old.health.text:
            return True
        if new.dismissed != old.dismissed or new.health.alive != old.health.alive:
            return True
        return int(new.now) != int(old.now) and (new.moving or self.source.playback is not None)

    def show_frame(self) -> None:
        """Show the newest frame on every screen that can be seen."""
        for screen in reversed(self.screen_stack):
            if isinstance(screen, FrameScreen):
                screen.show(self.frame)
            if not screen.is_modal:
                break

    def _point_at_errors(self, frame: Frame) -> None:
        new = [n for n in frame.snapshot.notices if n.number > self._told and n.level == "error"]
        self._told = max(self._told, frame.snapshot.notice_count)
        if new and self.source.playback is None:
            more = f", and {len(new) - 1} more" if len(new) > 1 else ""
            about = f"{new[-1].task}: " if new[-1].task else ""
            self.tell(f"{about}{safe_text(new[-1].text, 160)}{more}; n lists all", "error")

    def _ring(self, codes: str) -> None:
        if self._driver is not None:
            self._driver.write(codes)

    def _not_notified(self, problem: str) -> None:
        self.call_later(self.tell, problem, "warning")

    def tell(
        self, message: str, severity: Literal["information", "warning", "error"] = "information"
    ) -> None:
        """Say something in passing."""
        self.notify(message, severity=severity, markup=False, timeout=4)

    # Commands

    @property
    def listed(self) -> tuple[TaskView, ...]:
        """The tasks in the order of the list."""
        main = self.screen_stack[0]
        return main.tasks.shown if isinstance(main, MainScreen) else ()

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
        while len(self.screen_stack) > 1:
            self.pop_screen()
        main = self.screen
        assert isinstance(main, MainScreen)
        return main

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(HelpScreen())

    def action_notices(self) -> None:
        """Show what there was to tell."""
        self.push_screen(NoticesScreen())

    def action_theme(self) -> None:
        """Change between light and dark."""
        self.theme = LIGHT.name if self.current_theme.dark else DARK.name

    @property
    def exit_status(self) -> int:
        """What a quit means now: the run's own status when it has finished."""
        finished = self.frame.snapshot.run.finished
        if self.source.playback is not None:
            return 0
        if finished is not None:
            return finished.exit_status
        return INTERRUPTED if self.source.mode == "LIVE" else 0

    def action_leave(self) -> None:
        """Quit; in the middle of a live run after a question, to which a second press says yes."""
        frame = self.frame
        asked = self._question is not None and self._question in self.screen_stack
        if asked or self.source.mode != "LIVE" or not frame.moving:
            self.exit(self.exit_status)
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self.exit(self.exit_status)

        def told(answer: str | None) -> None:
            control = self.source.control
            if answer == "cancel" and control is not None:
                control.cancel_batches()
            if answer in ("leave", "cancel"):
                self.exit(self.exit_status)

        pending = sum(batch.ended_at is None for batch in frame.snapshot.batches)
        if pending:
            batches = PendingBatchesScreen(pending)
            self._question = batches
            self.push_screen(batches, told)
            return
        question = ConfirmScreen(
            "Quit in the middle of the run?",
            "What was done is kept: taskyard takes the run up again."
            if self._kept
            else "This project is temporary, and goes with all that was done in it.",
            "Quit",
            "Stay",
        )
        self._question = question
        self.push_screen(question, answered)

    def page(self, what: Path | str) -> None:
        """Show a file, or a text, in $PAGER; the dashboard waits behind it."""
        self._hand_over(what, shlex.split(os.environ.get("PAGER") or "less -R"), "PAGER")

    def edit(self, what: Path | str) -> None:
        """Open a file, or a copy of a text, in $VISUAL or $EDITOR; the dashboard waits behind it."""
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        self._hand_over(what, shlex.split(editor), "EDITOR")

    def _hand_over(self, what: Path | str, command: list[str], variable: str) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".txt", prefix="taskyard-") as file:
            path = str(what)
            if isinstance(what, str):
                file.write(what)
                file.flush()
                path = file.name
            try:
                with self.suspend():
                    subprocess.run([*command, path], check=False)
            except OSError:
                self.tell(f"{command[0]} cannot be run: set {variable}", "warning")
        self.refresh()


def show(
    source: Source, *, logs: Path | None = None, kept: bool = True, notify: NotifySettings | None = None
) -> int:
    """Show the source until somebody quits; gives the exit status. The source is stopped, and an error of it told.

    An error of the dashboard itself is told in one line; how it came about goes to a file in `logs`, and with
    TASKYARD_DEBUG=1 to the terminal.
    """
    # Exported by some shells and tools, they would hold the size of the terminal fixed.
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)
    app = DashboardApp(source, kept=kept, notify=notify)
    crash: BaseException | None = None
    try:
        result = app.run()
        status = result if result is not None else app.return_code or 1
        crash = app.crash
    except Exception as raised:
        crash = raised
    finally:
        # It may take seconds; a second signal must not leave the engine's children behind.
        for number in _ENDING:
            signal.signal(number, signal.SIG_IGN)
        asyncio.run(source.stop())
    error = source.error
    if error is not None:
        name = "" if isinstance(error, TaskyardError) else f"{type(error).__name__}: "
        print(f"taskyard: {name}{error}", file=sys.stderr)  # noqa: T201
    if crash is not None:
        status = 1
        print(f"taskyard: {_tell_crash(crash, logs, kept)}", file=sys.stderr)  # noqa: T201
    return status


def _tell_crash(crash: BaseException, logs: Path | None, kept: bool) -> str:
    """One line about an error of the dashboard itself; the whole of it goes to a file."""
    if os.environ.get("TASKYARD_DEBUG") == "1":
        traceback.print_exception(crash)
    what = f"the dashboard failed ({type(crash).__name__}: {safe_text(str(crash), 200)})"
    then = "what was done is kept, and " * kept + "--headless needs no dashboard"
    if logs is None:
        return f"{what}: {then}; with TASKYARD_DEBUG=1 it says more"
    try:
        logs.mkdir(parents=True, exist_ok=True)
        file = logs / "dashboard-crash.log"
        file.write_text("".join(traceback.format_exception(crash)), "utf-8")
    except OSError:
        return f"{what}: {then}; with TASKYARD_DEBUG=1 it says more"
    return f"{what}: {then}; please report {file}"
