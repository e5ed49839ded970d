"""When lines of a log arrived: what a full disk or a kill left of a record spoils none of the others."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from engine.log_times import LogTimes, LogTimesReader

AT = 1_800_000_000.0


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "implement.log"


def times_of(log: Path) -> Path:
    return log.with_name("implement.log.times")


def test_a_torn_record_spoils_no_other(log: Path) -> None:
    LogTimes(log).note(0, AT)
    with times_of(log).open("ab") as file:
        file.write(b"\x07\x00\x00")
    LogTimes(log).note(90, AT + 5)
    assert LogTimesReader(log).read() == [(0, AT), (90, AT + 5)]


def test_a_reader_that_has_seen_a_torn_record_goes_on_behind_it(log: Path) -> None:
    reader = LogTimesReader(log)
    LogTimes(log).note(0, AT)
    with times_of(log).open("ab") as file:
        file.write(b"\x07" * 15)
    assert reader.read() == [(0, AT)]
    LogTimes(log).note(90, AT + 5)
    assert reader.read() == [(90, AT + 5)]


def test_a_log_is_cut_whatever_the_last_record_is(log: Path) -> None:
    LogTimes(log).note(0, AT)
    LogTimes(log).note(500, AT + 1)
    with times_of(log).open("ab") as file:
        file.write(b"\x07")
    LogTimes(log).cut(100, AT + 9)
    assert LogTimesReader(log).read() == [(0, AT), (100, AT + 9)]


@pytest.mark.parametrize("at", [float("nan"), float("inf"), -1.0, 1e300])
def test_a_damaged_record_gives_no_time(log: Path, at: float) -> None:
    times_of(log).write_bytes(struct.pack("<Qd", 3, at) + struct.pack("<Qd", 9, AT))
    assert LogTimesReader(log).read() == [(9, AT)]
