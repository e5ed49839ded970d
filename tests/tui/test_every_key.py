"""Every key that the help lists for the dashboard does what it says, in a run, a watched run and a replay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from textual.binding import Binding
from textual.pilot import Pilot

from engine import events as ev
from tests.tui import past, sample_run
from tests.tui.stage import Control
from tests.tui.test_keys import WIDE, ready, until
from tui.app import DashboardApp
from tui.modes import works_in
from tui.order import Order
from tui.screens.board import BoardScreen
from tui.screens.dialogs import ConfirmScreen, NoticesScreen
from tui.screens.help import HelpScreen
from tui.screens.main import MainScreen
from tui.screens.runs import RunsScreen
from tui.screens.task import TaskScreen
from tui.source import Mode, RecordedSource, ReplaySource, Source
from tui.widgets.task_list import TaskList

Effect: TypeAlias = Callable[[DashboardApp], object]


class Chosen:
    """Takes the place of what goes to another run."""

    def choose(self, run: str) -> None: ...


def tasks(app: DashboardApp) -> TaskList:
    return app.screen_stack[0].query_one(TaskList)


def told(app: DashboardApp) -> object:
    control = app.source.control
    return len(control.calls) if isinstance(control, Control) else None


def displayed(app: DashboardApp) -> object:
    main = app.screen_stack[0]
    return tuple(main.query_one(f"#{name}").display for name in ("dispatch", "caches", "batches", "lessons"))


def place(app: DashboardApp) -> object:
    focused = app.screen.focused
    return focused.id or type(focused).__name__ if focused is not None else None


def opens(screen: type) -> Effect:
    return lambda app: isinstance(app.screen, screen)


def tape(app: DashboardApp) -> tuple[bool, float, float]:
    playback = app.source.playback
    assert playback is not None
    return playback.playing, playback.speed, playback.position


EFFECTS: dict[str, Effect] = {
    "move": lambda app: tasks(app).cursor,
    "page": lambda app: tasks(app).cursor,
    "jump": lambda app: tasks(app).cursor,
    "open": opens(TaskScreen),
    "fold": lambda app: tasks(app).virtual_size.height,
    "mark": lambda app: tasks(app).marked,
    "mark_all": lambda app: tasks(app).marked,
    "filter": place,
    "problems": lambda app: tasks(app).problems_only,
    "sort": lambda app: tasks(app).order,
    "retry": told,
    "cancel": opens(ConfirmScreen),
    "pause": told,
    "drain": opens(ConfirmScreen),
    "lane": told,
    "land_now": told,
    "more": told,
    "play": lambda app: tape(app)[0],
    "speed": lambda app: tape(app)[1],
    "seek": lambda app: tape(app)[2],
    "zoom": displayed,
    "panel": place,
    "app.focus_next": place,
    "app.focus_previous": place,
    "choose_run": opens(RunsScreen),
    "back": lambda app: tasks(app).filter_text,
    "help": opens(HelpScreen),
    "notices": opens(NoticesScreen),
    "board": opens(BoardScreen),
    "theme": lambda app: app.theme,
    "leave": lambda app: app.is_running and not isinstance(app.screen, ConfirmScreen),
}
"""What each action changes: this differs after the key from what it was before."""

FIRST: dict[str, tuple[str, ...]] = {
    "move(-1)": ("G",),
    "page(-1)": ("G",),
    "jump(0)": ("G",),
    "fold(True)": ("s",),
    "fold(False)": ("s", "left"),
    "panel(1)": ("2",),
    "cancel": ("j",),
    "lane": ("j",),
    "back": ("slash", "z", "enter"),
    "more(-1)": ("greater_than_sign",),
    "seek(-1)": ("right_square_bracket",),
}
"""Keys that bring about what the action needs to have an effect."""


def source_in(mode: Mode, folder: Path) -> Source:
    lookups = past.three_runs(folder)
    if mode == "REPLAY":
        return ReplaySource(sample_run.events(), lookups=lookups, monotonic=lambda: 0.0)
    source = RecordedSource(
        sample_run.events_until(290),
        mode=mode,
        control=Control() if mode == "LIVE" else None,
        choice=Chosen() if mode == "WATCH" else None,
        lookups=lookups,
    )
    source.play(
        ev.Noticed(at=source.now(), level="warning", text="a word"),
        # So that something waits for the next train.
        ev.TrainArrived(at=source.now(), train=4, landed=(), sent_back=(), problem="the remote is away"),
    )
    return source


def bindings(mode: Mode) -> list[Binding]:
    """One for each key and action that the help lists; what ends the dashboard last."""
    found = [
        Binding(key, each.action)
        for where in (TaskList, MainScreen, DashboardApp)
        for each in where.BINDINGS
        if isinstance(each, Binding) and works_in(each.action, mode)
        for key in each.key.split(",")
    ]
    return sorted(found, key=lambda each: each.action == "leave")


async def at_rest(app: DashboardApp, pilot: Pilot[int]) -> None:
    """Close whatever is open, and stand on the first task."""
    while not isinstance(app.screen, MainScreen):
        await pilot.press("escape")
        await pilot.pause()
    if not app.screen.query_one("#dispatch").display or not app.screen.query_one("#caches").display:
        await pilot.press("escape")
    app.screen.query_one("#tasks").focus()
    listed = tasks(app)
    listed.unmark()
    listed.relist(order=Order.PROBLEMS, filter_text="", problems_only=False)
    await pilot.press("g")
    await until(lambda: listed.cursor == 0 and bool(listed.shown))


@pytest.mark.parametrize("mode", ["LIVE", "WATCH", "REPLAY"])
async def test_every_key_has_its_effect(mode: Mode, tmp_path: Path) -> None:
    app = DashboardApp(source_in(mode, tmp_path))
    async with app.run_test(size=WIDE) as pilot:
        if mode == "REPLAY":
            await until(lambda: app.source.playback is not None and app.source.playback.playing)
            app.steering.seek_by(200)
            # Not the board as it was before anything began: the cursor would go along when that changes.
            await until(lambda: any(view.attempt for view in tasks(app).shown))
        await ready(app)
        for binding in bindings(mode):
            name = binding.action.partition("(")[0]
            await at_rest(app, pilot)
            await pilot.press(*FIRST.get(binding.action, ()))
            await pilot.pause()
            effect = EFFECTS[name]
            before = effect(app)
            await pilot.press(binding.key)
            try:
                await until(lambda: effect(app) != before)  # noqa: B023
            except TimeoutError:
                pytest.fail(f"{binding.key} ({binding.action}) changed nothing in {mode}: {before}")
            if name == "leave":
                break
