"""A log stays within its limit, with its beginning, its end, and a word on what lies between them."""

from __future__ import annotations

import itertools
import os
import re
import sys
from pathlib import Path

from engine.capped_log import CappedLog
from engine.log_times import LogTimesReader
from engine.process import run_process
from tui.log_tail import LogTail

LIMIT = 10_000


def lines(count: int) -> list[bytes]:
    return [b"line %06d\n" % number for number in range(count)]


def test_a_short_log_is_kept_whole(tmp_path: Path) -> None:
    with CappedLog(tmp_path / "a.log", LIMIT, lambda: 0.0) as log:
        for line in lines(800):
            log.write(line)
    assert (tmp_path / "a.log").read_bytes() == b"".join(lines(800))


def test_of_a_long_log_the_middle_goes_and_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    said = lines(50_000)
    with CappedLog(path, LIMIT, itertools.count().__next__) as log:
        for line in said:
            log.write(line)
            assert path.stat().st_size <= LIMIT + 100
    kept = path.read_bytes().splitlines(keepends=True)
    (note,) = [index for index, line in enumerate(kept) if line.startswith(b"[cut here")]
    head, tail = kept[:note], kept[note + 1 :]
    assert len(head) > 300
    assert len(tail) > 100
    assert head == said[: len(head)]
    assert tail == said[-len(tail) :]
    left_out = re.search(rb"(\d+) bytes left out", kept[note])
    assert left_out is not None
    assert int(left_out[1]) == len(b"".join(said)) - len(b"".join(head + tail))
    offsets = [offset for offset, _ in LogTimesReader(path).read()]
    assert offsets == sorted(offsets)
    assert offsets[-1] < path.stat().st_size


def test_a_log_that_goes_on_is_followed_over_a_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    with CappedLog(path, LIMIT, lambda: 0.0) as log:
        tail = LogTail(path)
        for line in lines(3_000):
            log.write(line)
            tail.read()
    assert [text for text in tail.lines if "cut here" in text] != []
    assert tail.lines[-1] == "line 002999"


async def test_a_child_that_talks_for_ever_fills_no_disk(tmp_path: Path) -> None:
    script = "for n in range(40_000): print('line', n)"
    log = tmp_path / "a.log"
    result = await run_process(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=os.environ,
        log=log,
        timeout=200,
        max_log=LIMIT,
    )
    assert result.status == 0
    assert result.tail.endswith("line 39999\n")
    assert log.read_text().startswith("line 0\n")
    assert log.read_text().endswith("line 39999\n")
    assert log.stat().st_size <= LIMIT + 100
