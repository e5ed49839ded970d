"""Locks that several orchestrators share: leases, tokens and guarded values, on one host or over many."""

from __future__ import annotations

from pathlib import Path

from engine.locks.lock import DistributedLock
from engine.locks.records import Holder, LockStore, Party, Record, Sight

__all__ = ["DistributedLock", "Holder", "LockStore", "Party", "Record", "Sight", "open_locks"]


def open_locks(url: str | None, file: Path) -> LockStore:
    """Open the locks of `[locks] url`, or those of this host in `file` when it is None."""
    if url is not None:
        from engine.locks.redis import RedisLocks

        return RedisLocks(url)
    from engine.locks.files import FileLocks

    return FileLocks(file)
