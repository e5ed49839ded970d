"""The journal: every event of every run, in order, committed by groups; the truth that crashes cannot take.

    journal = Journal(open_state(folder / "state.db"), folder / "archive")
    claim = journal.claim(board="tasks/board.md", new_run="r1")      # a dead process's run, or a new one
    state = RunState().apply_all(e for _, e in journal.events(claim.run.run, claim.run.resume_after))
    await asyncio.wrap_future(journal.append("r1", [event], durable=True))

`JournalReader` follows a run from another process. A run's live events stay few however long it goes on:
`begin_cycle` writes one event with the whole compact state, and the older ones move to compressed segments.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from engine.errors import StoreError
from engine.events import AnyEvent, CycleStarted, Event, encode
from engine.store import run_log
from engine.store.database import Connection, Database, DatabaseError
from engine.store.journal_reader import decoded
from engine.store.moving import move_oldest
from engine.store.owner import Owner
from engine.store.ownership import (
    Claim,
    abandon_runs,
    claim_run,
    insert_run,
    reclaim_run,
    token_of,
    withdraw_run,
)
from engine.store.run_log import RunRow, existing_run


class CycleSize(NamedTuple):
    """Bytes of the state that opened the cycle, as stored (0 in the first cycle), and of the events after it."""

    state: int
    events: int


class Journal:
    """The writing side. Every method may be called from any thread.

    `archive` is the directory for the segments. `clock` gives seconds since the epoch; `owner` is the process that
    claims.
    """

    def __init__(
        self,
        database: Database,
        archive: Path,
        *,
        clock: Callable[[], float] = time.time,
        owner: Owner | None = None,
    ) -> None:
        self._database = database
        self._archive = archive
        self._clock = clock
        self._owner = owner or Owner.of_this_process()
        self._lock = threading.Lock()
        self._places: dict[str, _Place] = {}
        self._tokens: dict[str, int] = {}

    def claim(self, board: str, new_run: str, *, shared: bool = False) -> Claim:
        """Take up the board's unfinished run of a dead process, or begin `new_run`; blocks until it is committed.

        From then on what a former owner of the run writes is refused. Raises RunBusyError while a live process works on
        the board, unless both are `shared`: on this host its process is looked up, on another a heartbeat younger than
        a minute counts.
        """
        now = self._clock()

        def take(connection: Connection) -> tuple[Claim, int]:
            claim = claim_run(connection, board, new_run, owner=self._owner, now=now, shared=shared)
            return claim, token_of(connection, claim.run.number) or 0

        # Both at once: asked for afterwards, the token may be that of whoever has claimed the run since.
        claim, self._tokens[claim.run.run] = self._database.submit(take).result()
        return claim

    def reclaim(self, run: str) -> None:
        """Take up again a run of this process that it has ended; blocks until it is committed.

        Does nothing to one that goes on. Raises RunBusyError, and changes nothing, when another run of the board has
        begun meanwhile that does not share it, be it at work still or not: what this one knows of the board is old.
        """
        now = self._clock()

        def take_up(connection: Connection) -> None:
            self._check(connection, run)
            reclaim_run(connection, run, owner=self._owner, now=now)

        self._database.submit(take_up).result()

    def withdraw(self, run: str) -> None:
        """Take back a claimed run of which nothing was told yet, as if nobody had begun it; blocks."""

        def remove(connection: Connection) -> None:
            self._check(connection, run)
            withdraw_run(connection, run)

        self._database.submit(remove).result()

    def abandon(self, board: str) -> tuple[str, ...]:
        """End the board's unfinished runs of dead processes, which nobody is to take up any more; gives their ids."""

        def end(connection: Connection) -> tuple[str, ...]:
            now = self._clock()
            dead = [
                row
                for row in run_log.find_runs(connection, board)
                if row.ended is None and not row.is_alive(now)
            ]
            abandon_runs(connection, dead, now)
            return tuple(row.run for row in dead)

        return self._database.submit(end).result()

    def begin_run(
        self, run: str, board: str, *, owner: Owner | None = None, started: float | None = None
    ) -> RunRow:
        """Begin a run without looking for others of the same board. Raises StoreError when the id is taken."""
        at = self._clock() if started is None else started
        by = owner or self._owner
        return self._database.submit(lambda c: insert_run(c, run, board, by, at)).result()

    def end_run(self, run: str, at: float, status: str) -> Future[None]:
        """Note that the run ended and is not to be resumed.

        `status`: landed, failed, budget, interrupted or abandoned.
        """

        def update(connection: Connection) -> None:
            self._check(connection, run)
            connection.execute("UPDATE runs SET ended = ?, status = ? WHERE run = ?", (at, status, run))

        return self._database.submit(update)

    def beat(self, run: str) -> Future[None]:
        """Show that the owner lives. Rides along with other writes; call it every few seconds."""
        now = self._clock()

        def update(connection: Connection) -> None:
            connection.execute("UPDATE runs SET beat = ? WHERE run = ?", (now, run))

        return self._database.submit(update, urgent=False)

    def append(self, run: str, events: Sequence[Event], *, durable: bool) -> Future[int]:
        """Add events in order; the future resolves after the commit, with the number of the last one.

        Wait for it before going on where money or git depends on the event, and say `durable`, so that it is written at
        once; others may wait 20 ms for company. Raises StoreError for an unknown run.
        """
        payloads = [encode(event) for event in events]
        place = self._place(run)
        with self._lock:
            first = place.seq + 1
            place.seq += len(payloads)
            place.events += sum(map(len, payloads))

            def insert(connection: Connection) -> int:
                self._check(connection, run)
                for seq, payload in enumerate(payloads, first):
                    _insert_event(connection, place.number, seq, payload)
                return first + len(payloads) - 1

            return self._database.submit(insert, urgent=durable)

    def cycle_size(self, run: str) -> CycleSize:
        """What the live cycle takes, with what is still on its way to the disk. Costs nothing after the first time."""
        place = self._place(run)
        return CycleSize(place.state, place.events)

    def begin_cycle(self, run: str, state: bytes, at: float) -> Future[int]:
        """Continue as new: write one event with the encoded `Snapshot`, then move all older events to the archive.

        The future resolves when the move is done, with the number of the event that opens the cycle. A crash at any
        moment leaves each event in exactly one place; what was not yet moved goes with the next cycle. When the archive
        cannot be written the future raises StoreError: the cycle has begun, and the events stay where they were.
        """
        place = self._place(run)
        with self._lock:
            place.cycle += 1
            place.seq += 1
            place.events = 0
            number, seq, cycle = place.number, place.seq, place.cycle
            event = encode(CycleStarted(at=at, cycle=cycle, state=msgspec.Raw(state)))

            def open_cycle(connection: Connection) -> int:
                self._check(connection, run)
                place.state = _insert_event(connection, number, seq, event)
                connection.execute(
                    "UPDATE runs SET cycle = ?, cycle_seq = ? WHERE number = ?", (cycle, seq, number)
                )
                return seq

            opened = self._database.submit(open_cycle)
        result: Future[int] = Future()
        opened.add_done_callback(lambda done: self._move_on(run, seq, done, result))
        return result

    def retire(self, *, keep: int) -> int:
        """Move the events of ended runs, but for the newest `keep`, to the archive; gives how many. Blocks."""
        ended = [row.run for row in self.runs() if row.ended is not None]
        total = 0
        for run in ended[keep:]:
            move = partial(move_oldest, archive=self._archive, run=run, up_to=None)
            while moved := self._database.submit(move).result():
                total += moved
        return total

    def runs(self, board: str | None = None) -> tuple[RunRow, ...]:
        """All runs, or those of a board, newest first."""
        return self._database.read(lambda c: run_log.find_runs(c, board))

    def events(self, run: str, after_seq: int = 0) -> Iterator[tuple[int, AnyEvent]]:
        """The events of a run after one, across all cycles. Raises StoreError for an unknown run or a damaged event."""
        return decoded(run_log.read_payloads(self._database.read_consistent, self._archive, run, after_seq))

    def _check(self, connection: Connection, run: str) -> None:
        """Refuse to write a run that another process has claimed since. Raises StoreError."""
        mine = self._tokens.get(run)
        if mine is not None and token_of(connection, existing_run(connection, run).number) != mine:
            raise StoreError(
                f"run {run} is another process's by now: nothing more of it is written here",
                "this process was silent for too long; look on with: taskyard watch",
            )

    def _place(self, run: str) -> _Place:
        place = self._places.get(run)
        if place is None:
            # Asked for without the lock: the writer thread must never wait for somebody who waits for it.
            found = self._database.submit(lambda c: _find_place(c, run)).result()
            with self._lock:
                place = self._places.setdefault(run, found)
        return place

    def _move_on(self, run: str, cycle_seq: int, last: Future[int], result: Future[int]) -> None:
        """After the last step, start the next move, until one finds nothing left to do.

        One at a time, so that the commits others wait for come in between.
        """
        error = last.exception()
        if error is None and last.result():
            move = partial(move_oldest, archive=self._archive, run=run, up_to=cycle_seq - 1)
            try:
                moved = self._database.submit(move, urgent=False)
            except DatabaseError as closed:
                error = closed
            else:
                moved.add_done_callback(lambda done: self._move_on(run, cycle_seq, done, result))
                return
        if error is None:
            result.set_result(cycle_seq)
        else:
            result.set_exception(error)


