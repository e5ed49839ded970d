"""Who looks elsewhere is told once that the run ended, or that a task was given up."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from engine import events as ev
from engine.model import TaskState
from engine.settings import NotifySettings
from engine.state import RunState
from tests.tui import moments, sample_run
from tests.tui.test_keys import until
from tui.app import DashboardApp
from tui.notify import Notifier, run_command

AT = sample_run.BEGIN + 90


def test_each_thing_is_told_once_and_what_was_there_before_is_no_news() -> None:
    told: list[str] = []
    notifier = Notifier(NotifySettings(), {}, write=told.append)
    state = RunState()
    notifier.look(state.snapshot())
    state.apply_all(sample_run.events_until(90))
    state.apply(ev.TaskEnded(at=AT, task="T2.11", state=TaskState.FAILED, reason="old"))
    notifier.look(state.snapshot())
    assert told == []
    state.apply(ev.TaskEnded(at=AT + 1, task="T2.14", state=TaskState.FAILED, reason="a \x1b[31m\x07 test"))
    notifier.look(state.snapshot())
    notifier.look(state.snapshot())
    assert len(told) == 1
    assert told[0].startswith("\x1b]9;Taskyard: T2.14 failed: a ")
    assert told[0].count("\x1b") == 2
    assert told[0].count("\a") == 1
    state.apply(sample_run.finished(AT))
    notifier.look(state.snapshot())
    notifier.look(state.snapshot())
    assert len(told) == 2
    assert "some failed: " in told[1]


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (
            ev.BudgetReached(at=AT, scope="run", limit_usd=3.0, spent_usd=2.95, next_usd=0.2, task="T2.15"),
            "budget of the run reached: $2.95 of $3.00, next call up to $0.20; raise [budget] usd to go on",
        ),
        (ev.Noticed(at=AT, level="error", text="the disk is full"), "the disk is full"),
        (ev.Noticed(at=AT, level="error", text="no agent", task="T2.10"), "T2.10: no agent"),
        (ev.Noticed(at=AT, level="warning", text="a word"), None),
    ],
)
def test_what_waits_for_a_person_is_told(event: ev.Event, words: str | None) -> None:
    told: list[str] = []
    notifier = Notifier(NotifySettings(), {}, write=told.append)
    state = RunState().apply_all(sample_run.events_until(90))
    notifier.look(state.snapshot())
    state.apply(event)
    notifier.look(state.snapshot())
    notifier.look(state.snapshot())
    assert told == ([] if words is None else [f"\x1b]9;Taskyard: {words}\x1b\\\a"])


def test_the_bell_can_be_switched_off() -> None:
    told: list[str] = []
    Notifier(NotifySettings(bell=False), {}, write=told.append).tell("it ended")
    assert told == []


def test_a_command_gets_the_words_as_one_argument(tmp_path: Path) -> None:
    script = (
        "import os, sys; open(sys.argv[1], 'w').write(sys.argv[2] + os.environ.get('ANTHROPIC_API_KEY', '-'))"
    )
    file = tmp_path / "told"
    Notifier(NotifySettings(command=(sys.executable, "-c", script, str(file))), {"ANTHROPIC_API_KEY": "sk-1"})
    assert run_command((sys.executable, "-c", script, str(file)), "T1; rm -rf $HOME", {}) == ""
    assert file.read_text() == "T1; rm -rf $HOME-"
    assert run_command(("/nowhere/at-all",), "x", {}) == (
        "[notify] command cannot be run (No such file or directory): /nowhere/at-all"
    )
    assert run_command((sys.executable, "-c", "raise SystemExit(3)"), "x", {}).endswith("status 3")


async def test_the_dashboard_runs_the_command_without_secrets_and_says_when_it_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-1")
    script = (
        "import os, sys; open(sys.argv[1], 'w').write(sys.argv[2] + os.environ.get('ANTHROPIC_API_KEY', '-'))"
    )
    file = tmp_path / "told"
    good = NotifySettings(command=(sys.executable, "-c", script, str(file)))
    for settings, works in ((good, True), (NotifySettings(command=("/nowhere/at-all",)), False)):
        source = moments.running()
        app = DashboardApp(source, notify=settings)
        async with app.run_test(size=(120, 40), notifications=True) as pilot:
            await pilot.pause()
            await until(lambda: app.frame.snapshot.run.started is not None)  # noqa: B023
            source.play(sample_run.finished(source.now()))
            if works:
                await until(lambda: file.exists() and file.read_text() != "")
                assert file.read_text().startswith("some failed: ")
                assert file.read_text().endswith("-")
            else:
                await until(lambda: any("/nowhere" in n.message for n in app._notifications))  # noqa: B023
