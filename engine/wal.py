"""Turning a SQLite file to its write-ahead log, also while other processes do the same."""

from __future__ import annotations

import time
from typing import Any

import apsw


def enter_wal(connection: apsw.Connection, *, busy_timeout: float) -> bool:
    """Turn the file to its write-ahead log, in at most `busy_timeout` seconds; whether it can be had.

    Raises apsw.BusyError when others hold the file for longer.
    """
    deadline = time.monotonic() + busy_timeout
    while True:
        try:
            mode: Any = connection.execute("PRAGMA journal_mode=wal").get
        except apsw.BusyError:
            # SQLite does not call the busy handler when two processes turn a new file to WAL at once.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
            continue
        return bool(mode == "wal")
