"""Where a repository's state lies.

Databases, lessons, logs and archive lie in the git folder (or on this host, where that is on a network file system),
worktrees outside the repository.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from engine.disks import network_file_system


def user_state(environ: Mapping[str, str]) -> Path:
    """The folder for what belongs to the user and to no repository."""
    home = environ.get("XDG_STATE_HOME") or ""
    if not Path(home).is_absolute():  # which the specification says is to be ignored
        home = str(Path(environ.get("HOME") or "~").expanduser() / ".local" / "state")
    return Path(home) / "taskyard"


class StatePaths(msgspec.Struct, frozen=True):
    """The paths of one repository's state. `state` is never tracked by git and survives `git clean`."""

    state: Path
    worktrees: Path
    cache: Path

    @classmethod
    def of(
        cls,
        common_dir: Path,
        environ: Mapping[str, str],
        *,
        state_dir: Path | None = None,
        worktree_dir: Path | None = None,
        cache_dir: Path | None = None,
        network: Callable[[Path], str] = network_file_system,
    ) -> StatePaths:
        """Give the paths for the repository with this git common directory; the three folders can be set.

        Of a repository on a network file system each host keeps a state of its own, beside its worktrees.
        """
        common = common_dir.resolve()
        name = common.parent.name if common.name == ".git" else common.name.removesuffix(".git")
        mark = hashlib.sha256(str(common).encode()).hexdigest()[:8]
        own = f"{name}-{mark}"
        shared = state_dir is None and network(common)
        state = user_state(environ) / own / "state" if shared else state_dir or common / "taskyard"
        # Resolved, for git tells the paths of worktrees so, and they are compared.
        trees = (worktree_dir or user_state(environ)).resolve()
        return cls(
            state=state,
            worktrees=trees / own / "worktrees",
            cache=cache_dir or state,
        )

    @property
    def state_db(self) -> Path:
        """The journal and the history."""
        return self.state / "state.db"

    @property
    def cache_db(self) -> Path:
        """The result cache."""
        return self.cache / "cache.db"

    @property
    def lessons(self) -> Path:
        """The lessons file, unless a setting puts it into the repository."""
        return self.state / "lessons.jsonl"

    @property
    def lessons_index(self) -> Path:
        """The index over the lessons file; made again from it at any time."""
        return self.state / "lessons.idx.db"

    @property
    def locks_db(self) -> Path:
        """The locks among the processes of this host."""
        return self.state / "locks.db"

    @property
    def archive(self) -> Path:
        """Compressed segments of old events and history."""
        return self.state / "archive"

    def logs(self, run: str) -> Path:
        """The folder with the whole outputs of one run, by task and attempt."""
        return self.state / "logs" / run
