"""Following a board that somebody edits: what is offered, taken in, left, and told; over a real repository."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from engine import events as ev
from engine import following
from engine.board import Board, read_board
from engine.bus import Bus
from engine.following import Follower, Mode
from engine.model import Plan, TaskState
from engine.project import Project, open_project
from engine.rows import BoardChange, EditKind
from engine.settings import load_settings
from tests.sample_repository import SampleRepository
from tests.samples import begun, started

HEAD = "| ID | Scope | Status | Branch | Verification | After |\n|---|---|---|---|---|---|\n"
MakeRepo = Callable[..., SampleRepository]


def row(name: str, scope: str = "do", status: str = "[ ]", after: str = "", check: str = "`true`") -> str:
    return f"| {name} | {scope} {name} | {status} | | {check} | {after} |\n"


class Desk:
    """A run's state, its board in a checkout, and the follower between them."""

    def __init__(self, sample: SampleRepository) -> None:
        self.path = sample.path / "tasks" / "board.md"
        self.settings = load_settings(sample.path, environ={})
        self.bus = Bus(clock=lambda: 100.0)
        self.events: list[ev.Event] = []
        self.bus.subscribe(self.events.append)
        self.running: set[str] = set()
        self.taken: list[BoardChange] = []

    async def open(self, mode: Mode) -> Follower:
        project = await open_project(self.settings, os.environ)
        self.bus.emit(
            started(*project.rows.tasks, at=100.0, board=project.board_path, target=project.preflight.target)
        )
        follower = self.follow(project, mode)
        await self.look()
        return follower

    def follow(self, project: Project, mode: Mode) -> Follower:
        self.follower = Follower(
            project, self.bus, mode=mode, runs=self.running.__contains__, taken=self.taken.append
        )
        return self.follower

    async def look(self) -> None:
        """As often as it takes until an edit counts."""
        await self.follower.look()
        await self.follower.look()

    async def edit(self, *rows: str) -> None:
        self.path.write_text(HEAD + "".join(rows))
        await self.look()

    @property
    def offered(self) -> list[str] | None:
        """The offer as "kind id", or None when there is none."""
        offer = self.bus.state.offer
        return None if offer is None else [f"{edit.kind} {edit.row.id}" for edit in offer.change.edits]

    @property
    def number(self) -> int:
        offer = self.bus.state.offer
        assert offer is not None
        return offer.number

    @property
    def told(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, ev.Noticed)]

    def begin(self, name: str) -> None:
        self.running.add(name)
        self.bus.emit(begun(name, at=100.0))