@dataclass(slots=True)
class _Place:
    """Where a run stands in the queue of writes: the last number given out, its cycle and what that takes."""

    number: int
    seq: int
    cycle: int
    state: int
    events: int


def _find_place(connection: Connection, run: str) -> _Place:
    row = existing_run(connection, run)
    last = connection.execute("SELECT max(seq) FROM events WHERE run = ?", (row.number,)).get
    first = row.cycle_seq if row.cycle > 1 else 0
    state: Any
    events: Any
    ((state, events),) = connection.execute(
        "SELECT total(length(payload)) FILTER (WHERE seq = ?2), total(length(payload)) FILTER (WHERE seq > ?2)"
        " FROM events WHERE run = ?1 AND seq >= ?2",
        (row.number, first),
    ).fetchall()
    return _Place(row.number, max(last or 0, row.archived_seq), row.cycle, int(state), int(events))


def _insert_event(connection: Connection, number: int, seq: int, payload: bytes) -> int:
    """Store one event; gives the bytes of it as stored."""
    # Packed here, in the writer's thread: compressing the state of a big run takes a while.
    packed, crc = run_log.pack(seq, payload)
    connection.execute("INSERT INTO events VALUES(?, ?, ?, ?)", (number, seq, packed, crc))
    return len(packed)
