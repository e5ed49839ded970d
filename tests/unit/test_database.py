"""One writer a file: commits in groups, failures that stay with their job, damaged and foreign files."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import apsw
import pytest

from engine.store import database as database_module
from engine.store.database import (
    Database,
    DatabaseError,
    ReadOnlyDatabase,
    Schema,
    connect_reader,
    open_database,
)

NUMBERS = Schema(("CREATE TABLE numbers(n INTEGER PRIMARY KEY, body BLOB)",))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "numbers.db"


@pytest.fixture
def database(path: Path):
    database = open_database(path, schema=NUMBERS)
    yield database
    database.close()


def add(n: int, body: bytes = b""):
    return lambda c: c.execute("INSERT INTO numbers VALUES(?, ?)", (n, body)) and n


def numbers(database: Database | ReadOnlyDatabase) -> list[int]:
    return [n for (n,) in database.read(lambda c: c.execute("SELECT n FROM numbers ORDER BY n").fetchall())]


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    )


async def test_a_write_is_committed_when_it_returns(database: Database, path: Path) -> None:
    assert await database.write(add(1)) == 1
    other = ReadOnlyDatabase(path)
    assert numbers(other) == numbers(database) == [1]
    other.close()


async def test_many_waiters_share_commits(database: Database) -> None:
    commits = []
    await database.write(lambda c: c.set_commit_hook(lambda: bool(commits.append(1))))
    commits.clear()
    hold = threading.Event()
    database.submit(lambda _: hold.wait(30))  # so that all of them are there when the next commit comes
    writing = [asyncio.create_task(database.write(add(n))) for n in range(500)]
    await asyncio.sleep(0)
    hold.set()
    await asyncio.gather(*writing)
    assert numbers(database) == list(range(500))
    assert len(commits) <= 2


def test_jobs_that_are_not_urgent_wait_for_company(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "LINGER", 30.0)
    commits = []
    database.submit(lambda c: c.set_commit_hook(lambda: bool(commits.append(1)))).result()
    commits.clear()
    first = database.submit(add(1), urgent=False)
    with pytest.raises(TimeoutError):
        first.result(timeout=0.3)
    second = database.submit(add(2), urgent=False)
    last = database.submit(add(3))
    assert (first.result(timeout=20), second.result(timeout=20), last.result(timeout=20)) == (1, 2, 3)
    assert len(commits) == 1


def test_jobs_that_are_not_urgent_do_not_wait_for_ever(database: Database) -> None:
    assert database.submit(add(1), urgent=False).result(timeout=20) == 1


def test_a_failing_job_fails_alone(database: Database) -> None:
    hold = threading.Event()
    database.submit(lambda _: hold.wait(5))  # so that the others are one group

    def broken(connection: apsw.Connection) -> None:
        connection.execute("INSERT INTO numbers VALUES(100, '')")
        raise ZeroDivisionError

    jobs = [database.submit(fn) for fn in (add(1), add(1), broken, add(2))]
    hold.set()
    assert jobs[0].result() == 1
    with pytest.raises(DatabaseError, match="UNIQUE"):
        jobs[1].result()
    with pytest.raises(ZeroDivisionError):
        jobs[2].result()
    assert jobs[3].result() == 2
    assert numbers(database) == [1, 2]


async def test_a_cancelled_wait_does_not_take_the_write_back(database: Database) -> None:
    hold = threading.Event()
    database.submit(lambda _: hold.wait(5))
    waiting = asyncio.create_task(database.write(add(7)))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    hold.set()
    await database.write(add(8))
    assert numbers(database) == [7, 8]


def test_a_full_disk_fails_the_write_and_nothing_else(database: Database) -> None:
    pages = database.read(lambda c: c.pragma("page_count"))
    database.submit(lambda c: c.execute(f"PRAGMA max_page_count={pages + 2}").fetchall()).result()
    with pytest.raises(DatabaseError, match="disk is full") as failure:
        database.submit(add(1, b"x" * 100_000)).result()
    assert failure.value.kind == "full"
    assert database.submit(add(2)).result() == 2
    assert numbers(database) == [2]


def test_a_file_held_by_another_process_is_waited_for_but_not_for_ever(path: Path) -> None:
    database = open_database(path, schema=NUMBERS, busy_timeout=0.05)
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(DatabaseError, match="another process") as failure:
        database.submit(add(1)).result()
    assert failure.value.kind == "busy"
    other.execute("COMMIT")
    assert database.submit(add(1)).result() == 1
    other.close()
    database.close()


def test_closing_writes_what_is_queued(path: Path) -> None:
    database = open_database(path, schema=NUMBERS)
    jobs = [database.submit(add(n), urgent=False) for n in range(2500)]
    database.close()
    database.close()
    assert [job.result(timeout=0) for job in jobs] == list(range(2500))
    with pytest.raises(DatabaseError, match="closed"):
        database.submit(add(1))
    assert os.listdir(path.parent) == [path.name]


def test_a_schema_grows_step_by_step_and_keeps_the_rows(path: Path) -> None:
    old = open_database(path, schema=NUMBERS)
    old.submit(add(5)).result()
    old.close()
    new_schema = Schema((*NUMBERS.steps, "ALTER TABLE numbers ADD COLUMN note TEXT DEFAULT 'none'"))
    new = open_database(path, schema=new_schema)
    assert new.read(lambda c: c.execute("SELECT n, note FROM numbers").fetchall()) == [(5, "none")]
    new.close()
    with pytest.raises(DatabaseError, match="newer version") as failure:
        open_database(path, schema=NUMBERS)
    assert failure.value.kind == "newer"
    again = open_database(path, schema=NUMBERS, disposable=True)
    assert again.set_aside == path.with_name("numbers.db.corrupt-1")
    assert numbers(again) == []
    again.close()


@pytest.mark.parametrize("damage", ["text", "page"])
def test_a_damaged_file_is_set_aside_only_where_it_can_be_made_again(path: Path, damage: str) -> None:
    database = open_database(path, schema=NUMBERS)
    for n in range(100):
        database.submit(add(n, b"x" * 300))
    database.close()
    data = bytearray(path.read_bytes())
    if damage == "text":
        data[:] = b"this is not a database " * 1000
    else:
        data[3 * 4096 : 4 * 4096] = bytes(4096)
    path.write_bytes(data)
    if damage == "text":
        with pytest.raises(DatabaseError) as failure:
            open_database(path, schema=NUMBERS)
        assert failure.value.kind == "damaged"
        assert failure.value.hint
    path.with_name("numbers.db.corrupt-1").write_bytes(b"an earlier one")
    database = open_database(path, schema=NUMBERS, disposable=True)
    assert database.set_aside == path.with_name("numbers.db.corrupt-2")
    assert database.set_aside.read_bytes()[100:] == bytes(data)[100:]
    assert database.submit(add(1)).result() == 1
    database.close()


@pytest.mark.parametrize("anew", [True, False])
def test_a_damaged_file_that_another_process_has_set_aside_meanwhile_is_not_set_aside_again(
    path: Path, anew: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(b"this is not a database " * 1000)
    open_writer = database_module.open_writer

    def met_by_two(*args: Any) -> Any:
        monkeypatch.undo()
        with pytest.raises(DatabaseError) as damaged:
            open_writer(*args)
        if anew:
            other = open_database(path, schema=NUMBERS, disposable=True)
            other.submit(add(7)).result()
            other.close()
        else:
            path.rename(path.with_name("numbers.db.corrupt-1"))
        raise damaged.value

    monkeypatch.setattr(database_module, "open_writer", met_by_two)
    database = open_database(path, schema=NUMBERS, disposable=True)
    assert database.set_aside is None
    assert [each.name for each in path.parent.glob("*.corrupt-*")] == ["numbers.db.corrupt-1"]
    assert database.read(lambda c: c.execute("SELECT count(*) FROM numbers").get) == (1 if anew else 0)
    database.close()


def test_a_missing_file_is_an_error_for_a_reader_and_is_not_made(path: Path) -> None:
    with pytest.raises(DatabaseError) as failure:
        ReadOnlyDatabase(path)
    assert failure.value.kind == "unreadable"
    assert not path.exists()


def test_data_version_tells_of_commits_by_this_process_and_others(database: Database, path: Path) -> None:
    reader = ReadOnlyDatabase(path)
    before, own = reader.data_version(), database.data_version()
    assert (reader.data_version(), database.data_version()) == (before, own)
    database.submit(add(1)).result()
    assert reader.data_version() != before
    assert database.data_version() != own
    reader.close()


def test_a_consistent_read_sees_one_commit(database: Database) -> None:
    def read(connection: apsw.Connection) -> tuple[object, object]:
        before = connection.execute("SELECT count(*) FROM numbers").get
        database.submit(add(1)).result()
        return before, connection.execute("SELECT count(*) FROM numbers").get

    assert database.read_consistent(read) == (0, 0)
    assert numbers(database) == [1]


def test_a_running_statement_can_be_interrupted(database: Database, path: Path) -> None:
    reader = ReadOnlyDatabase(path)
    running = threading.Event()

    def endless(connection: apsw.Connection) -> object:
        running.set()
        return connection.execute(
            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t"
        ).get

    def interrupt() -> None:
        running.wait(5)
        while thread_is_reading.is_set():
            reader.interrupt()

    thread_is_reading = threading.Event()
    thread_is_reading.set()
    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(DatabaseError):
        reader.read(endless)
    thread_is_reading.clear()
    interrupter.join()
    assert numbers(reader) == []
    reader.close()


OPEN_AND_ADD = """
import sys
from pathlib import Path
from engine.store.database import Schema, open_database
schema = Schema(("CREATE TABLE numbers(n INTEGER PRIMARY KEY, body BLOB)",))
database = open_database(Path(sys.argv[1]), schema=schema)
first = int(sys.argv[2])
for n in range(first, first + 50):
    database.submit(lambda c: c.execute("INSERT INTO numbers VALUES(?, '')", (n,))).result()
