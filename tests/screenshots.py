"""The pictures in `screenshots/`: every screen, drawn from a recorded run of the demo, or from a moment made up.

`python -m tests.screenshots` draws them anew, or those whose names are given; with `--check` it only tells which would
come out differently.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

os.environ["TEXTUAL_ANIMATIONS"] = "none"  # read once, when Textual is first imported

from textual.pilot import Pilot
from textual.worker import WorkerCancelled

from tests import recorded_demo
from tests.tui import moments, past
from tests.tui.stage import Control
from tests.tui.still import standing_still
from tui.app import DashboardApp
from tui.source import RecordedSource, ReplaySource, Source
from tui.theme import DARK, LIGHT
from tui.widgets.task_list import TaskList

FOLDER = Path(__file__).parents[1] / "screenshots"
MIDDLE = 21.0  # seconds into the demo: a task was sent back, others wait in batches and for the train
END = recorded_demo.events()[-1].at - recorded_demo.events()[0].at

Opened = Callable[[Path], Source]
"""Makes the source of a picture; the folder is for the files it needs."""


def demo(folder: Path, seconds: float = MIDDLE, earlier: bool = False) -> RecordedSource:
    """The demo, so many seconds into it; where there were `earlier` runs, or not."""
    events = recorded_demo.events()
    now = events[0].at + seconds
    return RecordedSource(
        (event for event in events if event.at <= now),
        now=now,
        control=Control(),
        lookups=recorded_demo.lookups(folder, past.of_the_demo(folder, now, earlier)),
    )


def watched(folder: Path) -> RecordedSource:
    """The demo as another process sees it, which may turn to earlier runs."""
    source = demo(folder, earlier=True)
    source.mode, source.control, source.choice = "WATCH", None, Staying()
    return source


class Staying:
    """Stays with the run."""

    def choose(self, run: str) -> None: ...


def replay(folder: Path) -> Source:
    """The demo, played again."""
    source = ReplaySource(
        recorded_demo.events(), lookups=recorded_demo.lookups(folder), monotonic=lambda: 0.0
    )
    source.playback.seek(MIDDLE)
    return source


def of(moment: Callable[[], Source]) -> Opened:
    """A moment that needs no folder."""
    return lambda folder: moment()


end = partial(demo, seconds=END)


@dataclass(frozen=True, slots=True)
class Picture:
    """What stands on the screen after these keys."""

    name: str
    keys: tuple[str, ...] = ()
    source: Opened = demo
    width: int = 120
    height: int = 40
    light: bool = False

    @property
    def path(self) -> Path:
        """The file."""
        return FOLDER / f"{self.name}-{self.width}x{self.height}.svg"


def task(name: str, *keys: str) -> Picture:
    """A section of the task that the Judge refused at first."""
    return Picture(f"task-{name}", ("slash", *"cart-4", "enter", "enter", *keys), end)


PICTURES = (
    Picture("main"),
    Picture("main", width=80, height=24),
    Picture("main", width=40, height=12),
    Picture("light", light=True),
    Picture("finished", source=end),
    Picture("problems", ("e",)),
    Picture("shared", source=of(moments.shared)),
    Picture("replay", source=replay),
    # The panels, in full.
    Picture("dispatch", ("1", "plus")),
    Picture("caches", ("2", "plus"), end),
    Picture("batches", ("3", "plus")),
    Picture("lessons", ("4", *"total", "enter", "plus"), end),
    Picture("history", ("5", "plus"), partial(demo, earlier=True)),
    # The sections of a task.
    task("timeline"),
    task("plan", "2"),
    task("prompt", "3", "left_square_bracket"),
    task("answer", "3", *["left_square_bracket"] * 3, "G"),
    task("diff", "4"),
    task("log", "5", "left_square_bracket", "left_square_bracket"),
    task("verdict", "6", "less_than_sign"),
    task("lessons", "7"),
    task("cost", "8"),
    # What opens over the dashboard.
    Picture("lesson", ("4", *"total", "enter", "enter"), end),
    Picture("notices", ("n",), of(moments.told)),
    Picture("board", ("b",), of(moments.edited)),
    Picture("runs", ("w",), watched),
    Picture("commands", ("ctrl+p",)),
    Picture("keys", ("question_mark",), end),
    Picture("cancel", ("x",)),
    Picture("drain", ("X",)),
    Picture("quit", ("q",)),
)


async def draw(picture: Picture) -> str:
    """The picture as SVG; always the same for the same recorded run."""
    with standing_still(), tempfile.TemporaryDirectory() as folder:
        source = picture.source(Path(folder))
        app = DashboardApp(source)
        async with app.run_test(size=(picture.width, picture.height)) as pilot:
            app.theme = LIGHT.name if picture.light else DARK.name
            async with asyncio.timeout(30):
                while not app.screen.query_one(TaskList).shown:
                    await pilot.pause()
            for key in ("", *picture.keys):
                await pilot.press(*[key] * bool(key))
                await _all_is_read(pilot)
            await pilot.pause()
            svg = app.export_screenshot(title="taskyard")
        await source.stop()
    return svg


async def _all_is_read(pilot: Pilot[int]) -> None:
    """Wait until nothing is read or looked up in the background any more."""
    async with asyncio.timeout(30):
        await pilot.pause()
        while len(pilot.app.workers):
            with suppress(WorkerCancelled):  # another one does its work
                await pilot.app.workers.wait_for_complete()
            await pilot.pause()


def is_up_to_date(picture: Picture) -> bool:
    """Whether the file shows what would be drawn now."""
    return picture.path.exists() and picture.path.read_text("utf-8") == asyncio.run(draw(picture))


def main(arguments: list[str]) -> int:
    """Draw, or check."""
    names = [argument for argument in arguments if argument != "--check"]
    chosen = [picture for picture in PICTURES if not names or picture.name in names]
    if "--check" in arguments:
        late = [picture.path.name for picture in chosen if not is_up_to_date(picture)]
        for name in late:
            print(f"screenshots/{name} is out of date: make screenshots")
        return 1 if late else 0
    FOLDER.mkdir(exist_ok=True)
    for picture in chosen:
        picture.path.write_text(asyncio.run(draw(picture)), "utf-8")
        print(picture.path.relative_to(FOLDER.parent))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
