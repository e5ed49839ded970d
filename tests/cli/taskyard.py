"""The command as a user starts it, in a process of its own."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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
    timeout: float = 50,
) -> Said:
    """Run `taskyard` in the directory `at`; `environ` is added to the environment.

    As a `plain_user`, root too is bound by the permissions of files.
    """
    done = subprocess.run(
        [*PROGRAM, *args],
        cwd=at,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "COLUMNS": "100", **(environ or {})},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=timeout,
        preexec_fn=_drop_privileges if plain_user and os.geteuid() == 0 else None,
    )
    return Said(done.returncode, done.stdout, done.stderr)


def _drop_privileges() -> None:
    """Let root write only where its permissions say so: without two capabilities from the next exec on (Linux)."""
    libc = ctypes.CDLL(None)
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