database.close()
"""


def test_four_processes_make_and_fill_one_new_file(path: Path) -> None:
    processes = [start(OPEN_AND_ADD, path, 100 * n) for n in range(4)]
    assert [process.wait(30) for process in processes] == [0, 0, 0, 0]
    for process in processes:
        process.stdout.close()
    reader = ReadOnlyDatabase(path)
    assert len(numbers(reader)) == 200
    reader.close()


ADD_UNTIL_KILLED = """
import sys
from pathlib import Path
from engine.store.database import Schema, open_database
schema = Schema(("CREATE TABLE numbers(n INTEGER PRIMARY KEY, body BLOB)",))
database = open_database(Path(sys.argv[1]), schema=schema)
n = 0
while True:
    n += 1
    database.submit(lambda c: c.execute("INSERT INTO numbers VALUES(?, zeroblob(500))", (n,))).result()
    print(n, flush=True)
"""


def test_what_was_acknowledged_survives_kill_9(path: Path) -> None:
    child = start(ADD_UNTIL_KILLED, path)
    seen = 0
    for line in child.stdout:
        seen = int(line)
        if seen == 300:
            child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    database = open_database(path, schema=NUMBERS)
    found = numbers(database)
    assert found == list(range(1, len(found) + 1))
    assert len(found) in (seen, seen + 1)
    database.close()


READ = """
import ctypes, os, sys
from pathlib import Path
if os.geteuid() == 0:  # root too is bound by the permissions of files, once it drops what lets it pass them
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP, from the next exec on
    if not os.environ.get("DROPPED"):
        os.execve(sys.executable, [sys.executable, "-c", sys.argv[2], *sys.argv[1:]], {**os.environ, "DROPPED": "1"})
