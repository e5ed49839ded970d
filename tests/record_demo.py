"""Records a run of the demo anew, with what the screens look up beside it: `python -m tests.record_demo`.

It takes as long as the demo does, best on a machine with nothing else to do, and writes into `tests/recorded/demo`:
the events, the lessons, and of the tasks in `SHOWN` the logs, the records of the model calls and the diffs. Nothing in
there tells of this machine. Afterwards: `make screenshots`, and look at what became of the pictures.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from engine import events as ev
from tests.recorded_demo import DIFFS, EVENTS, FOLDER, HOME, HOST, LESSONS, LOGS, diff_file

SHOWN = ("CART-4",)
"""The tasks whose own screens are drawn."""

MOST = 600_000
"""Bytes that all of it may take."""


def main() -> int:
    """Record, and tell how much there is."""
    with tempfile.TemporaryDirectory() as folder:
        demo = Path(folder).resolve() / "demo"
        lines = _run(demo)
        shutil.rmtree(FOLDER, ignore_errors=True)
        _keep(demo, lines)
    taken = sum(file.stat().st_size for file in FOLDER.rglob("*") if file.is_file())
    print(f"{len(lines)} events, {taken:,} bytes in all")
    return 0 if taken <= MOST else 1


def _run(demo: Path) -> list[bytes]:
    """Let the demo run in the folder; gives its events."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    code = "import sys; from tui.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "demo", "--keep", str(demo), "--json"],
        env=environ | {"HOME": str(demo.parent)},
        check=True,
        stdout=subprocess.PIPE,
    )
    return done.stdout.splitlines()


def _keep(demo: Path, lines: list[bytes]) -> None:
    """Write what is shown, as if it had been at `HOME`."""
    neutral = _neutral(demo)
    state = demo / "cartwright" / ".git" / "taskyard"
    FOLDER.mkdir(parents=True)
    EVENTS.write_bytes(b"".join(neutral(line) + b"\n" for line in lines))
    LESSONS.write_bytes(neutral((state / "lessons.jsonl").read_bytes()))
    for file in sorted(path for task in SHOWN for path in (state / "logs").glob(f"*/{task}/**/*.*")):
        kept = LOGS / file.relative_to(state / "logs")
        kept.parent.mkdir(parents=True, exist_ok=True)
        # The times of a log's lines are binary numbers.
        kept.write_bytes(file.read_bytes() if file.suffix == ".times" else neutral(file.read_bytes()))
    DIFFS.mkdir()
    for event in map(ev.decode, lines):
        if isinstance(event, ev.ChangeCommitted) and event.task in SHOWN:
            change = event.change
            diff_file(change.commit).write_bytes(neutral(_diff(demo, change.base, change.commit)))


def _neutral(demo: Path) -> Callable[[bytes], bytes]:
    """What takes the folder and the name of this machine out of a text."""
    host = f'"host":"{socket.gethostname()}"'.encode()

    def neutral(content: bytes) -> bytes:
        found = content.replace(os.fsencode(demo), HOME.encode())
        return found.replace(host, f'"host":"{HOST}"'.encode())

    return neutral


def _diff(demo: Path, base: str, commit: str) -> bytes:
    arguments = ["diff", "--no-color", "--no-ext-diff", "--find-renames", base, commit, "--"]
    return subprocess.run(
        ["git", "-C", str(demo / "cartwright"), *arguments], check=True, stdout=subprocess.PIPE
    ).stdout


if __name__ == "__main__":
    sys.exit(main())
