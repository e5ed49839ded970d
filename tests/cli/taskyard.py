"""The command as a user starts it, in a process of its own."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import forked

ROOT = Path(__file__).parents[2]
PROGRAM = (sys.executable, "-c", "import sys; from tui.cli import main; sys.exit(main())")


@dataclass(frozen=True, slots=True)
class Said:
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str


def taskyard(
    *args: str,
    at: Path,
    environ: Mapping[str, str] | None = None,
    plain_user: bool = False,
    timeout: float = 200,
) -> Said:
    """Run `taskyard` in the directory `at`; `environ` is added to the environment.

    As a `plain_user`, root too is bound by the permissions of files.
    """
    command = [*PROGRAM, *args]
    options: dict[str, Any] = {
        "cwd": at,
        "env": {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100", **(environ or {})},
        "stdin": subprocess.DEVNULL,
        "text": True,
        "timeout": timeout,
    }
    if plain_user and os.geteuid() == 0:  # what it drops here is gone from the next exec on
        done = subprocess.run(command, capture_output=True, preexec_fn=_drop_privileges, **options)
    else:
        done = forked.run(command, **options)
    return Said(done.returncode, done.stdout, done.stderr)


def _drop_privileges() -> None:
    """Let root write only where its permissions say so: without two capabilities from the next exec on (Linux)."""
    libc = ctypes.CDLL(None)
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
