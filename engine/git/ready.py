"""Who made a worktree ready, and what of it: written into its git folder once a checkout has ended.

So a half-made one is told from a whole one, and nobody takes one for idle while its maker lives.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path

READY = "taskyard-ready"


def mark_ready(git_dir: Path, folders: Sequence[str] = ()) -> None:
    """Write that the worktree with this git folder is checked out, or these folders of it, for this process."""
    lines = (f"{os.getpid()} {socket.gethostname()}", *folders)
    # In one piece: another process that met it half written would take the worktree for idle.
    new = git_dir / f"{READY}.new"
    new.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    new.replace(git_dir / READY)


def is_ready(git_dir: Path) -> bool:
    """Whether a checkout was once finished there."""
    return (git_dir / READY).exists()


def folders_in(git_dir: Path) -> tuple[str, ...]:
    """Give the folders that are checked out there; none: the whole tree is."""
    try:
        return tuple((git_dir / READY).read_text(encoding="utf-8").splitlines()[1:])
    except FileNotFoundError:
        return ()


def owner_lives(ready: Path) -> bool:
    """Whether the process that made it ready runs; one of another host is taken for alive."""
    try:
        pid, host = ready.read_text(encoding="utf-8").partition("\n")[0].split()
        if host != socket.gethostname():
            return True
        os.kill(int(pid), 0)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True
