"""The journal: order, durability, cycles, owners, and readers in other processes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from engine.events import Progressed
from engine.state import Snapshot
from engine.store.database import Database
from engine.store.journal import Journal, JournalReader
from engine.store.state_db import open_state


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def note(n: int) -> Progressed:
    return Progressed(at=float(n), task="A", text=f"step {n} 漢字 👩‍💻")


@pytest.fixture
def database(tmp_path: Path):
    database = open_state(tmp_path / "state.db")
    yield database
    database.close()


@pytest.fixture
def journal(database: Database, tmp_path: Path) -> Journal:
    return Journal(database, tmp_path / "archive", clock=Clock())


def reader_of(journal_path: Path) -> JournalReader:
    return JournalReader(journal_path / "state.db", journal_path / "archive")


STATE = msgspec.json.encode(Snapshot())


async def test_events_come_back_in_order_and_numbered_from_one(journal: Journal) -> None:
    journal.begin_run("r", "board.md")
    futures = [journal.append("r", [note(n), note(n + 1)], durable=n % 4 == 0) for n in range(0, 100, 2)]
    assert [await asyncio.wrap_future(f) for f in futures] == list(range(2, 101, 2))
    assert list(journal.events("r")) == [(n + 1, note(n)) for n in range(100)]
    assert [seq for seq, _ in journal.events("r", after_seq=97)] == [98, 99, 100]


def test_another_process_reads_across_cycles(journal: Journal, tmp_path: Path) -> None:
    journal.begin_run("r", "board.md")
    journal.append("r", [note(n) for n in range(1, 5001)], durable=True).result()
    reader = reader_of(tmp_path)
    assert reader.changed()
    assert not reader.changed()
    assert reader.poll("r", 4990) == [(n, note(n)) for n in range(4991, 5001)]
    assert journal.begin_cycle("r", STATE, 7.0).result() == 5001
    journal.append("r", [note(5002)], durable=True).result()
    assert reader.changed()
    row = reader.latest_run()
    assert row is not None
    assert (row.cycle, row.cycle_seq, row.archived_seq) == (2, 5001, 5000)
    # From the cycle on: the state, and one event. From before: everything once, from the archive and the table.
    assert [seq for seq, _ in reader.poll("r", row.resume_after)] == [5001, 5002]
    everything = reader.poll("r", 0)
    assert [seq for seq, _ in everything] == list(range(1, 5003))
    assert everything[4999] == (5000, note(5000))
    assert reader.poll("r", 1990, limit=20) == [(n, note(n)) for n in range(1991, 2011)]
    reader.close()
