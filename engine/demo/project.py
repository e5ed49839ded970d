"""Make the sample project of the demo: a small library under git, its bare remote, a board, settings, a scenario.

    demo = make_demo(Path(tmp), tasks=14)
    with Simulator(load_scenario(demo.scenario)) as simulator:
        ...     # run the board at demo.board with base_url = simulator.url

The same call gives the same commits, to the byte, wherever and whenever it is made.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.errors import GitError, PreflightError
from engine.git.versions import INSTALL

CART_TASKS = 14
"""How many tasks the board has by itself; further ones are generated."""

_HERE = Path(__file__).parent
_FILES = _HERE / "files"
_BOARD = Path("tasks/board.md")
_SETTINGS = Path("taskyard.toml")
_NAME, _EMAIL = "Ada Cartwright", "ada@cartwright.example"
_BEGUN = "2026-11-02T09:00:00+00:00"
_PLANNED = "2026-11-27T16:30:00+00:00"

# What the fast demo waits for is real work; the model and the timers hardly take any time.
_FAST_SCENARIO = {"pace = 1.0": "pace = 0.1", "retry_after = 1.5": "retry_after = 0.3"}
_FAST_SETTINGS = {'max_age = "5s" ': 'max_age = "2s" ', 'batch_age = "1.5s"': 'batch_age = "0.4s"'}

_ZONE_ROW = (
    "| ZONE-{n:04} | Know how long parcels to delivery zone {n} take | feature | {lane} | | [ ] | "
    "| `python3 -B -m unittest tests.zones.test_zone_{n:04}` |\n"
)


@dataclass(frozen=True, slots=True)
class DemoProject:
    """Where the demo's parts are. `root` is the checkout, `remote` the bare repository it pushes to."""

    root: Path
    remote: Path
    board: Path
    settings: Path
    scenario: Path


def make_demo(directory: Path, *, tasks: int = CART_TASKS, fast: bool = False) -> DemoProject:
    """Make the project in a directory of its own below `directory`, which is made as needed.

    `tasks` below 14 keeps the first ones, above it adds simple ones in both lanes; `fast` makes the simulated model
    ten times faster. Raises `PreflightError` when the directory holds a demo already, or cannot be written.
    """
    demo = _layout(directory)
    if demo.root.exists() or demo.remote.exists():
        raise PreflightError(
            f"{directory} holds a demo already", "name another directory, or remove that one"
        )
    try:
        _write_files(demo, tasks, fast)
    except OSError as error:
        raise PreflightError(
            f"cannot write the demo into {directory} ({error.strerror})", "name a directory you can write to"
        ) from error
    _commit(demo)
    return demo


def find_demo(directory: Path) -> DemoProject | None:
    """Give the project that `make_demo` made in `directory`, or None when there is none (or only the start of one)."""
    demo = _layout(directory)
    # The push of the first branch is the last thing that making it does.
    return demo if (demo.remote / "refs" / "heads" / "main").is_file() else None


def _layout(directory: Path) -> DemoProject:
    root = directory / "cartwright"
    return DemoProject(
        root, directory / "cartwright.git", root / _BOARD, root / _SETTINGS, directory / "scenario.toml"
    )


def _write_files(demo: DemoProject, tasks: int, fast: bool) -> None:
    for source in sorted(_FILES.rglob("*.in")):
        target = demo.root / source.relative_to(_FILES).with_suffix("")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
    rows = "".join(_rows(demo.board.read_text("utf-8"), tasks))
    demo.board.write_text(rows, "utf-8", newline="")
    if tasks > CART_TASKS:
        zones = demo.root / "cartwright" / "zones" / "__init__.py"
        zones.parent.mkdir()
        zones.write_text('"""How long parcels take, one module for each delivery zone."""\n', "utf-8")
    scenario = (_HERE / "scenario.toml").read_text("utf-8")
    settings = demo.settings.read_text("utf-8")
    if fast:
        scenario = _replaced(scenario, _FAST_SCENARIO)
        settings = _replaced(settings, _FAST_SETTINGS)
    demo.scenario.write_text(scenario, "utf-8", newline="")
    demo.settings.write_text(settings, "utf-8", newline="")


def _rows(board: str, tasks: int) -> Iterator[str]:
    """Give the lines of a board with so many tasks. Whom a row waits for stands above it, so any beginning will do."""
    seen = 0
    for line in board.splitlines(keepends=True):
        seen += line.startswith("| CART-")
        if seen <= tasks or not line.startswith("| CART-"):
            yield line
    for number in range(CART_TASKS + 1, tasks + 1):
        # Those of the economy lane stand together, so that they start together and fill a batch.
        economy = (number - CART_TASKS - 1) // 10 % 3 == 0
        yield _ZONE_ROW.format(n=number, lane="economy" if economy else "fast")


def _replaced(text: str, changes: dict[str, str]) -> str:
    for old, new in changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def _commit(demo: DemoProject) -> None:
    """Put the project under git: its code first, its board later, and push both."""
    _git(demo.root, "init", "--quiet", "--template=", "--initial-branch=main")
    # What the engine commits later needs an identity too, whoever runs the demo; nobody's own settings are touched.
    for name, value in {
        "user.name": _NAME,
        "user.email": _EMAIL,
        "commit.gpgsign": "false",
        "core.autocrlf": "false",
    }.items():
        _git(demo.root, "config", name, value)
    _git(demo.root, "add", "--all", "--", ".", ":!tasks", ":!taskyard.toml")
    _git(demo.root, "commit", "--quiet", "--message", "Begin Cartwright", date=_BEGUN)
    _git(demo.root, "add", "--all")
    _git(demo.root, "commit", "--quiet", "--message", "Plan version 0.5", date=_PLANNED)
    _git(
        demo.root,
        "init",
        "--quiet",
        "--bare",
        "--template=",
        "--initial-branch=main",
        str(demo.remote.absolute()),
    )
    _git(demo.remote, "config", "core.logAllRefUpdates", "always")
    _git(demo.root, "remote", "add", "origin", str(demo.remote.absolute()))
    _git(demo.root, "push", "--quiet", "--set-upstream", "origin", "main")


def _git(directory: Path, *arguments: str, date: str = _BEGUN) -> None:
    """Run git in a directory, with nobody's configuration but the repository's."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_DATE": date,
        "GIT_COMMITTER_DATE": date,
    }
    try:
        subprocess.run(
            ["git", "-C", str(directory), *arguments],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
    except FileNotFoundError as error:
        raise PreflightError("git is not installed", INSTALL) from error
    except subprocess.CalledProcessError as error:
        raise GitError(
            f"git {arguments[0]} failed: {error.stderr.strip()}", status=error.returncode, stderr=error.stderr
        ) from error
