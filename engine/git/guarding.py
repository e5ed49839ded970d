"""Look after the repository's own config while agents work: all its worktrees share the one file.

An agent that sets `user.name` in its worktree sets it for the user's repository too, and for every other agent. What
identifies the user, leads git elsewhere or makes it run things is put back; the rest (branches, submodules) may change.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from engine.git.names import branch_of
from engine.git.repository import Repository

GUARDED = (
    "user.", "author.", "committer.", "core.bare", "core.worktree", "core.hookspath", "core.sshcommand",
    "core.fsmonitor", "core.editor", "commit.", "gpg.", "credential.", "alias.", "remote.", "url.", "include",
)  # fmt: skip
_Settings = dict[str, list[str]]


class ConfigGuard:
    """Remembers the config as it was before the first agent, with `note`, and puts it back with `restore`."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._file = repository.common_dir / "config"
        self._lock = asyncio.Lock()
        self._bytes: bytes | None = None
        self._settings: _Settings = {}
        self._seen: tuple[int, int, int] | None = None

    async def note(self) -> None:
        """Remember the config, the first time."""
        async with self._lock:
            if self._bytes is None:
                self._seen = _stamp(self._file)
                self._bytes = self._file.read_bytes()
                self._settings = await self._read() or {}

    async def restore(self) -> tuple[str, ...]:
        """Put back what has changed of what is guarded; gives the names of those settings."""
        async with self._lock:
            stamp = _stamp(self._file)
            if self._bytes is None or stamp == self._seen:
                return ()
            now = await self._read()
            if now is None:
                _replace(self._file, self._bytes)
                changed = ["the whole file"]
            else:
                changed = [
                    name
                    for name in sorted(now.keys() | self._settings.keys())
                    if name.startswith(GUARDED) and now.get(name) != self._settings.get(name)
                ]
                for name in changed:
                    await self._put_back(name)
            # As it was before it was read: what is changed since, by whomever, is looked at the next time.
            self._seen = stamp
            return tuple(changed)

    async def _put_back(self, name: str) -> None:
        await self._config("--unset-all", name)
        for value in self._settings.get(name, ()):
            await self._config("--add", name, value)

    async def _read(self) -> _Settings | None:
        """Every setting of the file with its values; None when it cannot be read."""
        status, text = await self._config("--list", "-z")
        if status != 0:
            return None
        found: _Settings = {}
        for entry in text.split("\0"):
            name, _, value = entry.partition("\n")
            if name:
                found.setdefault(name, []).append(value)
        return found

    async def _config(self, *args: str) -> tuple[int, str]:
        # From the folder itself: with core.bare or core.worktree set wrongly, the checkout is none.
        done = await self._repository.run(
            "config", "--file", str(self._file), *args, cwd=self._file.parent, check=False
        )
        return done.status, done.stdout


async def stashed(repository: Repository, task_id: str) -> int:
    """How many entries of the stash, which all worktrees share too, were made on the task's branch."""
    if not (repository.common_dir / "logs" / "refs" / "stash").exists():
        return 0
    listing = await repository.run("stash", "list", "--format=%gs", check=False)
    return sum(f"n {branch_of(task_id)}: " in line for line in listing.stdout.splitlines())


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _replace(file: Path, data: bytes) -> None:
    new = file.with_name("config.taskyard")
    new.write_bytes(data)
    os.replace(new, file)
