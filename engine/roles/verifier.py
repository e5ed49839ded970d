"""Verification: a real command over a real tree, in its own process group, without our secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from engine.capped_log import MAX_LOG
from engine.errors import ProcessError
from engine.model import Verification
from engine.process import run_process
from engine.scarcity import scarcity
from engine.telling import telling_line

OUTPUT_CHARS = 6_000  # of the end, which is where a test runner says what failed

_CONTROL = re.compile(
    r"""
      \x1b\[ [0-?]* [ -/]* [@-~]                # colours and movements
    | \x1b[\]PX^_] [^\x07\x1b\n]* (?:\x07|\x1b\\)?  # titles, links, and other strings for the terminal
    | \x1b[ -/]+ [0-~]                         # character sets
    | \x1b[0-~]                                # two-character commands
    | [\x00-\x08\x0b-\x1f\x7f-\x9f]
    """,
    re.VERBOSE,
)


async def verify(
    command: str,
    tree: Path,
    *,
    env: Mapping[str, str],
    timeout: float,
    log: Path,
    max_log: int = MAX_LOG,
    progress: Callable[[str], None] = lambda line: None,
) -> Verification:
    """Run the board's command by the shell in `tree`. A command that cannot start counts as failed, with status 127.

    Raises HaltedError where the machine has nothing left to start it with.
    """
    try:
        result = await run_process(
            ["/bin/sh", "-c", command],
            cwd=tree,
            env=env,
            log=log,
            timeout=timeout,
            max_log=max_log,
            on_line=lambda line: _tell(progress, line),
        )
    except ProcessError as error:
        if (scarce := scarcity(error)) is not None:
            raise scarce from error
        return Verification(command, 127, 0.0, str(error), str(log))
    return Verification(
        command,
        result.status,
        result.duration,
        readable(result.tail)[-OUTPUT_CHARS:],
        str(log),
        timed_out=bool(result.overran),
    )


def _tell(progress: Callable[[str], None], line: str) -> None:
    text = readable(line).strip()
    if text:
        progress(text)


def readable(text: str) -> str:
    """Give output as a terminal would leave it, without colours and control characters, for prompts and events."""
    text = text.replace("\r\n", "\n")
    if "\r" in text:
        # A progress bar writes over its line again and again.
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return _CONTROL.sub("", text)


def describe(verification: Verification, timeout: float) -> str:
    """Say in one line how a verification ended badly: by the line of its output that says what failed."""
    if verification.timed_out:
        return f"verification took longer than {timeout:.0f} s"
    return f"exit {verification.exit_status}: {telling_line(verification.output)[:160] or 'no output'}"


def report(verification: Verification) -> str:
    """Say how a verification ended, for a model."""
    how = "ran out of time" if verification.timed_out else f"ended with status {verification.exit_status}"
    return f"`{verification.command}` {how}.\n\n{verification.output}"
