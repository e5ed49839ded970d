"""The database of a state folder, and the journal in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.store.database import Database
from engine.store.journal import Journal
from engine.store.state_db import open_state
from tests.unit.journals import Clock


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = open_state(tmp_path / "state.db")
    yield database
    database.close()


@pytest.fixture
def journal(database: Database, tmp_path: Path) -> Journal:
    return Journal(database, tmp_path / "archive", clock=Clock())
