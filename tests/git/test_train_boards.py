"""The board on its way to the target: combined by its rows, whoever wrote beside whom, and no task's clash."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from engine.git.train import Cargo, Train
from engine.model import BoardStatus
from tests.git.trains import BOARD, Yard, board, landed, old_git

Open = Callable[..., Awaitable[Yard]]


def rows(here: Yard) -> dict[str, str]:
    """The box of each row on the target's board, in the rows' order."""
    cells = [line.split("|") for line in here.at_remote(BOARD).splitlines()[2:]]
    return {row[1].strip(): row[3].strip() for row in cells}


async def with_new_rows(here: Yard) -> None:
    """T1 to T3 have landed, and beside their marks somebody has added T4 to T6 and committed them on main."""
    assert (
        len(landed(await here.land(*[await here.cargo(f"T{n}", {f"f{n}": "x\n"}) for n in (1, 2, 3)]))) == 3
    )
    here.base = here.sample.commit("More to do", {BOARD: board(6)})
    here.sample.git("push", "--quiet", "origin", "main")


async def begun(here: Yard, run: str) -> Train:
    train = here.new_train(run=run, space=run, tree=here.root / f"_train-{run}")
    await train.start()
    return train


async def done(here: Yard, train: Train, task_id: str, files: Mapping[str, str]) -> Cargo:
    return await here.cargo(task_id, files, base=train.tip)


@pytest.mark.parametrize("version", ["", "2.35.1"])
async def test_two_that_join_after_rows_were_added_beside_the_marks_land_at_once(
    yard: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    if version:
        old_git(tmp_path / "old", monkeypatch, version)
    here = await yard()
    await with_new_rows(here)
    one, two = await begun(here, "r1"), await begun(here, "r2")
    of_one = [await done(here, one, "T4", {"f4": "x\n"})]
    of_two = [await done(here, two, name, {name: "x\n"}) for name in ("T5", "T6")]
    first, second = await one.land(of_one), await two.land(of_two)
    assert (landed(first), landed(second)) == (["T4"], ["T5", "T6"])
    assert first.returned == second.returned == ()
    assert rows(here) == dict.fromkeys((f"T{n}" for n in range(1, 7)), "[x]")


async def test_what_another_verified_over_its_own_ground_lands_when_it_is_taken_over(yard: Open) -> None:
    here = await yard()
    await with_new_rows(here)
    of_the_dead = await done(here, await begun(here, "r1"), "T4", {"f4": "x\n"})
    other = await begun(here, "r2")
    assert landed(await other.land([await done(here, other, "T5", {"f5": "x\n"})])) == ["T5"]
    assert landed(await other.land([of_the_dead])) == ["T4"]
    assert rows(here) == {**dict.fromkeys((f"T{n}" for n in range(1, 6)), "[x]"), "T6": "[ ]"}


async def test_a_target_that_moves_before_the_base_is_in_it_costs_no_try(yard: Open) -> None:
    here = await yard(4)
    first = await here.cargo("T1", {"f1": "x\n"})
    assert landed(await here.land(first, also={"T4": BoardStatus.FAILED})) == ["T1"]
    # It began from the old board, and lands beside the one that has the new rows.
    behind = await begun(here, "r1")
    late = await done(here, behind, "T2", {"f2": "x\n"})
    here.base = here.sample.commit("More to do", {BOARD: board(6)})
    ahead = await begun(here, "r2")
    waiting = await done(here, ahead, "T5", {"f5": "x\n"})
    assert landed(await behind.land([late], also={"T3": BoardStatus.FAILED})) == ["T2"]
    result = await ahead.land([waiting])
    assert (landed(result), result.returned) == (["T5"], ())
    assert rows(here) == {"T1": "[x]", "T2": "[x]", "T3": "[!]", "T4": "[!]", "T5": "[x]", "T6": "[ ]"}


async def test_rows_that_two_clones_added_at_the_same_place_are_all_kept(yard: Open, tmp_path: Path) -> None:
    here = await yard()
    await with_new_rows(here)
    one = await begun(here, "r1")
    cargo = await done(here, one, "T4", {"f4": "x\n"})
    assert landed(await one.land([cargo])) == ["T4"]
    # Another clone has gone on from the commit before: other rows, and one in other words.
    git = here.sample.git
    git("switch", "--quiet", "--detach", "HEAD~1")
    text = board(3).replace("Make 2", "Make the second")
    here.base = here.sample.commit("Theirs", {BOARD: text + "| W1 | Make W | [ ] | | `true` |\n"})
    two = await begun(here, "r2")
    result = await two.land([await done(here, two, "W1", {"w1": "x\n"})])
    assert (landed(result), result.returned) == (["W1"], ())
    states = rows(here)
    assert {name for name, box in states.items() if box == "[x]"} == {"T1", "T2", "T3", "T4", "W1"}
    assert set(states) == {"T1", "T2", "T3", "T4", "T5", "T6", "W1"}
    assert "Make the second" in here.at_remote(BOARD)


async def test_a_real_clash_beside_that_of_the_boards_is_told_without_the_board(yard: Open) -> None:
    here = await yard()
    await with_new_rows(here)
    one, two = await begun(here, "r1"), await begun(here, "r2")
    of_one = await done(here, one, "T4", {"shared.txt": "one\n2\n3\n"})
    of_two = await done(here, two, "T5", {"shared.txt": "two\n2\n3\n"})
    assert landed(await one.land([of_one])) == ["T4"]
    result = await two.land([of_two])
    assert [(item.task_id, item.other, item.paths) for item in result.returned] == [
        ("T5", "T4", ("shared.txt",))
    ]
    assert "board" not in result.returned[0].feedback
