"""Programs that a run needs and that are not there: told before anything is paid for.

Without its agent no task can be done; a check that begins with one fails each attempt, whatever was done for it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from engine.errors import PreflightError
from engine.model import BoardStatus, Role, Task
from engine.settings import Settings

_PROGRAM = re.compile(r"\s*(?:(?!PATH=)\w+=[^\s\"'$`]*\s+)*(\w[\w.+-]*)(?=\s|[;&|]|\Z)")
"""The first word of a shell command, where that is a plain name; variables may be set before it, but not PATH."""

_HINT = "install it, or activate the environment that has it"
_NAMED = 3  # tasks that are named
_SHELL_WITHIN = 5.0  # seconds


def find_agent(role: Role, settings: Settings, environ: Mapping[str, str]) -> str:
    """The whole path of the agent command that plays the role. Raises PreflightError where it cannot be started.

    One with a path of the project's own is looked for in the checkout, although it will run from a worktree.
    """
    program = getattr(settings.roles, role.value).command[0]
    path = shutil.which(
        str(settings.root / program) if os.sep in program else program, path=environ.get("PATH")
    )
    if path is not None:
        return path
    if os.sep not in program:
        hint = f"install it, or set [roles.{role.value}] command to its whole path"
        raise PreflightError(f"the agent command {program} is not on PATH", hint)
    why = "may not be executed" if (settings.root / program).exists() else "does not exist"
    raise PreflightError(f"the agent command {program} {why}", f"mend [roles.{role.value}] command")


def require_agents(settings: Settings, environ: Mapping[str, str]) -> None:
    """Raise PreflightError when an agent command is not there; one of the project's own may yet come to a worktree."""
    for role in Role:
        played = getattr(settings.roles, role.value)
        if played.kind == "command" and (os.sep not in played.command[0] or os.path.isabs(played.command[0])):
            find_agent(role, settings, environ)


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
