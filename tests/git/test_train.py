"""The train: one push for many, the good land, the others hear why."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.errors import GitError
from engine.model import BoardStatus
from tests.git.test_worktrees import state
from tests.git.trains import BOARD, TARGET, Yard, board, clone, landed

Open = Callable[..., Awaitable[Yard]]


async def test_many_branches_land_by_one_push(yard: Open) -> None:
    here = await yard(5)
    cargo = [await here.cargo(f"T{n}", {f"f{n}.txt": f"{n}\n"}) for n in range(1, 6)]
    result = await here.land(*cargo)
    assert landed(result) == ["T1", "T2", "T3", "T4", "T5"]
    assert (result.pushed, result.problem, result.returned, result.verifications) == (True, "", (), 1)
    assert here.sample.pushes(TARGET) == 1
    assert here.at_remote("f3.txt") == "3"
    assert here.at_remote(BOARD).count("[x]") == 5
    tip = here.sample.git("rev-parse", TARGET, at=here.sample.remote)
    assert tip == result.tip == here.train.tip
    assert here.sample.git("diff", "--name-only", f"{tip}^", tip) == BOARD
    assert [here.lands_of(f"T{n}") for n in range(1, 6)] == [1] * 5
    assert here.sample.git(
        "log", "--merges", "-1", "--format=%s|%(trailers:key=Taskyard-Task,valueonly)", tip
    ) == ("Land T5: Make T5|T5")
    assert here.refs("refs/taskyard/queue") == []
    assert len(here.refs("refs/taskyard/landed")) == 5
    stages = [stage for stage, _ in here.steps]
    assert stages == ["combine", "verify", "board", "push", "landed"]


@pytest.mark.parametrize("count", [1, 3])
async def test_any_scope_can_land(yard: Open, count: int) -> None:
    here = await yard(count)
    cargo = [await here.cargo(f"T{n}", {f"f{n}.txt": f"{n}\n"}) for n in range(1, count + 1)]
    result = await here.land(*(replace(item, scope="Ring\0 the \x07bell\x1b[2J") for item in cargo))
    assert landed(result) == [item.task_id for item in cargo]
    assert f"Land T{count}: Ring the bell[2J" in here.sample.git(
        "log", "--merges", "--format=%s", TARGET, at=here.sample.remote
    )


async def test_the_users_checkout_is_not_touched(yard: Open) -> None:
    here = await yard()
    sample = here.sample
    cargo = [await here.cargo("T1", {"f.txt": "1\n"}), await here.cargo("T2", {"shared.txt": "9\n2\n3\n"})]
    sample.write({"shared.txt": "dirty\n", "staged.txt": "s\n", "untracked.txt": "u\n"})
    sample.git("add", "staged.txt")
    (sample.path / ".git" / "index.lock").touch()
    before = state(sample.path)
    assert landed(await here.land(*cargo)) == ["T1", "T2"]
    assert state(sample.path) == before
    assert sample.git("stash", "list") == ""
    assert sample.git("rev-parse", "main") == here.base


async def test_the_later_of_two_that_clash_is_returned_with_the_others_name(yard: Open) -> None:
    here = await yard()
    one = await here.cargo("T1", {"shared.txt": "one\n2\n3\n"})
    two = await here.cargo("T2", {"shared.txt": "two\n2\n3\n"})
    three = await here.cargo("T3", {"f.txt": "3\n"})
    result = await here.land(one, two, three)
    assert landed(result) == ["T1", "T3"]
    (back,) = result.returned
    assert (back.task_id, back.other, back.paths) == ("T2", "T1", ("shared.txt",))
    assert "shared.txt" in back.feedback
    assert "T1" in back.feedback
    assert here.sample.git("cat-file", "-t", two.commit) == "commit"
    # The next train finds who landed it by the trailer.
    result = await here.land(two)
    assert result.returned[0].other == "T1"
    assert not result.pushed
    again = await here.cargo("T2", {"shared.txt": "one and two\n2\n3\n"})
    assert landed(await here.land(again)) == ["T2"]
    assert here.sample.pushes(TARGET) == 2


async def test_who_landed_the_lines_is_named_and_not_who_edits_others_of_that_file(yard: Open) -> None:
    here = await yard(4)
    lines = [f"{n}\n" for n in range(12)]

    def edited(at: int, text: str) -> dict[str, str]:
        return {"long.txt": "".join([*lines[:at], f"{text}\n", *lines[at + 1 :]])}

    await here.land(await here.cargo("T1", {"long.txt": "".join(lines)}))
    old = here.train.tip
    four = await here.cargo("T4", edited(11, "four"))
    await here.land(await here.cargo("T2", edited(11, "two")))
    three = await here.cargo("T3", edited(0, "three"), base=old)
    (back,) = (await here.land(three, four)).returned
    assert (back.task_id, back.other) == ("T4", "T2")
    assert back.reason == "clashes with T2: long.txt"


async def test_the_member_that_breaks_the_combination_is_found_and_the_rest_lands(yard: Open) -> None:
    here = await yard(8)
    cargo = [
        await here.cargo(f"T{n}", {"left" if n == 3 else "right" if n == 6 else f"f{n}": "x\n"})
        for n in range(1, 9)
    ]
    result = await here.land(*cargo)
    assert landed(result) == ["T1", "T2", "T3", "T4", "T5", "T7", "T8"]
    (back,) = result.returned
    assert back.task_id == "T6"
    assert back.reason == "breaks the check together with one of T3, T4, T5: exit status 1"
    assert "together with one of T3, T4, T5 it makes the verification fail" in back.feedback
    assert result.verifications <= 2 + 2 * math.log2(8)
    assert here.sample.pushes(TARGET) == 1
    assert any(stage == "bisect" for stage, _ in here.steps)


async def test_the_other_of_a_pair_is_named_where_runs_are_left_to_find_it(yard: Open) -> None:
    here = await yard(4)
    names = ["left", "f2", "f3", "right"]
    cargo = [await here.cargo(f"T{n}", {name: "x\n"}) for n, name in enumerate(names, 1)]
    result = await here.land(*cargo)
    (back,) = result.returned
    assert (back.task_id, back.other) == ("T4", "T1")
    assert back.reason == "breaks the check together with T1: exit status 1"
    assert result.verifications <= 2 + 2 * math.log2(4)


async def test_what_breaks_the_check_by_itself_blames_nobody_else(yard: Open) -> None:
    here = await yard(4)
    names = ["f1", "f2", "f3", "broken"]
    cargo = [await here.cargo(f"T{n}", {name: "x\n"}) for n, name in enumerate(names, 1)]
    (back,) = (await here.land(*cargo)).returned
    assert (back.task_id, back.other) == ("T4", "")
    assert back.reason == "breaks the check on the newest tip: exit status 1"


async def test_who_clashed_with_one_that_goes_lands_after_all(yard: Open) -> None:
    here = await yard()
    one = await here.cargo("T1", {"shared.txt": "one\n2\n3\n", "broken": "x\n"})
    two = await here.cargo("T2", {"shared.txt": "two\n2\n3\n"})
    result = await here.land(one, two)
    assert landed(result) == ["T2"]
    assert [item.task_id for item in result.returned] == ["T1"]
    assert here.at_remote("shared.txt").startswith("two")


@pytest.mark.parametrize("bad", [{1}, {2, 5}, {1, 2, 6}, {1, 2, 3, 4, 5, 6}])
async def test_whoever_is_bad_all_the_good_land_at_once(yard: Open, bad: set[int]) -> None:
    here = await yard(6)
    here.train = here.new_train(check="! ls bad-*")
    cargo = [await here.cargo(f"T{n}", {f"bad-{n}" if n in bad else f"f{n}": "x\n"}) for n in range(1, 7)]
    result = await here.land(*cargo)
    assert landed(result) == [f"T{n}" for n in range(1, 7) if n not in bad]
    assert sorted(item.task_id for item in result.returned) == [f"T{n}" for n in sorted(bad)]
    assert here.sample.pushes(TARGET) == (1 if len(bad) < 6 else 0)


async def test_20_tasks_with_a_clash_and_a_breaker_need_two_trains(yard: Open) -> None:
    here = await yard(20)
    files = {n: {f"f{n}": "x\n"} for n in range(1, 21)} | {
        4: {"shared.txt": "four\n2\n3\n"},
        9: {"shared.txt": "nine\n2\n3\n"},
        13: {"broken": "x\n"},
    }
    cargo = [await here.cargo(f"T{n}", files[n]) for n in range(1, 21)]
    sample = here.sample
    sample.write({"shared.txt": "dirty\n", "staged.txt": "s\n", "untracked.txt": "u\n"})
    sample.git("add", "staged.txt")
    before = state(sample.path)
    first = await here.land(*cargo)
    assert len(first.landed) == 18
    assert {item.task_id for item in first.returned} == {"T9", "T13"}
    # One of them is on the new tip.
    nine = await here.cargo("T9", {"shared.txt": "four and nine\n2\n3\n"})
    thirteen = await here.cargo("T13", {"mended": "x\n"})
    assert landed(await here.land(nine, thirteen)) == ["T9", "T13"]
    assert state(sample.path) == before
    assert here.sample.pushes(TARGET) == 2
    assert here.at_remote(BOARD).count("[x]") == 20
    assert [here.lands_of(f"T{n}") for n in range(1, 21)] == [1] * 20


async def test_a_batch_of_one_that_is_red_is_its_own_fault(yard: Open) -> None:
    here = await yard()
    result = await here.land(await here.cargo("T1", {"broken": "x\n"}))
    assert landed(result) == []
    assert result.returned[0].reason == "breaks the check on the newest tip: exit status 1"
    # What is red is run once more; a third asks, once a run, whether the target is green by itself.
    assert (result.verifications, len(here.runs)) == (2, 3)
    again = await here.land(await here.cargo("T2", {"broken": "another\n"}))
    assert landed(again) == []
    assert (again.verifications, len(here.runs)) == (2, 3 + 2)
    assert not result.pushed
    assert here.refs("refs/heads/taskyard") == []


async def test_a_flaky_check_sends_nobody_back_and_is_named(yard: Open) -> None:
    here = await yard()
    here.train = here.new_train(check="test -e ../been-here || { touch ../been-here; exit 3; }")
    cargo = [await here.cargo("T1", {"a": "x\n"}), await here.cargo("T2", {"b": "x\n"})]
    result = await here.land(*cargo)
    assert landed(result) == ["T1", "T2"]
    assert ("verify", "flaky: red once, then green (exit status 3)") in here.steps
    assert (result.flaky, result.verifications) == (("exit status 3",), 2)


async def test_without_a_common_check_each_command_runs_once_on_the_combination(yard: Open) -> None:
    here = await yard()
    here.train = here.new_train(check="")
    cargo = [
        await here.cargo("T1", {"a": "x\n"}, command="test -e a"),
        await here.cargo("T2", {"b": "x\n"}, command="test -e a"),
        await here.cargo("T3", {"c": "x\n"}, command="test -e b && test -e c"),
    ]
    assert landed(await here.land(*cargo)) == ["T1", "T2", "T3"]
    assert here.runs == [("test -e a",), ("test -e b && test -e c",)]


async def test_a_tree_whose_verdict_is_known_is_not_verified_again(yard: Open) -> None:
    here = await yard()
    one = await here.cargo("T1", {"a": "x\n"})
    await here.train.known_green(one.commit, "./check")
    result = await here.land(one)
    assert landed(result) == ["T1"]
    assert here.runs == []
    assert result.verifications == 0


async def test_a_check_that_switches_branches_moves_none(yard: Open) -> None:
    here = await yard()
    here.train = here.new_train(check="git checkout -q -b oops")
    assert landed(await here.land(await here.cargo("T1", {"a": "x\n"}))) == ["T1"]
    oops = here.sample.git("rev-parse", "oops")
    here.train = here.new_train(check="true")
    assert landed(await here.land(await here.cargo("T2", {"b": "x\n"}))) == ["T2"]
    assert here.sample.git("rev-parse", "oops") == oops


async def test_failed_tasks_are_told_on_the_board_with_the_landing(yard: Open) -> None:
    here = await yard()
    await here.land(await here.cargo("T1", {"a": "x\n"}), also={"T3": BoardStatus.FAILED})
    assert "| T3 | Make 3 | [!] |" in here.at_remote(BOARD)
    result = await here.land(also={"T2": BoardStatus.FAILED})
    assert result.pushed
    assert "| T2 | Make 2 | [!] |" in here.at_remote(BOARD)
    assert not (await here.land(also={"T2": BoardStatus.FAILED})).pushed


async def test_the_board_keeps_what_others_wrote_there_meanwhile(yard: Open, tmp_path: Path) -> None:
    here = await yard(target="main")
    cargo = await here.cargo("T1", {"a": "x\n"})
    other = clone(here.sample, tmp_path / "other")
    text = board(3).replace("Make 2", "Make 2 well") + "\r\nA remark\r\n"
    other.commit("Edit the board", {BOARD: text})
    other.git("push", "--quiet", "origin", "main")
    assert landed(await here.land(cargo)) == ["T1"]
    raw = here.sample.git("cat-file", "-p", f"main:{BOARD}", at=here.sample.remote)
    assert "Make 2 well" in raw
    assert "A remark" in raw
    assert "| T1 | Make 1 | [x] |" in raw


async def test_a_check_that_is_red_without_any_of_the_work_blames_nobody(yard: Open) -> None:
    here = await yard()
    here.base = here.sample.commit("Break the check", {"broken": "x\n"})
    here.train = here.new_train()
    await here.train.start()
    cargo = [await here.cargo("T1", {"a": "x\n"}), await here.cargo("T2", {"b": "x\n"})]
    with pytest.raises(
        GitError, match=r"`\./check` is red before any of this work is merged.*commits are kept"
    ):
        await here.land(*cargo)
    assert len(here.refs("refs/taskyard/queue")) == 2
    assert not here.sample.pushes(TARGET)


async def test_what_was_fetched_before_a_train_arrived_does_not_take_the_tip_back(
    yard: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is to be built on the cargo would begin without it."""
    here = await yard()
    await here.train.land([await here.cargo("T1", {"a": "1\n"})])
    foreign = here.train._foreign
    look, fetched, go_on = foreign.look, asyncio.Event(), asyncio.Event()

    async def slowly(upstream: str | None) -> None:
        if not fetched.is_set():
            fetched.set()
            await go_on.wait()
        await look(upstream)

    monkeypatch.setattr(foreign, "look", slowly)
    refreshing = asyncio.create_task(here.train.refresh())
    await fetched.wait()
    result = await here.train.land([await here.cargo("T2", {"b": "2\n"})])
    go_on.set()
    await refreshing
    assert here.train.tip == result.tip == here.sample.git("rev-parse", TARGET, at=here.sample.remote)
