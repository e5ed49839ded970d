"""Whose a run is: at most one process at a time, the one that claimed it last.

Each claim raises the token of the run; what a former owner writes is refused by its lower one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from engine.errors import RunBusyError, StoreError
from engine.store.database import Connection
from engine.store.owner import Owner
from engine.store.run_log import RunRow, existing_run, find_run, find_runs


@dataclass(frozen=True, slots=True)
class Claim:
    """The run that is now ours. `resumed`: it was begun by a process that died.

    `spaced`: it was begun beside others of the same board, so its branches and folders carry its name.
    """

    run: RunRow
    resumed: bool
    spaced: bool = False


def claim_run(
    connection: Connection, board: str, new_run: str, *, owner: Owner, now: float, shared: bool
) -> Claim:
    """Take up the board's unfinished run of a dead process, or begin `new_run`. Raises RunBusyError.

    A run of a living process refuses, unless both are `shared`.
    """
    unfinished = [row for row in find_runs(connection, board) if row.ended is None]
    alive = [row for row in unfinished if row.is_alive(now)]
    for row in alive:
        others = _is(connection, row.number, "shared")
        if not (shared and others):
            whose = _working(row)
            if others:
                hint = "look on with: taskyard watch; work beside it with: taskyard run --join"
            elif shared:
                whose += ", and was not started with --join"
                hint = "end it and start both with: taskyard run --join; or look on with: taskyard watch"
            else:
                hint = "look on with: taskyard watch"
            raise RunBusyError(whose, hint)
    dead = [row for row in unfinished if row not in alive]
    if not dead:
        made = insert_run(connection, new_run, board, owner, now)
        _raise_token(connection, made.number, shared=shared)
        return Claim(made, resumed=False, spaced=shared)
    newest = dead[0]
    if not shared:
        # Older ones can only confuse: what they left undone, the newest has done or has left undone, too.
        abandon_runs(connection, dead[1:], now)
    connection.execute(
        "UPDATE runs SET host = ?, pid = ?, mark = ?, beat = ? WHERE number = ?",
        (owner.host, owner.pid, owner.mark, now, newest.number),
    )
    _raise_token(connection, newest.number, shared=shared)
    return Claim(
        existing_run(connection, newest.run), resumed=True, spaced=_is(connection, newest.number, "spaced")
    )


def reclaim_run(connection: Connection, run: str, *, owner: Owner, now: float) -> None:
    """Let a run that had ended go on, by the owner that it had. Raises RunBusyError."""
    row = existing_run(connection, run)
    if row.ended is None:
        return
    shared = _is(connection, row.number, "shared")
    for other in find_runs(connection, row.board):
        if other.number <= row.number or (shared and _is(connection, other.number, "shared")):
            continue
        if other.is_alive(now):
            raise RunBusyError(_working(other), "look on with: taskyard watch")
        raise RunBusyError(
            f"run {other.run} has worked on {other.board} since this one ended",
            "quit, and start again with: taskyard",
        )
    connection.execute(
        "UPDATE runs SET host = ?, pid = ?, mark = ?, beat = ?, ended = NULL, status = '' WHERE number = ?",
        (owner.host, owner.pid, owner.mark, now, row.number),
    )


def _working(row: RunRow) -> str:
    return f"process {row.owner.pid} on {row.owner.host} is working on {row.board} (run {row.run})"


def abandon_runs(connection: Connection, rows: Sequence[RunRow], at: float) -> None:
    """End these runs, which nobody is to take up any more."""
    connection.executemany(
        "UPDATE runs SET ended = ?, status = 'abandoned' WHERE number = ?", [(at, row.number) for row in rows]
    )


def withdraw_run(connection: Connection, run: str) -> None:
    """Take back a run of which nothing was told yet, as if nobody had begun it."""
    number = existing_run(connection, run).number
    if connection.execute("SELECT 1 FROM events WHERE run = ?", (number,)).get is None:
        connection.execute("DELETE FROM claims WHERE run = ?", (number,))
        connection.execute("DELETE FROM runs WHERE number = ?", (number,))


def insert_run(connection: Connection, run: str, board: str, owner: Owner, at: float) -> RunRow:
    """Begin a run. Raises StoreError when the id is taken."""
    if find_run(connection, run) is not None:
        raise StoreError(f"there is a run {run} already")
    connection.execute(
        "INSERT INTO runs(run, board, host, pid, mark, started, beat) VALUES(?, ?, ?, ?, ?, ?, ?)",
        (run, board, owner.host, owner.pid, owner.mark, at, at),
    )
    return existing_run(connection, run)


def token_of(connection: Connection, number: int) -> int | None:
    """The token of the claim that holds, or None for a run that was begun without one."""
    token: int | None = connection.execute("SELECT token FROM claims WHERE run = ?", (number,)).get
    return token


def _raise_token(connection: Connection, number: int, *, shared: bool) -> None:
    """Give the run to whoever claims it now."""
    connection.execute(
        "INSERT INTO claims VALUES(?1, 1, ?2, ?2) ON CONFLICT DO UPDATE SET token = token + 1, shared = ?2",
        (number, shared),
    )


def _is(connection: Connection, number: int, column: Literal["shared", "spaced"]) -> bool:
    return bool(connection.execute(f"SELECT {column} FROM claims WHERE run = ?", (number,)).get)
