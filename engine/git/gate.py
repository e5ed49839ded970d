"""Who may land on a target now, where several processes do."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from engine.git.cargo import Cargo
from engine.git.registry import file_lock


class Gate(Protocol):
    """Lets one train at a time through to the target, and only with cargo that is its own still."""

    def hold(self) -> AbstractAsyncContextManager[None]:
        """Wait for the target, and have it for oneself inside."""

    async def admit(self, cargo: Sequence[Cargo]) -> Collection[str]:
        """Give the ids of the cargo that may be pushed now. Raises LockLostError when the target is another's by now.

        Asked once more right before each push.
        """


class FileGate:
    """The gate among trains of one host that share no tasks: a lock on a file, and nothing to be refused."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def hold(self) -> AbstractAsyncContextManager[None]:
        """See `Gate`."""
        return file_lock(self._path)

    async def admit(self, cargo: Sequence[Cargo]) -> Collection[str]:
        """See `Gate`."""
        return {member.task_id for member in cargo}
