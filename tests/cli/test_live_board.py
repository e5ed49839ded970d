"""A board that is edited while it is worked off: real runs in processes of their own, over a real repository."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from engine import events as ev
from tests import forked
from tests.cli.taskyard import PROGRAM, Said, taskyard
from tests.cli.test_run import environment, project
from tests.sample_repository import SampleRepository
from tests.tui.terminal import Terminal

E = TypeVar("E", bound=ev.Event)
HEAD = "| ID | Scope | Status | Branch | Verification | After | Priority |\n|---|---|---|---|---|---|---|\n"


def row(name: str, scope: str = "Write", status: str = " ", after: str = "", priority: str = "") -> str:
    return f"| {name} | {scope} {name} | [{status}] | | `test -f {name}.txt` | {after} | {priority} |\n"


class Play:
    """A repository whose agent writes the task's scope down once it is let go, and the run over it."""

    def __init__(self, repo: Callable[..., SampleRepository], folder: Path, *rows: str) -> None:
        self.go = folder / "go"
        agent = f"""
import pathlib, re, sys, time
text = sys.stdin.read()
task = re.search(r"\\bT[0-9]+\\b", text)[0]
while not pathlib.Path({str(self.go)!r}).exists():
    time.sleep(0.02)
pathlib.Path(task + ".txt").write_text(re.search(r"\\b(Write|Draw) T[0-9]+", text)[0])
"""
        self.sample = project(repo, HEAD + "".join(rows), agent, "[run]\nmax_concurrency = 1\n")
        self.events: list[ev.Event] = []
        self.process: subprocess.Popen[bytes] | None = None

    def edit(self, *rows: str) -> None:
        self.sample.write({"tasks/board.md": HEAD + "".join(rows)})

    def start(self, *command: str) -> None:
        self.process = forked.Popen(
            command, cwd=self.sample.path, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def until(self, kind: type[E], test: Callable[[E], bool] = lambda _: True) -> E:
        """Read events up to the first of the kind that passes; gives it."""
        assert self.process is not None
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = ev.decode(line)
            self.events.append(event)
            if isinstance(event, kind) and test(event):
                return event
        raise AssertionError(f"no {kind.__name__}, but {self.events[-3:]}")

    def answer(self, words: str) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(f"{words}\n".encode())
        self.process.stdin.flush()

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.close()

    def close(self) -> None:
        if self.process is not None:
            if self.process.stdin is not None:
                self.process.stdin.close()
            self.process.wait(timeout=200)
            if self.process.stdout is not None:
                self.process.stdout.close()
            self.process = None

    def again(self, *options: str) -> Said:
        return taskyard("run", "--headless", *options, at=self.sample.path)

    def landed(self, path: str) -> str:
        return self.sample.git("show", f"taskyard/board:{path}", at=self.sample.remote)

    def told(self, words: str) -> bool:
        return any(isinstance(event, ev.Noticed) and words in event.text for event in self.events)


@pytest.fixture
def play(repo: Callable[..., SampleRepository], tmp_path: Path) -> Iterator[Callable[..., Play]]:
    made: list[Play] = []

    def make(*rows: str) -> Play:
        made.append(Play(repo, tmp_path, *rows))
        return made[-1]

    yield make
    for each in made:
        if each.process is not None:
            each.kill()


HEADLESS = (*PROGRAM, "run", "--json")
ATTENDED = (sys.executable, "-m", "tests.cli.attended")


def test_headless_leaves_edits_to_the_next_run_and_heeds_a_mark(play: Callable[..., Play]) -> None:
    yard = play(row("T1"), row("T2"), row("T3"))
    yard.start(*HEADLESS)
    yard.until(ev.AttemptStarted)
    yard.edit(row("T1"), row("T2", status="x"), row("T3", scope="Draw"))
    yard.until(ev.Noticed, lambda event: "was edited (T3): the next run takes that in" in event.text)
    assert yard.told("tasks/board.md says that T2 has landed: it is left out")
    yard.go.touch()
    finished = yard.until(ev.RunFinished)
    assert (finished.status, finished.landed, finished.total) == ("landed", 3, 3)
    assert {event.task for event in yard.events if isinstance(event, ev.TaskLanded)} == {"T1", "T3"}
    assert yard.landed("T3.txt") == "Write T3"


def test_taken_in_without_asking_rows_land_change_and_go(play: Callable[..., Play]) -> None:
    yard = play(row("T1"), row("T2"), row("T3"))
    yard.start(*HEADLESS, "--follow-board", "always")
    yard.until(ev.AttemptStarted)
    edited = [
        row("T1", scope="Draw"),
        row("T3", scope="Draw"),
        row("T4", after="T5"),
        row("T5", priority="9"),
    ]
    yard.edit(*edited, row("T6", after="nobody"))
    yard.until(ev.BoardTaken)
    yard.go.touch()
    finished = yard.until(ev.RunFinished)
    # T2, whose row is gone, is in no sum any more; T6 could not run.
    assert (finished.total, finished.landed, finished.cancelled, finished.exit_status) == (4, 4, 0, 1)
    begun = [event.task for event in yard.events if isinstance(event, ev.AttemptStarted)]
    assert begun == ["T1", "T5", "T3", "T4"]
    assert [yard.landed(f"T{n}.txt") for n in (1, 3, 4, 5)] == ["Write T1", "Draw T3", "Write T4", "Write T5"]
    assert yard.told("line 7: T6 waits for nobody, which the board does not have")
    assert yard.told("2 new rows of tasks/board.md came after the run had begun")
    # The target's board has the rows of the run's base; only their states change.
    assert yard.landed("tasks/board.md") + "\n" == HEAD + row("T1", status="x") + row("T2") + row(
        "T3", status="x"
    )


def test_rows_taken_in_are_done_once_and_marked_when_they_are_committed(play: Callable[..., Play]) -> None:
    yard = play(row("T1"))
    yard.start(*HEADLESS, "--follow-board", "always")
    yard.until(ev.AttemptStarted)
    yard.edit(row("T1"), row("T2"))
    yard.until(ev.BoardTaken)
    yard.go.touch()
    assert yard.until(ev.RunFinished).exit_status == 0
    yard.close()
    pushes = yard.sample.pushes("taskyard/board")
    assert yard.again().status == 0
    assert yard.sample.pushes("taskyard/board") == pushes, "nothing is done twice"
    yard.sample.commit("Rows", {"tasks/board.md": HEAD + row("T1") + row("T2") + row("T3")})
    assert yard.again().status == 0
    assert yard.landed("tasks/board.md") + "\n" == HEAD + "".join(row(f"T{n}", status="x") for n in (1, 2, 3))


def test_a_row_rewritten_during_the_run_is_not_done_again_once_it_is_committed(
    play: Callable[..., Play],
) -> None:
    yard = play(row("T1"), row("T2"))
    yard.start(*HEADLESS, "--follow-board", "always")
    yard.until(ev.AttemptStarted)
    yard.edit(row("T1"), row("T2", scope="Draw"))
    yard.until(ev.BoardTaken)
    yard.go.touch()
    assert yard.until(ev.RunFinished).exit_status == 0
    yard.close()
    assert yard.landed("T2.txt") == "Draw T2"
    yard.sample.commit("Rows", {"tasks/board.md": HEAD + row("T1") + row("T2", scope="Draw") + row("T3")})
    said = yard.again()
    assert said.status == 0, said
    assert "2 tasks have landed on taskyard/board already" in said.out
    marked = row("T1", status="x") + row("T2", scope="Draw", status="x") + row("T3", status="x")
    assert yard.landed("tasks/board.md") + "\n" == HEAD + marked
    # The next words are other work.
    yard.sample.commit("Rows", {"tasks/board.md": HEAD + row("T1") + row("T2") + row("T3")})
    said = yard.again()
    assert "T2 landed on taskyard/board with another scope or verification" in said.out
    assert yard.landed("T2.txt") == "Write T2"


def test_what_is_saved_as_the_run_ends_is_still_taken_in(play: Callable[..., Play]) -> None:
    yard = play(row("T1"))
    yard.start(*HEADLESS, "--follow-board", "always")
    yard.until(ev.AttemptStarted)
    # Whoever waits for the landing to be told may come too late: somebody saves as the remote takes the push.
    saved = yard.sample.path / "saved.md"
    saved.write_text(HEAD + row("T1") + row("T2"))
    hook = yard.sample.remote / "hooks" / "post-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\nmv {saved} {yard.sample.path}/tasks/board.md 2> /dev/null || true\n")
    hook.chmod(0o755)
    yard.go.touch()
    yard.until(ev.RunFinished, lambda event: event.landed == 2)


