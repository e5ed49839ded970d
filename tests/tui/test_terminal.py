"""The dashboard in a real terminal: however it ends, the terminal is given back and the source stopped."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.tui.terminal import PATIENCE, ROOT, Terminal


def stage(mode: str, width: int = 100, height: int = 30) -> Terminal:
    return Terminal(["-m", "tests.tui.stage", mode], width=width, height=height)


def test_quitting_a_running_run_asks_and_says_it_was_interrupted() -> None:
    with stage("busy") as terminal:
        terminal.until_shows("step 5")
        terminal.press("q")
        terminal.until_shows("Quit in the middle of the run?")
        terminal.press("n")
        terminal.until(lambda text: "Quit in the middle" not in text)
        terminal.press("q")
        terminal.until_shows("Quit in the middle of the run?")
        terminal.press("y")
        assert terminal.end() == 130
        assert terminal.restored
        assert b"stopped" in terminal.raw


@pytest.mark.parametrize("key", ["\x03", "q"])
def test_a_second_press_quits(key: str) -> None:
    with stage("busy") as terminal:
        terminal.until_shows("step 5")
        terminal.press(key)
        terminal.until_shows("Quit in the middle of the run?")
        terminal.press(key)
        assert terminal.end() == 130
        assert terminal.restored


def test_quitting_a_finished_run_gives_its_status_without_a_question() -> None:
    with stage("finished") as terminal:
        terminal.until_shows("q quits")
        terminal.press("q")
        assert terminal.end() == 1
        assert terminal.restored


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_gives_the_terminal_back_and_stops_the_source(number: signal.Signals) -> None:
    with stage("busy") as terminal:
        terminal.until_shows("step 5")
        terminal.process.kill(number)
        assert terminal.end() == 128 + number
        assert terminal.restored
        assert b"stopped" in terminal.raw


SIGNALLED = """
import os, signal
from tests.tui.stage import StagedSource
from tui.app import DashboardApp
from tui.show import show
from tui.terminal import TerminalDriver
before = {method}
def told(*args):
    before(*args)
    os.kill(os.getpid(), signal.SIGHUP)
{method} = told
raise SystemExit(show(StagedSource("busy")))
"""


@pytest.mark.parametrize("method", ["TerminalDriver.start_application_mode", "DashboardApp.laid_out"])
def test_a_signal_as_the_dashboard_comes_up_ends_it_in_order(method: str) -> None:
    with Terminal(["-c", SIGNALLED.format(method=method)]) as terminal:
        assert terminal.end() == 128 + signal.SIGHUP
        assert terminal.restored
        assert b"stopped" in terminal.raw


@pytest.mark.parametrize("method", ["DashboardApp.on_unmount", "TerminalDriver.stop_application_mode"])
def test_a_second_signal_as_the_dashboard_goes_changes_nothing(method: str) -> None:
    """A shell that is closed sends one to what it has started, and the kernel another once the shell has gone."""
    with Terminal(["-c", SIGNALLED.format(method=method)]) as terminal:
        terminal.until_shows("step 5")
        terminal.process.kill(signal.SIGTERM)
        assert terminal.end() == 128 + signal.SIGTERM
        assert terminal.restored
        assert b"stopped" in terminal.raw


def test_a_terminal_that_cannot_be_given_back_does_not_keep_the_process() -> None:
    code = (
        "from tui.terminal import TerminalDriver\n"
        "def fail(driver): raise RuntimeError('no')\n"
        "TerminalDriver.disable_input = fail\n"
        "from tests.tui import moments\n"
        "from tui.show import show\n"
        "raise SystemExit(show(moments.finished()))"
    )
    with Terminal(["-c", code]) as terminal:
        terminal.until_shows("q quits")
        terminal.press("q")
        terminal.end()


@pytest.mark.parametrize(("before", "keys"), [("", "j"), ("/", "a"), ("4", "ab"), ("", "?")])
def test_a_signal_ends_it_in_a_flood_of_keys(before: str, keys: str) -> None:
    """They used to fill the pipe that signals come by, and to wait in their thousands before the end."""
    with stage("finished") as terminal:
        terminal.until_shows("q quits")
        terminal.press(before)
        over = threading.Event()
        flooding = threading.Thread(target=_flood, args=(os.dup(terminal.process.child_fd), keys, over))
        flooding.start()
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            terminal.read(draw=False)
        terminal.process.kill(signal.SIGTERM)
        end = time.monotonic() + PATIENCE
        try:
            while terminal.process.isalive():
                terminal.read(draw=False)
                assert time.monotonic() < end, "the signal waits behind the keys"
        finally:
            over.set()
            flooding.join()
        assert terminal.process.exitstatus == 128 + signal.SIGTERM


def _flood(descriptor: int, keys: str, over: threading.Event) -> None:
    """Press keys as fast as they are taken."""
    with contextlib.suppress(OSError):
        while not over.is_set():
            if select.select([], [descriptor], [], 0.1)[1]:
                os.write(descriptor, keys.encode() * 20)
    os.close(descriptor)


def test_a_broken_engine_ends_the_dashboard_and_is_told_in_words() -> None:
    with stage("broken") as terminal:
        assert terminal.end() == 1
        assert terminal.restored
        assert b"taskyard: the journal cannot be written: disk full: free some space" in terminal.raw


def test_an_error_of_the_dashboard_is_one_line_and_the_rest_in_a_file(tmp_path: Path) -> None:
    with Terminal(["-m", "tests.tui.stage", "crash", str(tmp_path)], width=400) as terminal:
        assert terminal.end() == 1
    assert terminal.restored
    after = terminal.raw[terminal.raw.rindex(b"\x1b[?1049l") :].decode()
    assert "taskyard: the dashboard failed (RuntimeError: no such" in after
    assert "Traceback" not in after
    assert "\x1b[31m" not in after
    assert "in latest" in (tmp_path / "dashboard-crash.log").read_text()


def test_an_error_of_the_dashboard_is_told_in_full_to_who_asks() -> None:
    with Terminal(["-m", "tests.tui.stage", "crash"], env={"TASKYARD_DEBUG": "1"}) as terminal:
        assert terminal.end() == 1
    assert b"Traceback" in terminal.raw


def test_a_closed_terminal_stops_the_source() -> None:
    with stage("busy") as terminal:
        terminal.until_shows("step 5")
        assert terminal.hang_up() == 128 + signal.SIGHUP


def _says_it_is_too_small(text: str) -> bool:
    return " ".join(text.split()) == "terminal too small: needs 40×12, has 20×5"


def test_a_terminal_that_is_too_small_says_so_and_recovers() -> None:
    with stage("busy", 20, 5) as terminal:
        terminal.until(_says_it_is_too_small)
        terminal.resize(100, 30)
        terminal.until_shows("1 Dispatch")
        terminal.resize(20, 5)
        terminal.until(_says_it_is_too_small)
        terminal.resize(60, 20)
        terminal.until_shows("1 Dispatch")


def test_a_section_opens_in_the_editor_and_the_dashboard_comes_back(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    editor = tmp_path / "editor"
    editor.write_text(f'#!/bin/sh\ncp "$1" {copy}\n')
    editor.chmod(0o755)
    with Terminal(["-m", "tests.tui.stage", "still"], env={"VISUAL": "", "EDITOR": str(editor)}) as terminal:
        terminal.until_shows("T2.06")
        terminal.press("\r")
        terminal.until_shows("1 Timeline")
        terminal.press("2E")
        terminal.until(lambda _: copy.exists() and copy.read_text() != "")
        terminal.press("\x1b")
        terminal.until_shows("1 Dispatch")


def _deaf(folder: Path) -> tuple[Path, Path]:
    """A program for files that nothing ends but a kill, and where it writes its process id."""
    program, pid = folder / "program", folder / "pid"
    program.write_text(f"#!/bin/sh\ntrap '' HUP TERM INT QUIT\necho $$ > {pid}\nexec sleep 600\n")
    program.chmod(0o755)
    return program, pid


def _open(terminal: Terminal, key: str, pid: Path) -> int:
    """Open the program over the task screen; gives its process id."""
    terminal.until_shows("1 Dispatch")
    terminal.press("\r")
    terminal.until_shows("1 Timeline")
    terminal.press(f"2{key}")
    terminal.until(lambda _: pid.exists() and pid.read_text() != "")
    return int(pid.read_text())


def _lives(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the second where it goes between opening and reading
        return False


@pytest.mark.parametrize("key", ["E", "o"])
@pytest.mark.parametrize("mode", ["replay", "busy"])
def test_a_terminal_closed_behind_an_editor_or_pager_ends_all(mode: str, key: str, tmp_path: Path) -> None:
    program, pid = _deaf(tmp_path)
    terminal = Terminal(
        ["-m", "tests.tui.stage", mode], env={"VISUAL": "", "EDITOR": str(program), "PAGER": str(program)}
    )
    with terminal:
        child = _open(terminal, key, pid)
        assert terminal.hang_up() == 128 + signal.SIGHUP
        assert not _lives(child)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_behind_an_editor_ends_both(number: signal.Signals, tmp_path: Path) -> None:
    program, pid = _deaf(tmp_path)
    with Terminal(["-m", "tests.tui.stage", "busy"], env={"VISUAL": str(program)}) as terminal:
        child = _open(terminal, "E", pid)
        terminal.process.kill(number)
        assert terminal.end() == 128 + number
        assert terminal.restored
        assert b"stopped" in terminal.raw
        assert not _lives(child)


def test_a_signal_that_comes_to_another_thread_ends_the_program_as_well() -> None:
    # The kernel chooses the thread: of the two signals of a closed terminal it may give both to any.
    code = (
        "import signal, sys, threading, time\n"
        "from tui.terminal import lend\n"
        "def hear() -> None:\n"
        "    time.sleep(0.5)\n"
        "    signal.pthread_kill(threading.get_ident(), signal.SIGHUP)\n"
        "threading.Thread(target=hear).start()\n"
        "sys.exit(lend(['sleep', '600']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=PATIENCE, check=False)
    assert done.returncode == signal.SIGHUP


def test_an_interrupt_typed_into_a_pager_is_for_the_pager(tmp_path: Path) -> None:
    pager, ended = tmp_path / "pager", tmp_path / "ended"
    # Not a shell's trap: a signal between its echo and its sleep waits until the sleep is over.
    pager.write_text(
        f"#!{sys.executable}\n"
        "import pathlib, signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n"
        "print('paging', flush=True)\n"
        "signal.sigwait([signal.SIGINT])\n"
        f"pathlib.Path({str(ended)!r}).touch()\n"
    )
    pager.chmod(0o755)
    with Terminal(["-m", "tests.tui.stage", "busy"], env={"PAGER": str(pager)}) as terminal:
        terminal.until_shows("1 Dispatch")
        terminal.press("\r")
        terminal.until_shows("1 Timeline")
        terminal.press("2o")
        terminal.until(lambda _: b"paging" in terminal.raw)
        terminal.press("\x03")
        terminal.until(lambda _: ended.exists())
        terminal.until_shows("1 Timeline")
        terminal.press("\x1b")
        terminal.until_shows("1 Dispatch")


def test_a_storm_of_sizes_and_a_paste_of_a_megabyte_leave_it_answering() -> None:
    with stage("busy", 200, 60) as terminal:
        terminal.until_shows("step 5")
        for width, height in [(10, 3), (200, 60), (40, 12), (10, 3), (80, 24), (1, 1), (200, 60)] * 3:
            terminal.resize(width, height)
            terminal.read(0.02)
        terminal.resize(120, 40)
        terminal.until_shows("1 Dispatch")
        terminal.press("/")
        terminal.until_shows("clear, leave")
        pasted = "\x1b[200~" + "needle [/] \x07" * 90_000 + "\x1b[201~"
        assert len(pasted) > 1_000_000
        for start in range(0, len(pasted), 4096):
            terminal.press(pasted[start : start + 4096])
            terminal.read(0)
        terminal.until_shows("needle [/] needle")
        terminal.press("\x1b")
        terminal.until(lambda text: "needle" not in text)
        terminal.press("?")
        terminal.until_shows("esc closes")


def test_what_is_typed_in_one_go_after_the_slash_goes_to_the_field() -> None:
    with stage("still") as terminal:
        terminal.until_shows("1 Dispatch")
        terminal.press("/fix T2\r")
        terminal.until_shows("filter “fix T2”")
        assert "Cancel" not in terminal.text


def test_an_escape_that_a_key_follows_at_once_is_the_escape_key() -> None:
    with stage("still") as terminal:
        terminal.until_shows("1 Dispatch")
        terminal.press("\r")
        terminal.until_shows("1 Timeline")
        terminal.press("\x1b?")
        terminal.until_shows("esc closes")
        assert "1 Timeline" not in terminal.text
        terminal.press("\x1bq")
        terminal.until_shows("Quit in the middle of the run?")
        assert "esc closes" not in terminal.text


def test_what_is_drawn_first_is_the_whole_screen() -> None:
    with stage("finished", 120, 40) as terminal:
        terminal.until_shows("q quits")
        before, _ = terminal.raw.split(b"T2.06", 1)
        assert before.count(b"1 Dispatch") == 1, "no panel stood there empty before"


def test_a_run_that_stands_still_costs_not_one_byte() -> None:
    with stage("finished") as terminal:
        terminal.until_shows("q quits")
        begin = silent = time.monotonic()
        while time.monotonic() - silent < 2.5:
            if written := terminal.read(0.5):
                silent = time.monotonic()  # on a busy machine the last that is drawn comes late
            assert silent - begin < PATIENCE, f"goes on writing: {written!r}"


def test_nothing_heavy_is_imported_before_the_first_paint() -> None:
    code = "import sys, tui.app; print(*sorted({'anthropic', 'git', 'apsw', 'jinja2', 'pygments'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