def held_up(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Let reading the board take long: one event says that it has begun, the other lets it go on."""
    begun, go_on = threading.Event(), threading.Event()

    def read(path: Path) -> Board:
        begun.set()
        go_on.wait(30)
        return read_board(path)

    monkeypatch.setattr(following, "read_board", read)
    return begun, go_on


@pytest.fixture
def desk(repo: MakeRepo) -> Desk:
    return Desk(repo({"tasks/board.md": HEAD + row("A") + row("B")}))


async def test_edits_are_offered_once_and_again_when_they_grow(desk: Desk) -> None:
    await desk.open("ask")
    assert desk.offered is None
    await desk.edit(row("A"), row("B"), row("C"))
    assert (desk.offered, desk.number) == (["added C"], 1)
    await desk.look()
    assert desk.number == 1
    await desk.edit(row("A"), row("C"), row("D", after="C"))
    assert (desk.offered, desk.number) == (["added C", "added D", "removed B"], 2)
    await desk.edit(row("A"), row("B"))
    assert desk.offered is None
    assert desk.taken == []


async def test_a_file_that_is_still_being_written_is_not_read(desk: Desk) -> None:
    await desk.open("ask")
    desk.path.write_text(HEAD + row("A"))
    await desk.follower.look()
    desk.path.write_text(HEAD + row("A") + row("B") + row("C"))
    await desk.follower.look()
    assert desk.offered is None
    await desk.follower.look()
    assert desk.offered == ["added C"]


async def test_the_last_look_does_not_wait(desk: Desk) -> None:
    await desk.open("ask")
    desk.path.write_text(HEAD + row("A") + row("B") + row("C"))
    await desk.follower.look(last=True)
    assert desk.offered == ["added C"]


async def test_the_last_look_waits_for_what_the_one_before_it_still_reads(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.open("always")
    desk.path.write_text(HEAD + row("A") + row("B") + row("C"))
    await desk.follower.look()
    begun, go_on = held_up(monkeypatch)
    look = asyncio.create_task(desk.follower.look())
    await asyncio.to_thread(begun.wait, 30)
    last = asyncio.create_task(desk.follower.look(last=True))
    await asyncio.sleep(0)
    go_on.set()
    await last
    assert [edit.row.id for change in desk.taken for edit in change.edits] == ["C"]
    await look
    assert len(desk.taken) == 1


async def test_an_edit_that_is_being_read_as_the_one_before_is_left_is_offered(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = await desk.open("ask")
    await desk.edit(row("A"), row("B"), row("C"))
    desk.path.write_text(HEAD + row("A") + row("B") + row("C") + row("D"))
    await follower.look()
    begun, go_on = held_up(monkeypatch)
    look = asyncio.create_task(follower.look())
    await asyncio.to_thread(begun.wait, 30)
    follower.leave(desk.number)
    go_on.set()
    await look
    assert desk.offered == ["added C", "added D"]


async def test_only_the_offer_that_was_seen_is_taken_in(desk: Desk) -> None:
    follower = await desk.open("ask")
    await desk.edit(row("A"), row("B"), row("C"))
    await desk.edit(row("A"), row("B"), row("C"), row("D"))
    follower.take(1)
    assert (desk.taken, desk.offered) == ([], ["added C", "added D"])
    follower.take(2)
    (change,) = desk.taken
    assert [edit.row.id for edit in change.edits] == ["C", "D"]
    assert desk.offered is None
    assert desk.bus.state.view("D").state is TaskState.WAITING
    await desk.look()
    assert desk.offered is None
    follower.take(2)
    assert len(desk.taken) == 1


async def test_what_is_left_is_offered_again_only_with_the_next_edit(desk: Desk) -> None:
    follower = await desk.open("ask")
    await desk.edit(row("A"), row("B"), row("C"))
    follower.leave(desk.number)
    assert desk.offered is None
    await desk.look()
    assert desk.offered is None
    await desk.edit(row("A"), row("B"), row("C"), row("D"))
    assert desk.offered == ["added C", "added D"]


async def test_an_offer_follows_the_tasks_that_it_is_about(desk: Desk) -> None:
    follower = await desk.open("ask")
    await desk.edit(row("A", scope="another"), row("B"))
    assert desk.offered == ["changed A"]
    desk.begin("A")
    await desk.look()
    assert desk.offered == ["later A"]
    follower.take(desk.number)
    view = desk.bus.state.view("A")
    assert (view.task.scope, view.revised and view.revised.scope) == ("do A", "another A")
    assert any("A has begun, and keeps the words it began with" in text for text in desk.told)
    desk.running.clear()
    desk.bus.emit(ev.TaskEnded(at=100.0, task="A", state=TaskState.FAILED, reason="red"))
    desk.bus.emit(ev.TaskReopened(at=100.0, task="A"))
    assert (desk.bus.state.view("A").task.scope, desk.bus.state.view("A").revised) == ("another A", None)


async def test_what_the_run_taken_up_again_forgot_is_offered_again(desk: Desk) -> None:
    await desk.open("ask")
    await desk.edit(row("A"), row("B"), row("C"))
    desk.bus.emit(ev.RunResumed(at=101.0, host="here", pid=1))
    assert desk.offered is None
    await desk.look()
    assert desk.offered == ["added C"]


async def test_a_row_marked_by_hand_is_heeded_at_once_but_a_running_task_only_when_asked(desk: Desk) -> None:
    follower = await desk.open("ask")
    desk.begin("A")
    await desk.edit(row("A", status="[x]"), row("B", status="[X]"))
    assert desk.bus.state.view("B").state is TaskState.LANDED
    assert desk.offered == ["landed A"]
    follower.take(desk.number)
    assert desk.bus.state.view("A").state is TaskState.LANDED
    assert desk.told == ["tasks/board.md says that B has landed: it is left out"]


async def test_what_another_works_on_stays_with_it_whatever_the_board_says(desk: Desk) -> None:
    await desk.open("always")
    for name in "AB":
        desk.running.add(name)
        desk.bus.emit(ev.TaskElsewhere(at=100.0, task=name, host="there", pid=7))
    await desk.edit(row("A", status="[x]"))
    views = [desk.bus.state.view(name) for name in "AB"]
    assert [view.state for view in views] == [TaskState.ELSEWHERE] * 2
    assert [view.put_off and view.put_off.kind for view in views] == [EditKind.LANDED, EditKind.REMOVED]
    later = "what the board says of it counts once nobody does"
    assert desk.told == [f"{name} is worked on at there, process 7: {later}" for name in "AB"]
    await desk.look()
    assert len(desk.told) == 2
    await desk.edit(row("A"), row("B"))
    assert [desk.bus.state.view(name).put_off for name in "AB"] == [None, None]
    await desk.edit(row("A"))
    desk.bus.emit(ev.TaskLanded(at=101.0, task="B", commit="b" * 40, train=0, by="there:7"))
    assert (desk.bus.state.view("B").state, desk.bus.state.view("B").put_off) == (TaskState.LANDED, None)


async def test_mistakes_are_told_by_line_and_the_rest_is_taken_in(desk: Desk) -> None:
    follower = await desk.open("ask")
    rows = [row("A"), row("B"), row("C", after="nobody"), row("D"), row("E", after="F"), row("F", after="E")]
    await desk.edit(*rows, row("G", check=""))
    assert desk.offered == ["added D"]
    offer = desk.bus.state.offer
    assert offer is not None
    assert offer.change.problems == (
        "line 5: C waits for nobody, which the board does not have",
        "line 7: E, F wait for each other in a circle (lines 7, 8)",
        "line 8: E, F wait for each other in a circle (lines 7, 8)",
        "line 9: G has no verification command: put one into its Verification cell in backticks, "
        "or set [verify] command",
    )
    follower.take(desk.number)
    told = [text for text in desk.told if "line" in text]
    assert told == [f"tasks/board.md, {problem}" for problem in offer.change.problems]
    assert desk.bus.state.refused == tuple(f"tasks/board.md, {problem}" for problem in offer.change.problems)
    assert desk.bus.state.find("C") is None
    await desk.edit(*rows, row("nobody"))
    assert desk.offered == ["added C", "added nobody"]
    assert len(desk.bus.state.refused) == 4, "C cannot run until somebody has said yes"
    follower.take(desk.number)
    circle = "E, F wait for each other in a circle (lines 7, 8)"
    assert desk.bus.state.refused == tuple(f"tasks/board.md, line {line}: {circle}" for line in (7, 8))


async def test_a_row_with_a_new_mistake_keeps_its_task(desk: Desk) -> None:
    await desk.open("ask")
    await desk.edit(row("A"), row("B", after="nobody"))
    assert desk.offered is None
    assert desk.bus.state.view("B").state is TaskState.WAITING
    assert desk.told == ["tasks/board.md, line 4: B waits for nobody, which the board does not have"]


async def test_a_board_that_is_gone_or_garbage_is_told_once_and_changes_nothing(desk: Desk) -> None:
    await desk.open("ask")
    await desk.edit(row("A"), row("B"), row("C"))
    desk.path.unlink()
    await desk.look()
    await desk.look()
    assert desk.offered is None
    desk.path.write_text("no table\n")
    await desk.look()
    told = desk.told
    assert len(told) == 2
    assert told[0] == f"there is no board at {desk.path}; the run goes on with the rows it knows"
    assert "holds no task board" in told[1]
    await desk.edit(row("A"), row("B"), row("C"))
    assert desk.offered == ["added C"]


async def test_always_takes_in_without_asking(desk: Desk) -> None:
    await desk.open("always")
    await desk.edit(row("A"), row("C"))
    assert [edit.row.id for change in desk.taken for edit in change.edits] == ["C", "B"]
    assert desk.bus.state.view("B").state is TaskState.CANCELLED
    await desk.edit(row("A"), row("B"), row("C"))
    assert desk.bus.state.view("B").state is TaskState.WAITING
    assert not any(isinstance(event, ev.BoardOffered) for event in desk.events)


async def test_never_says_so_once_for_each_edit(desk: Desk) -> None:
    await desk.open("never")
    many = [row(f"N{number}") for number in range(7)]
    await desk.edit(row("A"), row("B"), *many)
    await desk.look()
    told = (
        "tasks/board.md was edited (N0, N1, N2, N3, N4 and 2 more): the next run takes that in "
        "(with --follow-board always, this one would)"
    )
    assert desk.told == [told]
    assert desk.taken == []


async def test_a_row_that_goes_while_its_task_runs_goes_on(desk: Desk) -> None:
    await desk.open("ask")
    desk.begin("A")
    await desk.edit(row("B"))
    assert desk.offered is None
    assert desk.bus.state.view("A").state is TaskState.RUNNING
    assert desk.told == ["the row of A is gone, but it has begun, so it goes on: cancel it if it should not"]


async def test_new_rows_that_are_not_committed_say_what_becomes_of_their_mark(desk: Desk) -> None:
    await desk.open("always")
    await desk.edit(row("A"), row("B"), row("C"), row("D"))
    assert desk.told == [
        "2 new rows of tasks/board.md came after the run had begun: the work lands on taskyard/board like any "
        "other, and is marked on its board with what lands next once the rows are committed"
    ]


async def test_whoever_starts_an_interrupted_run_again_means_the_board_as_it_is(desk: Desk) -> None:
    await desk.open("ask")
    desk.begin("A")
    desk.bus.emit(ev.PlanMade(at=100.0, task="A", attempt=1, plan=Plan(("step",))))
    await desk.edit(row("A", scope="another"), row("C"))
    assert desk.offered == ["later A", "added C", "removed B"]
    desk.running.clear()
    desk.bus.emit(ev.RunResumed(at=200.0, host="here", pid=2))
    follower = desk.follow(await open_project(desk.settings, os.environ), "ask")
    follower.take_up()
    view = desk.bus.state.view("A")
    assert (view.task.scope, view.plan, view.over) == ("another A", None, True)
    assert desk.bus.state.view("B").problem == "removed from the board"
    assert desk.bus.state.view("C").state is TaskState.WAITING
    await desk.look()
    assert desk.offered is None
