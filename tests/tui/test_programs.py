"""A pager or editor that cannot be started is told in words, and the dashboard goes on."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.tui import moments
from tests.tui.terminal import Terminal
from tests.tui.test_keys import WIDE, ready, until
from tui.app import DashboardApp
from tui.screens.task import TaskScreen


def told(app: DashboardApp) -> list[str]:
    return [each.message for each in app._notifications]


@pytest.mark.parametrize(("key", "variable"), [("o", "PAGER"), ("E", "VISUAL"), ("E", "EDITOR")])
async def test_a_quotation_without_an_end_is_told(
    key: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv(variable, "less '-R")
    app = DashboardApp(moments.running())
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("enter", key)
        await until(lambda: bool(told(app)))
        assert told(app) == [f"${variable} cannot be read (no closing quotation): set it anew"]
        assert isinstance(app.screen, TaskScreen)


async def test_no_room_for_a_copy_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    monkeypatch.setenv("PAGER", "less")
    app = DashboardApp(moments.running())
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("enter", "o")
        await until(lambda: bool(told(app)))
        assert told(app) == ["no copy for less could be written: No such file or directory"]
        assert isinstance(app.screen, TaskScreen)


def test_blanks_are_no_pager_and_a_terminal_of_letters_only_gets_a_copy(tmp_path: Path) -> None:
    copy, less = tmp_path / "copy", tmp_path / "less"
    less.write_text(f'#!/bin/sh\ncp "$2" {copy}\n')
    less.chmod(0o755)
    env = {
        "PAGER": "  ",
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "LC_ALL": "C",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONUTF8": "0",
    }
    with Terminal(["-m", "tests.tui.stage", "still"], env=env) as terminal:
        terminal.until_shows("T2.06")
        terminal.press("\r")
        terminal.until_shows("1 Timeline")
        terminal.press("o")
        terminal.until(lambda _: copy.exists() and b"attempt 1" in copy.read_bytes())
        terminal.press("\x1b")
        terminal.until_shows("1 Dispatch")
