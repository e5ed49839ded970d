"""The pictures in `screenshots/`, drawn from a recorded run of the demo.

`python -m tests.screenshots` draws them anew; with `--check` it only tells which would come out differently.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

os.environ["TEXTUAL_ANIMATIONS"] = "none"  # read once, when Textual is first imported

from engine import events as ev
from engine.store.lessons import LessonStore
from tests.tui import moments
from tests.tui.stage import Control
from tui.app import DashboardApp
from tui.cli.dashboard import LessonSearch
from tui.source import Lookups, RecordedSource
from tui.theme import DARK, LIGHT
from tui.widgets.task_list import TaskList

FOLDER = Path(__file__).parents[1] / "screenshots"
RECORDED = Path(__file__).parent / "recorded" / "demo.jsonl"


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: `seconds` into the run, after `keys`; `shared`: of a run with others on its board, made up."""

    name: str
    width: int
    height: int
    seconds: float
    keys: tuple[str, ...] = ()
    light: bool = False
    shared: bool = False

    @property
    def path(self) -> Path:
        """The file."""
        return FOLDER / f"{self.name}-{self.width}x{self.height}.svg"


END = 46.0
PICTURES = (
    Picture("main", 120, 40, 21.0),
    Picture("main", 80, 24, 21.0),
    Picture("main", 40, 12, 21.0),
    Picture("light", 120, 40, 21.0, light=True),
    Picture("finished", 120, 40, END),
    Picture("problems", 120, 40, 21.0, ("e",)),
    Picture("batches", 120, 40, 21.0, ("3", "plus")),
    Picture("caches", 120, 40, END, ("2", "plus")),
    Picture("task-timeline", 120, 40, END, ("slash", *"cart-4", "enter", "enter")),
    Picture("task-verdict", 120, 40, END, ("slash", *"cart-4", "enter", "enter", "6")),
    Picture("task-cost", 120, 40, END, ("slash", *"cart-4", "enter", "enter", "8")),
    Picture("shared", 120, 40, 0.0, shared=True),
    Picture("keys", 120, 40, END, ("question_mark",)),
)


@cache
def recorded() -> tuple[ev.AnyEvent, ...]:
    """The events of the recorded run of the demo."""
    return tuple(ev.decode(line) for line in RECORDED.read_bytes().splitlines())


async def draw(picture: Picture) -> str:
    """The picture as SVG; always the same for the same recorded run."""
    events = recorded()
    now = events[0].at + picture.seconds
    with tempfile.TemporaryDirectory() as folder:
        lessons = LessonStore(Path(folder, "lessons.jsonl"), Path(folder, "lessons.db"))
        source = RecordedSource(
            (event for event in events if event.at <= now),
            now=now,
            control=Control(),
            lookups=Lookups(lambda: LessonSearch(lessons)),
        )
        app = DashboardApp(moments.shared() if picture.shared else source)
        async with app.run_test(size=(picture.width, picture.height)) as pilot:
            app.theme = LIGHT.name if picture.light else DARK.name
            async with asyncio.timeout(10):
                while not app.screen.query_one(TaskList).shown:
                    await pilot.pause()
            for key in picture.keys:
                await pilot.press(key)
                await pilot.pause()
            await app.workers.wait_for_complete()
            await pilot.pause()
            await pilot.pause()
            svg = app.export_screenshot(title="taskyard")
        await source.stop()
    return svg


def differing() -> list[str]:
    """The names of the pictures that would come out differently."""

    async def compare() -> list[str]:
        return [
            p.path.name for p in PICTURES if not p.path.exists() or p.path.read_text("utf-8") != await draw(p)
        ]

    return asyncio.run(compare())


def main() -> int:
    """Draw all, or check all."""
    if "--check" in sys.argv[1:]:
        names = differing()
        for name in names:
            print(f"screenshots/{name} is out of date: make screenshots")
        return 1 if names else 0
    FOLDER.mkdir(exist_ok=True)
    for picture in PICTURES:
        picture.path.write_text(asyncio.run(draw(picture)), "utf-8")
        print(picture.path.relative_to(FOLDER.parent))
    return 0


if __name__ == "__main__":
    sys.exit(main())