def test_a_person_takes_the_offer_in_and_a_finished_run_goes_on_with_it(play: Callable[..., Play]) -> None:
    yard = play(row("T1"))
    yard.go.touch()
    yard.start(*ATTENDED)
    yard.until(ev.RunFinished)
    yard.edit(row("T1"), row("T2"))
    offer = yard.until(ev.BoardOffered)
    yard.answer(f"leave {offer.number}")
    yard.until(ev.BoardLeft)
    yard.edit(row("T1"), row("T2"), row("T3", scope="Draw"))
    offer = yard.until(ev.BoardOffered)
    assert [edit.row.id for edit in offer.change.edits] == ["T2", "T3"]
    yard.answer(f"take {offer.number}")
    finished = yard.until(ev.RunFinished)
    assert (finished.landed, finished.total, finished.status) == (3, 3, "landed")
    assert yard.landed("T3.txt") == "Draw T3"


def test_a_running_task_that_is_marked_by_hand_stops_when_that_is_taken_in(play: Callable[..., Play]) -> None:
    yard = play(row("T1"), row("T2", after="T1"))
    yard.start(*ATTENDED)
    yard.until(ev.AttemptStarted)
    yard.edit(row("T1", status="x"), row("T2", after="T1"))
    yard.answer(f"take {yard.until(ev.BoardOffered).number}")
    assert yard.until(ev.AttemptStarted).task == "T2"
    yard.go.touch()
    finished = yard.until(ev.RunFinished)
    assert (finished.landed, finished.cancelled, finished.exit_status) == (2, 0, 0)
    assert [event.task for event in yard.events if isinstance(event, ev.TaskLanded)] == ["T2"]


