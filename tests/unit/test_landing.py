"""The queue for the train, with a real train: every passenger hears what became of it, whatever fails."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from engine import events as ev
from engine.board import combined, with_statuses
from engine.bus import Bus
from engine.errors import StoreError
from engine.events import Event
from engine.git.repository import Repository
from engine.git.train import Cargo, Checked, Train
from engine.git.upstream import Upstream
from engine.landing import Kept, Landed, Lander, SentBack, Urgency
from engine.model import BoardStatus
from engine.state import RunState
from tests.sample_repository import SampleRepository

BOARD = "| ID | Scope | Status | Branch | Verification |\n|---|---|---|---|---|\n" + "".join(
    f"| {name} | do {name} | [ ] | | `true` |\n" for name in "ABC"
)


class FullDisk:
    """A journal that can take no more promises."""

    def append(self, event: Event) -> None:
        return None

    def commit(self, event: Event) -> Awaitable[None]:
        raise StoreError("the journal cannot be written")


@pytest.fixture
async def yard(repo: Callable[..., SampleRepository], tmp_path: Path) -> Any:
    sample = repo({"tasks/board.md": BOARD, "shared.txt": "line\n"})
    repository = await Repository.open(sample.path, environ=os.environ)
    verdicts: list[Checked] = []

    async def check(tree: Path, commands: Sequence[str]) -> Checked:
        return verdicts.pop(0) if verdicts else Checked(True)

    async def furnish(*checked: Checked, **options: Any) -> tuple[Lander, Bus, SampleRepository]:
        verdicts.extend(checked)
        train = Train(
            repository,
            Upstream(repository, "origin", "taskyard/board", timeout=30.0),
            base=sample.git("rev-parse", "HEAD"),
            run="r1",
            board="tasks/board.md",
            tree=tmp_path / "trees" / "_train",
            verify=check,
            set_statuses=with_statuses,
            combine_boards=combined,
        )
        await train.start()
        bus = Bus()
        given: dict[str, Any] = {
            "max_batch": 10,
            "max_age": 60.0,
            "trains_before": 0,
            "states": dict,
            "urgency": lambda queued, aboard: Urgency.NONE,
        }
        return Lander(train, bus, **(given | options)), bus, sample

    return furnish


def cargo(sample: SampleRepository, name: str, files: dict[str, str]) -> Cargo:
    sample.git("checkout", "--quiet", "--detach", "main")
    commit = sample.commit(f"{name}: work", files)
    sample.git("update-ref", f"refs/taskyard/queue/taskyard-board/{name.lower()}", commit)
    sample.git("checkout", "--quiet", "main")
    return Cargo(name, f"do {name}", commit, "true", tuple(files))


async def test_a_full_train_leaves_and_each_passenger_hears_where_it_is(yard: Any) -> None:
    lander, bus, sample = await yard(max_batch=2)
    heard: list[Event] = []
    bus.subscribe(heard.append)
    first, second = cargo(sample, "A", {"a.txt": "a\n"}), cargo(sample, "B", {"b.txt": "b\n"})
    answers = await asyncio.gather(lander.land(first), lander.land(second))
    assert answers == [Landed(first.commit, 1), Landed(second.commit, 1)]
    assert sample.pushes("taskyard/board") == 1
    names = [type(event).__name__ for event in heard if not isinstance(event, ev.TrainMoved)]
    assert names == ["TrainDeparted", "Pushed", "TrainArrived"]
    await lander.close()


async def test_those_who_clash_are_told_with_whom(yard: Any) -> None:
    lander, _, sample = await yard(max_batch=2)
    answers = await asyncio.gather(
        lander.land(cargo(sample, "A", {"shared.txt": "mine\n"})),
        lander.land(cargo(sample, "B", {"shared.txt": "no, mine\n"})),
    )
    landed = [answer for answer in answers if isinstance(answer, Landed)]
    back = [answer for answer in answers if isinstance(answer, SentBack)]
    assert (len(landed), len(back)) == (1, 1)
    assert back[0].paths == ("shared.txt",)
    assert back[0].feedback
    await lander.close()


async def test_a_journal_that_fails_leaves_no_passenger_waiting(yard: Any) -> None:
    lander, bus, sample = await yard(max_batch=1)
    bus.attach(FullDisk(), RunState())
    load = cargo(sample, "A", {"a.txt": "a\n"})
    async with asyncio.timeout(30):
        assert await lander.land(load) == Landed(load.commit, 1)


async def test_a_remote_that_is_gone_keeps_the_cargo_and_says_so(yard: Any) -> None:
    lander, bus, sample = await yard(max_batch=1)
    sample.remote.rename(sample.remote.with_name("gone"))
    answer = await lander.land(cargo(sample, "A", {"a.txt": "a\n"}))
    assert isinstance(answer, Kept)
    assert answer.problem
    assert bus.state.snapshot().trains[0].stage == "failed"


async def test_cargo_that_nobody_waits_for_any_more_does_not_go_along(yard: Any) -> None:
    lander, _, sample = await yard()
    old, new = cargo(sample, "A", {"old.txt": "a\n"}), cargo(sample, "A", {"new.txt": "a\n"})
    gone = asyncio.ensure_future(lander.land(old))
    await asyncio.sleep(0)
    gone.cancel()
    waiting = asyncio.ensure_future(lander.land(new))
    await asyncio.sleep(0)
    lander.depart()
    assert await waiting == Landed(new.commit, 1)
    files = sample.git("ls-tree", "--name-only", "taskyard/board", at=sample.remote).split()
    assert ("new.txt" in files, "old.txt" in files) == (True, False)


async def test_a_train_leaves_when_somebody_asks(yard: Any) -> None:
    lander, _, sample = await yard()
    load = cargo(sample, "A", {"a.txt": "a\n"})
    waiting = asyncio.ensure_future(lander.land(load))
    await asyncio.sleep(0)
    assert lander.figures().queued == 1
    lander.depart()
    assert await waiting == Landed(load.commit, 1)
    assert lander.figures().queued == 0
    assert sample.pushes("taskyard/board") == 1


async def test_a_flaky_check_is_told(yard: Any) -> None:
    lander, bus, sample = await yard(Checked(False, "exit status 3"), max_batch=1)
    load = cargo(sample, "A", {"a.txt": "a\n"})
    assert await lander.land(load) == Landed(load.commit, 1)
    (told,) = bus.state.snapshot().notices
    assert told.level == "warning"
    assert (
        told.text
        == "the check of train 1 is flaky: it failed (exit status 3), and passed over the same files"
    )
    await lander.close()


async def test_failed_rows_are_marked_once_and_without_a_train(yard: Any) -> None:
    states = {"C": BoardStatus.FAILED}
    lander, bus, sample = await yard(states=lambda: states)
    heard: list[Event] = []
    bus.subscribe(heard.append)
    await lander.mark(states)
    await lander.mark(states)
    assert sample.pushes("taskyard/board") == 1
    board = sample.git("show", "taskyard/board:tasks/board.md", at=sample.remote)
    assert "| C | do C | [!] |" in board
    assert [(type(event), event.train) for event in heard] == [(ev.Pushed, 0)]  # type: ignore[attr-defined]
    totals = bus.state.totals
    assert (totals.trains, totals.pushes, totals.marks) == (0, 1, 1)
    load = cargo(sample, "A", {"a.txt": "a\n"})
    answer = asyncio.ensure_future(lander.land(load))
    await asyncio.sleep(0)
    lander.depart()
    assert await answer == Landed(load.commit, 1)
    assert (bus.state.totals.pushes, bus.state.totals.marks) == (2, 1)
    await lander.close()


async def test_a_board_that_cannot_be_marked_is_told(yard: Any) -> None:
    states = {"C": BoardStatus.FAILED}
    lander, bus, sample = await yard(states=lambda: states)
    sample.remote.rename(sample.remote.with_name("gone"))
    await lander.mark(states)
    (told,) = bus.state.snapshot().notices
    assert told.level == "error"
    assert told.text.startswith("the board cannot be marked: origin cannot be reached")
    assert bus.state.snapshot().trains == ()


async def test_a_train_that_brings_only_states_pushes_for_nobody(yard: Any) -> None:
    red = Checked(False, "exit status 1")
    states = {"C": BoardStatus.FAILED}
    lander, bus, sample = await yard(red, red, max_batch=1, states=lambda: states)
    assert isinstance(await lander.land(cargo(sample, "A", {"a.txt": "a\n"})), SentBack)
    assert sample.pushes("taskyard/board") == 1
    assert (bus.state.totals.trains, bus.state.totals.marks) == (0, 1)
    await lander.mark(states)
    assert sample.pushes("taskyard/board") == 1
    await lander.close()


async def test_a_train_that_is_ended_at_the_close_answers_whoever_waits(yard: Any) -> None:
    lander, bus, sample = await yard()
    heard: list[Event] = []
    bus.subscribe(heard.append)
    async with lander._train._gate.hold():  # It stands as long as another lands.
        waiting = asyncio.ensure_future(lander.land(cargo(sample, "A", {"a.txt": "a\n"})))
        await asyncio.sleep(0)
        lander.depart()
        await asyncio.sleep(0)
        await lander.close(0.0)
        assert await waiting == Kept("the run stops")
    assert [type(event) for event in heard] == [ev.TrainDeparted]