from engine.store.database import ReadOnlyDatabase
reader = ReadOnlyDatabase(Path(sys.argv[1]))
print(reader.read(lambda c: c.execute("SELECT count(*) FROM numbers").get))
"""


def test_a_reader_needs_no_right_to_write(tmp_path_factory: pytest.TempPathFactory) -> None:
    base = tmp_path_factory.mktemp("shared")
    path = base / "locked" / "numbers.db"
    database = open_database(path, schema=NUMBERS)
    database.submit(add(1)).result()
    path.parent.chmod(0o555)
    try:
        live = start(READ, path, READ)
        assert live.communicate(timeout=200)[0] == "1\n"
        path.parent.chmod(0o755)
        database.close()
        path.parent.chmod(0o555)
        closed = start(READ, path, READ)
        assert closed.communicate(timeout=200)[0] == "1\n"
    finally:
        path.parent.chmod(0o755)


def test_a_file_that_cannot_be_opened_at_all_is_told(database: Database, path: Path) -> None:
    database.close()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open(os.devnull) as lowest:
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest.fileno(), limits[1]))
        try:
            with pytest.raises(DatabaseError, match="cannot be used") as caught:
                connect_reader(path)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert caught.value.kind == "unreadable"


def test_a_reader_of_its_own_is_independent(database: Database, path: Path) -> None:
    database.submit(add(3)).result()
    connection = connect_reader(path)
    assert connection.execute("SELECT n FROM numbers").get == 3
    with pytest.raises(apsw.ReadOnlyError):
        connection.execute("INSERT INTO numbers VALUES(4, '')")
    connection.close()
