"""`taskyard locks`: who holds what, for how long, and with which token."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from tui.cli.console import say, say_json, say_table
from tui.cli.options import AsJson
from tui.cli.place import Place, find_place, open_journal

if TYPE_CHECKING:
    from engine.locks import Holder
    from engine.store.run_log import RunRow


def locks(as_json: AsJson = False) -> int:
    """List who holds which lock, since when, and its token.

    First the runs of this repository that are at work. Then the locks that orchestrators share, on the server of
    [locks] url or in a file of this host: each that takes part, the landing, and the tasks.
    """
    import asyncio

    place = find_place()
    runs = _runs(place)
    holders = sorted(asyncio.run(_holders(place)), key=_rank)
    now = time.time()
    if as_json:
        say_json([*(_run_report(run, now) for run in runs), *(_report(holder) for holder in holders)])
        return 0
    if not runs and not holders:
        say("nothing is locked")
        return 0
    from tui.plain import ago

    boards = {_board(holder.name) for holder in holders}
    rows = [
        (f"run {run.board}", run.owner.host, str(run.owner.pid), ago(now - run.started), "–", "–")
        for run in runs
    ]
    rows += [
        (
            purpose(holder.name) + (f" of {_board(holder.name)}" if len(boards) > 1 else ""),
            holder.party.host,
            str(holder.party.pid),
            ago(holder.age),
            f"{holder.left:.1f} s",
            str(holder.token),
        )
        for holder in holders
    ]
    say_table(
        ("Lock", "Host", "Process", "Held for", "Lease left", "Token"), rows, right=frozenset({2, 3, 4, 5})
    )
    return 0


def purpose(name: str) -> str:
    """What the lock of this name is for, in words: a task's id, "landing", "orchestrator"."""
    from engine.locks.names import LockName

    lock = LockName.read(name)
    if lock is None:
        return name
    if lock.kind == "claim":
        return lock.about
    if lock.kind == "limit":
        place, _, limit = lock.about.partition(":")
        return f"{limit.replace(':', ' ', 1)}, place {place}"
    return {"member": "orchestrator", "session": "joining"}.get(lock.kind, lock.kind)


def _board(name: str) -> str:
    from engine.locks.names import LockName

    lock = LockName.read(name)
    return lock.board if lock is not None else ""


def _rank(holder: Holder) -> tuple[object, ...]:
    """Who takes part first, the tasks last; numbers by their value."""
    from engine.locks.names import KINDS, LockName

    lock = LockName.read(holder.name)
    kind = KINDS.index(lock.kind) if lock is not None else len(KINDS)
    return _board(holder.name), kind, _numbered(purpose(holder.name)), holder.since


def _numbered(text: str) -> list[tuple[int, str]]:
    return [(int(digits or 0), word) for word, digits in re.findall(r"(\D*)(\d*)", text)]


def _runs(place: Place) -> list[RunRow]:
    from engine.store.state_db import has_tables

    if not has_tables(place.paths.state_db):
        return []
    journal = open_journal(place)
    try:
        now = time.time()
        return [run for run in journal.runs() if run.is_alive(now)]
    finally:
        journal.close()


async def _holders(place: Place) -> tuple[Holder, ...]:
    from engine.locks import open_locks

    url, file = place.settings.locks.url, place.paths.locks_db
    if url is None and not file.exists():
        return ()  # looking must make nothing
    store = open_locks(url, file)
    try:
        return await store.holders()
    finally:
        await store.close()


def _run_report(run: RunRow, now: float) -> dict[str, Any]:
    return {
        "name": f"run {run.board}",
        "purpose": f"run {run.board}",
        "board": run.board,
        "host": run.owner.host,
        "pid": run.owner.pid,
        "since": run.started,
        "age_s": max(0.0, now - run.started),
        "lease_left_s": None,
        "token": None,
    }


def _report(holder: Holder) -> dict[str, Any]:
    return {
        "name": holder.name,
        "purpose": purpose(holder.name),
        "board": _board(holder.name),
        "host": holder.party.host,
        "pid": holder.party.pid,
        "since": holder.since,
        "age_s": holder.age,
        "lease_left_s": holder.left,
        "token": holder.token,
    }
