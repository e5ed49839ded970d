"""`taskyard demo`: a sample project and a simulated model service, and then exactly what `run` does."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Annotated

import typer

from engine.errors import UsageError
from tui.cli.console import say
from tui.cli.options import CacheDir, Concurrency, EventsAsJson, Headless
from tui.cli.place import Place, find_place
from tui.cli.run import run_place

FAST_PACE = 0.1  # of the time that models and checks take else


def demo(
    headless: Headless = False,
    as_json: EventsAsJson = False,
    fast: Annotated[
        bool, typer.Option("--fast", help="Let the simulated model answer ten times as fast.")
    ] = False,
    keep: Annotated[
        Path | None,
        typer.Option("--keep", metavar="DIR", help="Make the project there and keep it, to look around."),
    ] = None,
    tasks: Annotated[
        int | None,
        typer.Option("--tasks", min=1, metavar="N", help="Put N tasks on the board, instead of 14."),
    ] = None,
    max_concurrency: Concurrency = None,
    cache_dir: CacheDir = None,
) -> int:
    """Watch a run on a sample project.

    The model is simulated: it needs no key and costs nothing, and nothing of yours is touched.
    """
    from engine.demo import CART_TASKS, find_demo, make_demo
    from engine.llm.simulator import Simulator, load_scenario

    with _folder(keep) as folder:
        project = find_demo(folder) or make_demo(folder, tasks=tasks or CART_TASKS, fast=fast)
        _require_tasks(project.board, tasks, folder)
        script = load_scenario(project.scenario)
        environ = _environment()
        pace = (FAST_PACE if fast else 1.0) / script.pace
        # The service remembers its batches when the demo is killed, as a real one would.
        with Simulator(script, pace=pace, batch_file=folder / "batches.jsonl") as simulator:
            overrides = {
                "llm.base_url": simulator.url,
                "run.max_concurrency": max_concurrency,
                "run.cache_dir": None if cache_dir is None else str(cache_dir.absolute()),
            }
            place = find_place(overrides, start=project.root, environ=environ)
            status = run_place(
                place, headless=headless, as_json=as_json, environ=environ, kept=keep is not None
            )
        if keep is not None and not as_json:
            _tell_what_is_left(place, project.remote, folder)
    if keep is None and not as_json:
        say()
        say("the sample project is gone; to look around in one afterwards: taskyard demo --keep DIR")
    return status


def _require_tasks(board: Path, wanted: int | None, folder: Path) -> None:
    """Refuse to go on with a kept demo of another size: its board is made once."""
    from engine.board import read_board

    found = len(read_board(board).tasks)
    if wanted is not None and wanted != found:
        raise UsageError(
            f"the demo in {folder} has {found} tasks, not {wanted}", "leave --tasks out, or name a new folder"
        )


def _environment() -> dict[str, str]:
    """The environment of a run that must reach nothing of the user's: no key, no settings of Taskyard or git."""
    foreign = ("ANTHROPIC_", "TASKYARD_", "GIT_")
    kept = ("GIT_CONFIG_", "GIT_EXEC_PATH")
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(foreign) or name.startswith(kept)
    }
    return clean | {"ANTHROPIC_API_KEY": "demo"}


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """The folder for the demo: `keep`, or a temporary one that goes at the end."""
    from engine.demo import find_demo

    if keep is None:
        folder = Path(tempfile.mkdtemp(prefix="taskyard-demo-"))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    if keep.exists() and find_demo(keep) is None and (not keep.is_dir() or any(keep.iterdir())):
        raise UsageError(f"{keep} is not empty", "name a new folder, or one that an earlier demo was kept in")
    yield keep.absolute()


def _tell_what_is_left(place: Place, remote: Path, folder: Path) -> None:
    say()
    say(f"kept in {folder}")
    say(f"  project  {place.root}")
    target = place.settings.git.target
    say(f"  landed   git -C {remote} log --oneline {target}")
    say(f"  marks    [x] stands on the board of {target}; on yours after: git pull origin {target}")
    say("  look     taskyard status, taskyard replay, taskyard lessons top: in the project")
    say(
        f"  again    taskyard demo --keep {another_folder(folder)} --cache-dir {place.paths.cache}"
        "   (asks the model nothing)"
    )


def another_folder(folder: Path) -> Path:
    """A folder beside this one that is not there yet, for the demo to be kept in once more: "cart-2" after "cart"."""
    stem, dash, number = folder.name.rpartition("-")
    if not (dash and number.isascii() and number.isdigit()):
        stem, number = folder.name, "1"
    others = (folder.with_name(f"{stem}-{n}") for n in count(int(number) + 1))
    return next(other for other in others if not other.exists())
