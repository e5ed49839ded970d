"""What an attempt runs under beside its commit: the words of its row, its check, and who plays the roles.

Where a person changes any of that between a failed attempt and one that lands, nobody can tell what helped.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable
from pathlib import Path

import msgspec

from engine.model import Task
from engine.rows import asks
from engine.settings import Settings

_MAX_SCRIPT = 1_000_000  # bytes: a longer file is a program, and no script that somebody mends


def terms_of(task: Task, settings: Settings) -> str:
    """A short digest of what an attempt at the task runs under now, the scripts that its commands name included."""
    check = task.command or settings.verify.command
    roles = (settings.roles.planner, settings.roles.implementer, settings.roles.judge)
    named = [*_words_of(check), *(part for role in roles if role.kind == "command" for part in role.command)]
    told = [asks(task), check, settings.roles, settings.verify.timeout, _scripts(settings.root, named)]
    return hashlib.sha256(msgspec.json.encode(told)).hexdigest()[:16]


def _words_of(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # A quotation that does not end is for the shell to complain about.
        return command.split()


def _scripts(root: Path, named: Iterable[str]) -> list[str]:
    """Digests of the files among the words of commands, as they stand in the user's own checkout or elsewhere."""
    found = []
    for word in dict.fromkeys(named):
        try:
            path = root / word
            if path.is_file() and path.stat().st_size <= _MAX_SCRIPT:
                found.append(hashlib.sha256(path.read_bytes()).hexdigest())
        except (OSError, ValueError):  # Too long a word for a path, or a file that nobody may read.
            continue
    return found
