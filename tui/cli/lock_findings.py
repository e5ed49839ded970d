"""What `taskyard doctor` says of the locks that orchestrators share: the server's, or those in a file of this host."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

from engine.errors import TaskyardError
from tui.cli.findings import Finding, of_error
from tui.cli.place import Place, read_only_above

SLOWEST_LOCKS = 0.25  # seconds for one answer
MOST_SKEW = 2.0  # seconds between two clocks


async def examine_locks(place: Place) -> AsyncIterator[Finding]:
    """Look whether the locks can be used; says nothing of a run that shares its board with nobody."""
    locks = place.settings.locks
    if locks.url is not None:
        async for finding in _lock_server(locks.url):
            yield finding
    elif locks.shared:
        async for finding in _lock_file(place):
            yield finding


async def _lock_file(place: Place) -> AsyncIterator[Finding]:
    from engine.disks import network_file_system
    from engine.locks.files import FileLocks

    file = place.paths.locks_db
    closed, kind = read_only_above(file.parent), network_file_system(file)
    if closed is None and file.exists() and not os.access(file, os.W_OK):
        closed = file
    if closed is not None or kind:
        problem = f"is on a network file system ({kind})" if kind else "cannot be written to"
        hint = "mend that, or set [run] state_dir to a folder on a disk of this host"
        yield Finding("error", "locks", f"{file if kind else closed} {problem}", hint)
        return
    if file.exists():
        store = FileLocks(file)
        try:
            await store.holders()
        except TaskyardError as error:
            yield of_error("locks", error)
            return
        finally:
            await store.close()
    yield Finding("ok", "locks", f"{file}, among the runs of this host")
    kind = network_file_system(place.common_dir)
    if kind:
        seen = f"the repository is on a network file system ({kind}), and other hosts do not see these locks"
        yield Finding("warning", "locks", seen, "to share the board with them, set [locks] url")


async def _lock_server(url: str) -> AsyncIterator[Finding]:
    from engine.locks.redis import RedisLocks

    try:
        store = RedisLocks(url)
        try:
            health = await store.health()
        finally:
            await store.close()
    except TaskyardError as error:
        yield of_error("locks", error)
        return
    answers = f"{store.address} (version {health.version}) answers in {health.latency * 1000:.1f} ms"
    if health.latency > SLOWEST_LOCKS:
        yield Finding("warning", "locks", answers, "use a server that is nearer, or a longer [locks] lease")
    else:
        yield Finding("ok", "locks", answers)
    skew = f"its clock is {abs(health.skew):.2f} s {'ahead of' if health.skew > 0 else 'behind'} this host's"
    if abs(health.skew) > MOST_SKEW:
        yield Finding("warning", "locks", skew, "leases follow its clock; set both by NTP")
    else:
        yield Finding("ok", "locks", skew)
