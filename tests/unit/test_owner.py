"""Who owns a run: the same process, a dead one, a zombie, or another with the same id."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable

import pytest

from engine.store import owner
from engine.store.owner import FOREIGN_SILENCE, Owner, process_mark

WAYS: list[object] = [process_mark]
if shutil.which("ps"):
    WAYS.append(owner._mark_by_ps)


@pytest.mark.parametrize("mark_of", WAYS)
def test_a_mark_lasts_as_long_as_the_process(mark_of: Callable[[int], str | None]) -> None:
    child = subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=-1, stdout=-1)
    child.stdout.readline()
    mark = mark_of(child.pid)
    assert mark
    assert mark_of(child.pid) == mark
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert mark_of(child.pid) is None  # A zombie does no work any more.
    child.wait()
    child.stdout.close()
    assert mark_of(child.pid) is None


def test_a_name_full_of_parentheses_does_not_confuse(tmp_path) -> None:
    program = tmp_path / ") S (1 2) Z"
    program.symlink_to(sys.executable)
    child = subprocess.Popen([program, "-c", "print(flush=True); input()"], stdin=-1, stdout=-1)
    child.stdout.readline()
    assert Owner(socket.gethostname(), child.pid, process_mark(child.pid)).is_alive(silent_for=0.0)
    child.communicate(b"\n")


def test_this_process_is_alive_and_its_likeness_is_not() -> None:
    ours = Owner.of_this_process()
    assert ours.is_alive(silent_for=1e9)
    assert not Owner(ours.host, ours.pid, "another start").is_alive(silent_for=0.0)


def test_of_another_host_only_the_silence_is_known() -> None:
    elsewhere = Owner("elsewhere", os.getpid(), process_mark(os.getpid()))
    assert elsewhere.is_alive(silent_for=FOREIGN_SILENCE - 1)
    assert not elsewhere.is_alive(silent_for=FOREIGN_SILENCE + 1)
