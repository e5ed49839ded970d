"""`taskyard locks`: who holds what, for how long, and with which token."""

from __future__ import annotations

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

    First the runs of this repository: on one host, one process runs a board. Then the locks that orchestrators share,
    on the server of [locks] url or in a file of this host.
    """
    import asyncio

    place = find_place()
    runs = _runs(place)
    holders = asyncio.run(_holders(place))
    now = time.time()
    if as_json:
        say_json([*(_run_report(run, now) for run in runs), *(_report(holder) for holder in holders)])
        return 0
    if not runs and not holders:
        say("nothing is locked")
        return 0
    from tui.plain import ago

    rows = [
        (f"run {run.board}", run.owner.host, str(run.owner.pid), ago(now - run.started), "–", "–")
        for run in runs
    ]
    rows += [
        (
            holder.name,
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


def _runs(place: Place) -> list[RunRow]:
    if not place.paths.state_db.exists():
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
        "host": holder.party.host,
        "pid": holder.party.pid,
        "since": holder.since,
        "age_s": holder.age,
        "lease_left_s": holder.left,
        "token": holder.token,
    }