@pytest.mark.parametrize("when", ["offered", "taken"])
def test_a_kill_around_the_answer_loses_and_doubles_nothing(play: Callable[..., Play], when: str) -> None:
    yard = play(row("T1"), row("T2"), row("T3"))
    yard.start(*ATTENDED)
    yard.until(ev.AttemptStarted)
    yard.edit(row("T1"), row("T3", scope="Draw"), row("T4"))
    offer = yard.until(ev.BoardOffered)
    if when == "taken":
        yard.answer(f"take {offer.number}")
        yard.until(ev.BoardTaken)
    yard.kill()
    yard.go.touch()
    said = yard.again()
    assert said.status == 0, said
    assert "taken up again" in said.out
    assert "all landed: 3 of 3 landed" in said.out
    assert [yard.landed(f"T{n}.txt") for n in (1, 3, 4)] == ["Write T1", "Draw T3", "Write T4"]
    assert yard.landed("tasks/board.md") + "\n" == HEAD + row("T1", status="x") + row("T2") + row(
        "T3", status="x"
    )
    merges = yard.sample.git("log", "--format=%s", "--merges", "taskyard/board", at=yard.sample.remote)
    assert sorted(line.split(":")[0] for line in merges.splitlines()) == ["Land T1", "Land T3", "Land T4"]


def test_a_board_that_is_edited_while_the_dashboard_shows_it(play: Callable[..., Play]) -> None:
    yard = play(row("T1"), row("T2"))
    with Terminal(PROGRAM[1:], width=120, height=40, cwd=yard.sample.path) as terminal:
        terminal.until_shows("0/2 landed")
        yard.edit(row("T1"), row("T2", scope="Draw"), row("T3", after="T2"), row("T4", after="T5"))
        terminal.until_shows("tasks/board.md was edited: 1 changed, 1 new, 1 mistake")
        terminal.press("b")
        terminal.until_shows("+ Draw T2")
        terminal.until_shows("line 6: T4 waits for T5, which the board does not have")
        yard.edit(row("T1"), row("T2", scope="Draw"))
        terminal.until(lambda text: "T3 new" not in text and "+ Draw T2" in text)
        yard.edit(row("T1"), row("T2", scope="Draw"), row("T3", after="T2"))
        terminal.until_shows("T3 new: is worked on")
        terminal.press("y")
        terminal.until_shows("0/3 landed")
        terminal.until(lambda text: "was edited" not in text)
        yard.go.touch()
        terminal.until_shows("run finished: all landed")
        yard.edit(row("T1"), row("T2", scope="Draw"), row("T3", after="T2"), row("T6"))
        terminal.until_shows("was edited: 1 new")
        terminal.press("b")
        terminal.until_shows("T6 new")
        terminal.press("n")
        terminal.until_shows("run finished: all landed")
        terminal.press("q")
        assert terminal.end() == 0
        assert terminal.restored
    assert [yard.landed(f"T{n}.txt") for n in (1, 2, 3)] == ["Write T1", "Draw T2", "Write T3"]
