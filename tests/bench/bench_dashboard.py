"""The dashboard in a real terminal: what it costs, how soon it answers, and how it starts beside an empty app."""

from __future__ import annotations

import itertools
import os
import re
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench import Row
from tests.tui.terminal import Terminal

MEASURED = 5.0
"""Seconds that cost is measured over."""

TURNS = 7
KEYS = 30
CURSOR = "▌".encode()

_EMPTY = """
from textual.app import App
from textual.widgets import Static
class Empty(App):
    def compose(self):
        yield Static("hello there")
Empty().run()
"""
_MOMENT = "from tests.tui import moments; from tui.show import show; show(moments.{}())"


def rows() -> list[Row]:
    """Start, cost at rest, under 5,000 events a second on few tasks and on many, and over a log that grows."""
    return [*_start_rows(), *_rest_rows(), *_busy_rows(), *_crowd_rows(), *_log_rows()]


def _start_rows() -> list[Row]:
    started = (
        (["-c", _EMPTY], "hello there"),
        (["-c", _MOMENT.format("running")], "T2.09"),
        (["-c", _MOMENT.format("many")], "T00003"),
    )
    # In turns, as the machine's speed changes from minute to minute.
    turns = [[_first_content(args, words) for args, words in started] for _ in range(TURNS)]
    empty, few, many = map(min, zip(*turns, strict=True))
    limit = empty + 0.3
    return [
        Row("dashboard, first content, 24 tasks", "≤ empty app + 0.3", few, "s", few / empty, few <= limit),
        Row(
            "dashboard, 10,000 tasks ready",
            "≤ 1.2 × empty app + 0.3",
            many,
            "s",
            many / empty,
            many <= 1.2 * empty + 0.3,
        ),
        *_written_rows(),
    ]


def _written_rows() -> list[Row]:
    """What a slow line has to carry until the screen stands; one screen is 20 kB."""
    with Terminal(["-c", _MOMENT.format("finished")], width=120, height=40) as terminal:
        terminal.until_shows("q quits")
        while terminal.read(0.6):
            pass
        written = len(terminal.raw) / 1000
    return [Row("dashboard, start, to the terminal", "≤ 80", written, "kB", None, written <= 80)]


def _first_content(args: list[str], words: str) -> float:
    begin = time.perf_counter()
    with Terminal(args, width=120, height=40) as terminal:
        terminal.until_shows(words)
        return time.perf_counter() - begin


def _rest_rows() -> list[Row]:
    with Terminal(["-c", _MOMENT.format("finished")], width=120, height=40) as terminal:
        terminal.until_shows("q quits")
        while terminal.read(0.6):
            pass
        share, written = _cost(terminal)
        memory = _megabytes(terminal.process.pid)
    return [
        Row("dashboard at rest, CPU", "≤ 0.5", share * 100, "%", None, share <= 0.005),
        Row("dashboard at rest, to the terminal", "0", written, "B/s", None, written == 0),
        Row("dashboard at rest, memory", "≤ 70", memory, "MB", None, memory <= 70),
    ]


def _busy_rows() -> list[Row]:
    with Terminal(["-m", "tests.tui.stage", "busy"], width=120, height=40) as terminal:
        terminal.until_shows("step 5")
        share, _ = _cost(terminal)
        late = _latencies(terminal)
    p95 = statistics.quantiles(late, n=20)[-1] * 1000
    return [
        Row("dashboard at 5,000 events/s, CPU", "≤ 60", share * 100, "%", None, share <= 0.6),
        Row("dashboard at 5,000 events/s, key to row, p95", "≤ 50", p95, "ms", None, p95 <= 50),
    ]


def _crowd_rows() -> list[Row]:
    """Ten thousand tasks in groups by state, of which one lands and one begins twenty times a second."""
    with Terminal(["-m", "tests.tui.stage", "crowd"], width=120, height=40) as terminal:
        terminal.until_shows("step 5", timeout=60)
        terminal.press("s")
        terminal.until_shows("by state")
        drawn = bytearray()
        share, written = _cost(terminal, drawn)
    # Each state that was drawn shows how many bursts of events it comes from.
    frames = len(set(re.findall(rb"step (\d+)", drawn))) * written / len(drawn)
    return [
        Row("10,000 tasks by state at 5,000 events/s, frames", "≥ 14.5", frames, "/s", None, frames >= 14.5),
        Row("the same, CPU", "≤ 60", share * 100, "%", None, share <= 0.6),
    ]


def _log_rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "implement.log")
        numbers = itertools.count()
        length = len(_log_lines(numbers, 1))
        log.write_bytes(_log_lines(numbers, 100_000_000 // length))
        code = (
            "import sys, pathlib; from tests.tui import moments; from tui.show import show;"
            "show(moments.logging(pathlib.Path(sys.argv[1])))"
        )
        with (
            Terminal(["-c", code, folder], width=120, height=40) as terminal,
            log.open("ab", buffering=0) as file,
        ):
            terminal.until_shows("T2.10")
            terminal.press("/T2.10\r")
            terminal.until_shows("filter “T2.10”")
            terminal.press("\r")
            terminal.until_shows("1 Timeline")
            terminal.press("5")
            terminal.until_shows("of the log of an agent")
            while terminal.read(0.6):
                pass
            pid = terminal.process.pid
            appended, read_before, before = 0, _bytes_read(pid), _cpu(pid)
            begin = time.perf_counter()
            while time.perf_counter() - begin < MEASURED:
                appended += file.write(_log_lines(numbers, 20))
                wait = begin + appended / length / 200 - time.perf_counter()
                terminal.read(max(0.0, wait), draw=False)
            took = time.perf_counter() - begin
            share = (_cpu(pid) - before) / took
            extra = (_bytes_read(pid) - read_before) / appended
    return [
        Row("a log of 100 MB that grows by 200 lines/s, CPU", "≤ 2", share * 100, "%", None, share <= 0.02),
        Row("the same, bytes read for one appended", "≤ 1.1", extra, "", None, extra <= 1.1),
    ]


def _log_lines(numbers: Iterator[int], count: int) -> bytes:
    """Lines of which no two are alike, all of one length."""
    words = "a line of the log of an agent that works and works and does not come to an end"
    return "".join(f"{number:08} {words}\n" for number in itertools.islice(numbers, count)).encode()


def _bytes_read(pid: int) -> int:
    return int(Path(f"/proc/{pid}/io").read_text().split()[1])


def _cost(terminal: Terminal, drawn: bytearray | None = None) -> tuple[float, float]:
    """The share of a core, and the bytes a second written to the terminal, which are added to `drawn`."""
    pid = terminal.process.pid
    begin, before, written = time.perf_counter(), _cpu(pid), drawn if drawn is not None else bytearray()
    while time.perf_counter() - begin < MEASURED:
        written += terminal.read(0.1, draw=False)
    took = time.perf_counter() - begin
    return (_cpu(pid) - before) / took, len(written) / took


def _latencies(terminal: Terminal) -> list[float]:
    """Seconds from a key until the cursor's new row was written."""
    late = []
    for number in range(KEYS):
        begin = time.perf_counter()
        terminal.press("j" if number % 2 == 0 else "k")
        while CURSOR not in terminal.read(0.005, draw=False) and time.perf_counter() - begin < 1:
            pass
        late.append(time.perf_counter() - begin)
    return late


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _megabytes(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
