"""Which checks begin with a program that is not there: each attempt at such a task fails, whatever was done for it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from engine.model import BoardStatus, Task
from engine.settings import Settings

_PROGRAM = re.compile(r"\s*(?:(?!PATH=)\w+=[^\s\"'$`]*\s+)*(\w[\w.+-]*)(?=\s|[;&|]|\Z)")
"""The first word of a shell command, where that is a plain name; variables may be set before it, but not PATH."""

_HINT = "install it, or activate the environment that has it"
_NAMED = 3  # tasks that are named
_SHELL_WITHIN = 5.0  # seconds


def missing_programs(
    tasks: Sequence[Task], settings: Settings, environ: Mapping[str, str]
) -> tuple[str, ...]:
    """A sentence for each program that is not on PATH, and that a check of the tasks to be done begins with."""
    needed: dict[str, list[str]] = {}
    for task in tasks:
        if task.status is not BoardStatus.LANDED and (name := _program(task.command)) is not None:
            needed.setdefault(name, []).append(task.id)
    common = _program(settings.verify.command)
    names = dict.fromkeys((*needed, *([common] if common is not None else [])))
    return tuple(
        f"{_whose(needed.get(name, []))} with {name}, which is not on PATH: {_HINT}"
        for name in names
        if not _is_there(name, environ)
    )


def _program(command: str | None) -> str | None:
    found = _PROGRAM.match(command or "")
    return found[1] if found is not None else None


def _is_there(name: str, environ: Mapping[str, str]) -> bool:
    path = environ.get("PATH")
    if shutil.which(name, path=path) is not None:
        return True
    # The shell has words of its own, such as `cd` and `if`.
    try:
        asked = subprocess.run(
            ["/bin/sh", "-c", 'command -v "$1"', "sh", name],
            env={"PATH": path} if path is not None else {},
            capture_output=True,
            timeout=_SHELL_WITHIN,
        )
    except (OSError, subprocess.TimeoutExpired):
        return True  # nothing is known against it
    return asked.returncode == 0


def _whose(tasks: Sequence[str]) -> str:
    if not tasks:
        return "[verify] command begins"
    if len(tasks) == 1:
        return f"the check of {tasks[0]} begins"
    more = len(tasks) - _NAMED
    named = ", ".join(tasks[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"the checks of {named} begin"
