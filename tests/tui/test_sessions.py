"""Scripted sessions in a real terminal: what keys and mouse do in a run, a watched run and a replay."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TypeAlias

import pytest

from engine.log_times import LogTimes
from tests.tui import sample_run
from tests.tui.terminal import Terminal

Step: TypeAlias = tuple[str, str]
"""Keys, and what stands on the screen after them; with a leading "-", what stands there no more."""

ESC, ENTER, TAB, PAGE_UP, PAGE_DOWN = "\x1b", "\r", "\t", "\x1b[5~", "\x1b[6~"

LISTS: tuple[Step, ...] = (
    ("g", "1 of 24"),
    ("j", "2 of 24"),
    ("k", "1 of 24"),
    ("G", "24 of 24"),
    (PAGE_UP, "-24 of 24"),
    (PAGE_DOWN, "24 of 24"),
    ("g", "1 of 24"),
    ("s", "by state (s)"),
    ("\x1b[D", "enter shows them"),
    ("\x1b[C", "1 Dispatch"),
    ("ssss", "problems first (s)"),
    ("/t2.14" + ENTER, "filter “t2.14”"),
    (ESC, "-filter “"),
    ("e", "problems only (e)"),
    ("e", "-problems only"),
    ("2", "last miss"),
    ("3", "queue"),
    ("5", "archived"),
    (TAB, "4 Lessons"),
    ("1", "problems first (s)"),
    ("3+", "-2 Caches"),
    ("+", "2 Caches"),
    ("n", "Notices"),
    (ESC, "-Notices"),
    ("b", "waits for an answer"),
    (ESC, "-waits for an answer"),
    ("?", "Page down"),
    (ESC, "-Page down"),
    ("\x10", "Search for commands"),
    (ESC, "-Search for commands"),
)
TASK: tuple[Step, ...] = (
    ("/t2.06" + ENTER, "filter “t2.06”"),
    (ENTER, "1 Timeline"),
    ("?", "Back to the dashboard"),
    (ESC, "-Back to the dashboard"),
    ("2", "steps"),
    ("3", "call 6 of 6"),
    ("[", "call 5 of 6"),
    ("]", "call 6 of 6"),
    ("4", "cannot be read"),
    ("5", "no log yet"),
    ("6", "attempt 2 of 2"),
    ("<", "attempt 1 of 2"),
    (">", "attempt 2 of 2"),
    ("/verify" + ENTER, "1 of 1 found"),
    ("nN", "1 of 1 found"),
    ("7", "check_failed"),
    ("8", "cache read"),
    ("\x1b[C", "attempt 1"),
    ("\x1b[D", "cache read"),
    ("y", "copied"),
    ("J", "T2.06"),
    (ESC, "filter “t2.06”"),
    (ESC, "-filter “"),
)
LESSONS: tuple[Step, ...] = (
    ("4cart", "-bankers"),
    (ENTER, "/ search"),
    (ENTER, "4 times"),
    (ESC, "-4 times"),
    ("j" + ENTER, "1 time"),
    (ESC, "-1 time"),
    ("k" + ENTER, "4 times"),
    (ESC, "-4 times"),
    (PAGE_DOWN + ENTER, "1 time"),
    (ESC, "-1 time"),
    (PAGE_UP + ENTER, "4 times"),
    (ESC, "-4 times"),
    ("G" + ENTER, "1 time"),
    (ESC, "-1 time"),
    ("g" + ENTER, "4 times"),
    (ESC, "-4 times"),
    ("/", "enter hits"),
    (ESC, "bankers"),
    (ESC, "-enter hits"),
)
STAMP = time.strftime("%H:%M:%S", time.gmtime(sample_run.BEGIN))  # as the tests of the screen have it
LOG: tuple[Step, ...] = (
    ("/t2.1" + ENTER, "filter “t2.1”"),
    ("g" + ENTER, "1 Timeline"),
    ("5", "following (f)"),
    ("f", "f follows"),
    ("f", "following (f)"),
    ("w", "-FINIS"),
    ("l" * 20, "FINIS"),
    ("h" * 20, "-FINIS"),
    ("w", "FINIS"),
    ("g", STAMP),
    ("T", f"-{STAMP}"),
    ("f", "FINIS"),
    (PAGE_UP, "-FINIS"),
    (PAGE_DOWN, "FINIS"),
    ("k", "-FINIS"),
    ("j", "FINIS"),
    ("n", "Notices"),
    (ESC, "-Notices"),
    ("J", "T2.12"),
    ("K", "T2.10"),
    (TAB, "nothing was verified"),
    ("\x1b[Z", "FINIS"),
)
STEERING_A_TASK: dict[str, tuple[Step, ...]] = {
    "still": (("x", "Cancel T2.10"), ("n", "-Cancel T2.10"), ("r", "retry is for tasks that failed")),
    "watch": (("x", "read-only: this run belongs to another process"),),
}
STEERING: dict[str, tuple[Step, ...]] = {
    "still": (
        ("p", "paused: what runs goes on"),
        (">", "at most 7 tasks at once"),
        ("<", "at most 5 tasks at once"),
        ("L", "the train leaves now"),
        ("X", "Drain the run?"),
        ("n", "-Drain the run?"),
        ("gx", "Cancel "),
        ("n", "-Cancel T"),
        ("r", "retry is for tasks that failed"),
        (" ", "1 marked"),
        (ESC, "-1 marked"),
        ("m", "to the"),
        ("]", "that is for replays"),
    ),
    "watch": (
        ("r", "read-only: this run belongs to another process"),
        ("X", "read-only: this run belongs to another process"),
    ),
    "replay": (
        ("p", "▶ 0"),
        (">", "×2"),
        ("<", "×1 "),
        ("p", "‖"),
        ("x", "read-only: this is a replay"),
    ),
}


def play(terminal: Terminal, steps: tuple[Step, ...]) -> None:
    for keys, words in steps:
        terminal.press(keys)
        try:
            if words.startswith("-"):
                terminal.until_gone(words[1:])
            else:
                terminal.until_shows(words)
        except AssertionError as error:
            raise AssertionError(f"after {keys!r}, waiting for {words!r}: {error}") from None


@pytest.mark.parametrize("mode", STEERING)
def test_keys_do_what_the_help_says(mode: str, tmp_path: Path) -> None:
    log = tmp_path / "implement.log"
    LogTimes(log).note(0, sample_run.BEGIN)
    log.write_text("a line\n" * 99 + "0123456789" * 15 + " FINIS\n")
    with Terminal(["-m", "tests.tui.stage", mode, str(tmp_path)], width=120, height=40) as terminal:
        terminal.until_shows("1 Dispatch")
        if mode == "replay":
            terminal.until_shows("▶ 00:0")  # Before it plays, p would let it.
            terminal.press("]" * 12 + "p")
            terminal.until_shows("‖")
            terminal.until_gone("0/24 landed")
        terminal.until_shows("1 of 24")
        play(terminal, LISTS)
        play(terminal, LESSONS)
        play(terminal, TASK)
        if mode in STEERING_A_TASK:
            play(terminal, (*LOG, *STEERING_A_TASK[mode], (ESC, "filter “t2.1”"), (ESC, "-filter “")))
        play(terminal, STEERING[mode])
        terminal.press("q")
        if mode == "still":
            terminal.until_shows("Quit in the middle of the run?")
            terminal.press("q")
        assert terminal.end() == (130 if mode == "still" else 0)
        assert terminal.restored


def test_wheel_and_clicks() -> None:
    with Terminal(["-m", "tests.tui.stage", "still"], width=80, height=24) as terminal:
        terminal.until_shows("T2.06")
        first = next(line for line in terminal.text.splitlines() if "▌" in line)
        for _ in range(12):
            terminal.wheel(10, 8, down=True)
        terminal.until_gone(first)
        terminal.until_shows("T2.24")
        for _ in range(12):
            terminal.wheel(10, 8, down=False)
        terminal.until_shows(first)
        assert "1 of 24" in terminal.text, "the wheel moves what is seen, and not the cursor"
        task = terminal.text.splitlines()[7].split()[1]
        terminal.click(task)
        terminal.until_shows("5 of 24")
        for _ in range(2):
            terminal.click("T2.08")
        terminal.until_shows("1 Timeline")
        terminal.click("8 Cost")
        terminal.until_shows("cache read")
        terminal.click("esc back")
        terminal.until_shows("1 Dispatch")
        terminal.click("3 Batches")
        terminal.until_gone("1 Dispatch")
        terminal.click("? help")
        terminal.until_shows("Sort the tasks another way")


def test_a_section_is_shown_in_the_pager(tmp_path: Path) -> None:
    copy, pager = tmp_path / "copy", tmp_path / "pager"
    pager.write_text(f'#!/bin/sh\ncp "$1" {copy}\n')
    pager.chmod(0o755)
    with Terminal(["-m", "tests.tui.stage", "still"], env={"PAGER": str(pager)}) as terminal:
        terminal.until_shows("T2.06")
        terminal.press(ENTER)
        terminal.until_shows("1 Timeline")
        terminal.press("o")
        terminal.until(lambda _: copy.exists() and "attempt 1" in copy.read_text())
        terminal.press(ESC)
        terminal.until_shows("1 Dispatch")
