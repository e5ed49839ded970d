"""The train: one push for many, the good land, the others hear why, and nothing is lost whatever the remote says."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.errors import GitError, PushRejectedError
from engine.git.search import first_bad
from engine.model import BoardStatus
from tests.git.test_worktrees import state
from tests.git.trains import BOARD, TARGET, Yard, board, make_yard, old_git
from tests.sample_repository import SampleRepository

Make = Callable[..., SampleRepository]
Open = Callable[..., Awaitable[Yard]]

CHECK = "#!/bin/sh\ntest ! -e broken && ! { test -e left && test -e right; }\n"


@pytest.fixture
def yard(repo: Make, tmp_path: Path) -> Open:
    async def make(count: int = 3, target: str = TARGET) -> Yard:
        sample = repo({"shared.txt": "1\n2\n3\n", BOARD: board(count), "check": CHECK})
        (sample.path / "check").chmod(0o755)
        sample.commit("Make the check run")
        sample.git("push", "--quiet", "origin", "main")
        return await make_yard(sample, tmp_path / "work", target)

    return make


def landed(result: object) -> list[str]:
    return [item.task_id for item in result.landed]  # type: ignore[attr-defined]


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


def clone(sample: SampleRepository, path: Path) -> SampleRepository:
    sample.git("clone", "--quiet", str(sample.remote), str(path))
    return SampleRepository(path, sample.remote)


# The remote has its own mind


async def test_a_remote_that_moved_is_rebuilt_on_and_verified_again(yard: Open, tmp_path: Path) -> None:
    here = await yard(target="main")
    other = clone(here.sample, tmp_path / "other")

    def move() -> None:
        here.during = lambda: None
        other.commit("Theirs", {"theirs.txt": "t\n"})
        other.git("push", "--quiet", "origin", "main")

    here.during = move
    cargo = [await here.cargo("T1", {"a": "x\n"}), await here.cargo("T2", {"b": "x\n"})]
    result = await here.land(*cargo)
    assert landed(result) == ["T1", "T2"]
    assert here.at_remote("theirs.txt") == "t"
    assert here.at_remote("a") == "x"
    assert result.verifications == 2
    assert len(here.waits) == 1
    assert here.sample.pushes("main") == 4  # Two to set the stage, theirs, ours.


async def test_a_remote_that_only_got_what_it_had_is_not_verified_again(yard: Open, tmp_path: Path) -> None:
    here = await yard(target="main")
    other = clone(here.sample, tmp_path / "other")

    def move() -> None:
        here.during = lambda: None
        other.commit("Nothing new")
        other.git("push", "--quiet", "origin", "main")

    here.during = move
    result = await here.land(await here.cargo("T1", {"a": "x\n"}))
    assert landed(result) == ["T1"]
    assert result.verifications == 1


async def test_a_remote_that_always_moves_is_given_up_after_growing_waits(yard: Open, tmp_path: Path) -> None:
    here = await yard(target="main")
    other = clone(here.sample, tmp_path / "other")
    numbers = iter(range(100))

    def move() -> None:
        other.commit("Theirs", {"theirs.txt": f"{next(numbers)}\n"})
        other.git("push", "--quiet", "origin", "main")

    here.during = move
    cargo = await here.cargo("T1", {"a": "x\n"})
    result = await here.land(cargo)
    assert landed(result) == []
    assert "main moved on origin" in result.problem
    assert len(here.waits) == 5
    assert here.waits[-1] > 4 * here.waits[0]
    assert here.refs("refs/taskyard/queue") == ["refs/taskyard/queue/main/T1"]
    here.during = lambda: None
    assert landed(await here.land(cargo)) == ["T1"]


async def test_a_hook_that_refuses_is_heard_and_nothing_is_lost(yard: Open) -> None:
    here = await yard()
    hook = here.sample.remote / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho 'Needs a ticket number'\nexit 1\n")
    hook.chmod(0o755)
    cargo = await here.cargo("T1", {"a": "x\n"})
    result = await here.land(cargo)
    assert landed(result) == []
    assert "Needs a ticket number" in result.problem
    assert here.waits == []
    assert [ref.rsplit("/", 1)[1] for ref in here.refs("refs/taskyard/queue")] == ["T1"]
    assert here.sample.git("cat-file", "-t", cargo.commit) == "commit"
    hook.unlink()
    assert landed(await here.land(cargo)) == ["T1"]
    assert here.lands_of("T1") == 1


async def test_the_users_own_pre_push_hook_is_asked(yard: Open) -> None:
    here = await yard()
    hook = here.sample.path / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'not on a Sunday' >&2\nexit 1\n")
    hook.chmod(0o755)
    result = await here.land(await here.cargo("T1", {"a": "x\n"}))
    assert landed(result) == []
    assert result.problem


async def test_a_remote_that_is_away_keeps_the_cargo(yard: Open) -> None:
    here = await yard()
    cargo = await here.cargo("T1", {"a": "x\n"})
    away = here.sample.remote.with_name("away")
    here.sample.remote.rename(away)
    result = await here.land(cargo)
    assert "origin cannot be reached" in result.problem
    away.rename(here.sample.remote)
    assert landed(await here.land(cargo)) == ["T1"]


async def test_a_push_that_arrived_but_was_not_answered_counts_once(yard: Open) -> None:
    here = await yard()
    upstream = here.train._upstream
    push = upstream.push

    async def cut_off(tip: str, *, expected: str | None) -> None:
        await push(tip, expected=expected)
        raise PushRejectedError("git push took longer than 20 s", kind="unknown")

    upstream.push = cut_off  # type: ignore[method-assign]
    result = await here.land(await here.cargo("T1", {"a": "x\n"}))
    assert (landed(result), result.pushed, here.waits) == (["T1"], True, [])
    assert here.sample.pushes(TARGET) == 1
    assert here.refs("refs/taskyard/queue") == []


async def test_what_the_target_has_already_lands_without_a_push(yard: Open) -> None:
    here = await yard()
    one, two = await here.cargo("T1", {"a": "x\n"}), await here.cargo("T2", {"b": "x\n"})
    await here.land(one)
    here.train = here.new_train()
    await here.train.start()
    assert landed(await here.land(one)) == ["T1"]
    assert here.sample.pushes(TARGET) == 1
    assert landed(await here.land(one, two)) == ["T1", "T2"]
    assert here.sample.pushes(TARGET) == 2
    assert [here.lands_of(name) for name in ("T1", "T2")] == [1, 1]


async def test_without_a_remote_it_lands_here(yard: Open) -> None:
    here = await yard()
    here.sample.git("remote", "remove", "origin")
    here.train = here.new_train()
    await here.train.start()
    result = await here.land(await here.cargo("T1", {"a": "x\n"}), await here.cargo("T2", {"b": "x\n"}))
    assert landed(result) == ["T1", "T2"]
    assert here.sample.git("rev-parse", TARGET) == result.tip
    result = await here.land(await here.cargo("T3", {"c": "x\n"}))
    assert here.sample.git("show", f"{TARGET}:c") == "x"


async def test_a_branch_that_is_checked_out_here_is_never_moved(yard: Open) -> None:
    here = await yard()
    here.sample.git("remote", "remove", "origin")
    here.sample.git("switch", "--quiet", "-c", TARGET)
    here.train = here.new_train()
    cargo = await here.cargo("T1", {"a": "x\n"})
    result = await here.land(cargo)
    assert "is checked out in" in result.problem
    assert here.sample.git("rev-parse", TARGET) == here.base
    here.sample.git("switch", "--quiet", "main")
    assert landed(await here.land(cargo)) == ["T1"]


async def test_landing_on_the_branch_of_the_checkout_pushes_and_asks_for_a_pull(yard: Open) -> None:
    here = await yard(target="main")
    result = await here.land(await here.cargo("T1", {"a": "x\n"}))
    assert result.notice.startswith("1 landed on main")
    assert "git pull" in result.notice
    assert here.sample.git("rev-parse", "main") == here.base
    assert here.sample.git("status", "--porcelain") == ""
    here.sample.git("pull", "--quiet")
    assert (here.sample.path / "a").exists()


async def test_a_base_that_the_target_lacks_is_merged_in_once(yard: Open) -> None:
    here = await yard()
    assert landed(await here.land(await here.cargo("T1", {"a": "x\n"}))) == ["T1"]
    here.base = here.sample.commit("The user goes on", {"user.txt": "u\n"})
    here.train = here.new_train()
    await here.train.start()
    cargo = [await here.cargo("T2", {"b": "x\n"}), await here.cargo("T3", {"c": "x\n"})]
    assert landed(await here.land(*cargo)) == ["T2", "T3"]
    assert here.at_remote("user.txt") == "u"
    merges = here.sample.git(
        "log", "--merges", "--format=%s", "--grep=^Merge ", TARGET, at=here.sample.remote
    )
    assert len(merges.splitlines()) == 1


async def test_a_base_in_conflict_with_the_target_says_what_to_do(yard: Open) -> None:
    here = await yard()
    await here.land(await here.cargo("T1", {"shared.txt": "landed\n2\n3\n"}))
    here.base = here.sample.commit("The user too", {"shared.txt": "user\n2\n3\n"})
    with pytest.raises(PushRejectedError, match=r"have diverged.*merge taskyard/board into your branch"):
        await here.new_train().start()


async def test_a_task_that_was_done_once_more_over_an_old_tree_has_landed_already(yard: Open) -> None:
    here = await yard()
    first = await here.cargo("T1", {"a": "x\n"})
    again = await here.cargo("T1", {"b": "x\n"})
    assert landed(await here.land(first)) == ["T1"]
    result = await here.land(again)
    assert [(item.task_id, item.commit) for item in result.landed] == [("T1", first.commit)]
    assert (here.lands_of("T1"), result.pushed) == (1, False)
    over_that = await here.cargo("T1", {"c": "x\n"})
    assert landed(await here.land(over_that)) == ["T1"]
    assert here.lands_of("T1") == 2, "somebody asked for it anew"


@pytest.mark.parametrize(("name", "ours"), [("T1", True), ("_train9", True), ("of-a-person", False)])
async def test_a_worktree_whose_making_was_killed_keeps_nobody_from_fetching(
    yard: Open, name: str, ours: bool
) -> None:
    here = await yard()
    cargo = await here.cargo("T2", {"a": "x\n"})
    git = here.sample.git
    git("worktree", "add", "--quiet", "--no-checkout", "--detach", str(here.root / name))
    (here.sample.path / ".git" / "worktrees" / name / "HEAD").write_text("0" * 40 + "\n")
    if ours and name == "T1":
        git("update-ref", "refs/taskyard/branches/T1", here.base)
    # Only with something new to fetch does git look at the HEADs of all worktrees.
    new = git(
        "commit-tree", "-p", here.base, "-m", "By somebody", f"{here.base}^{{tree}}", at=here.sample.remote
    )
    git("update-ref", f"refs/heads/{TARGET}", new, at=here.sample.remote)
    result = await here.land(cargo)
    if ours:
        assert landed(result) == ["T2"]
        assert name not in git("worktree", "list")
    else:
        assert "bad object worktrees/of-a-person/HEAD" in result.problem
        assert name in git("worktree", "list"), "it is not ours to remove"


async def test_a_run_that_is_taken_up_lands_nothing_that_another_has_landed_meanwhile(yard: Open) -> None:
    here = await yard()
    first, other = await here.cargo("T1", {"a": "x\n"}), await here.cargo("T2", {"b": "x\n"})
    theirs = here.new_train(run="r2", tree=here.root / "_train2")
    await theirs.start()
    assert landed(await theirs.land([await here.cargo("T1", {"a": "by the other\n"}), other])) == ["T1", "T2"]
    again = here.new_train()
    await again.start(since=here.base, anew=["T2"])
    anew = await here.cargo("T2", {"b": "another thing\n"}, base=again.tip)
    result = await again.land([first, anew])
    assert sorted(landed(result)) == ["T1", "T2"]
    assert (here.lands_of("T1"), here.lands_of("T2")) == (1, 2)
    assert here.at_remote("a") == "by the other"


async def test_two_processes_land_on_one_target_one_after_the_other(yard: Open, tmp_path: Path) -> None:
    here = await yard(6)
    cargo = [await here.cargo(f"T{n}", {f"f{n}": "x\n"}) for n in range(1, 7)]
    other = await make_yard(here.sample, here.root)
    results = await asyncio.gather(here.land(*cargo[:3]), other.land(*cargo[3:]))
    assert sorted(name for result in results for name in landed(result)) == [f"T{n}" for n in range(1, 7)]
    assert here.sample.pushes(TARGET) == 2
    assert here.waits == other.waits == []


async def test_an_old_git_lands_through_a_worktree(
    yard: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_git(tmp_path / "old", monkeypatch, "2.35.1")
    here = await yard()
    one = await here.cargo("T1", {"shared.txt": "one\n2\n3\n"})
    two = await here.cargo("T2", {"shared.txt": "two\n2\n3\n"})
    three = await here.cargo("T3", {"f.txt": "3\n"})
    result = await here.land(one, two, three)
    assert landed(result) == ["T1", "T3"]
    assert (result.returned[0].other, result.returned[0].paths) == ("T1", ("shared.txt",))
    assert here.lands_of("T1") == 1


async def test_a_repository_of_sha256_lands_too(tmp_path: Path) -> None:
    sample = SampleRepository(tmp_path / "new", tmp_path / "new.git")
    sample.path.mkdir()
    sample.git("init", "--quiet", "--object-format=sha256", "--initial-branch=main")
    sample.git("init", "--quiet", "--bare", "--object-format=sha256", str(sample.remote))
    sample.git("config", "core.logAllRefUpdates", "always", at=sample.remote)
    sample.git("remote", "add", "origin", str(sample.remote))
    sample.commit("Begin", {BOARD: board(2)})
    here = await make_yard(sample, tmp_path / "work")
    here.train = here.new_train(check="true")
    assert landed(await here.land(await here.cargo("T1", {"a": "x\n"}))) == ["T1"]
    assert sample.pushes(TARGET) == 1


async def test_merges_are_signed_where_the_user_signs(yard: Open, tmp_path: Path) -> None:
    here = await yard()
    signer = tmp_path / "gpg"
    signer.write_text(
        "#!/bin/sh\ncat >/dev/null\necho '[GNUPG:] SIG_CREATED D' >&2\n"
        "echo '-----BEGIN PGP SIGNATURE-----'\necho '-----END PGP SIGNATURE-----'\n"
    )
    signer.chmod(0o755)
    here.sample.git("config", "gpg.program", str(signer))
    cargo = await here.cargo("T1", {"a": "x\n"})
    here.sample.git("config", "commit.gpgSign", "true")
    result = await here.land(cargo)
    assert landed(result) == ["T1"]
    assert "BEGIN PGP SIGNATURE" in here.sample.git("cat-file", "commit", result.tip)


# The search


@pytest.mark.parametrize("count", [1, 2, 3, 10, 50, 200])
async def test_the_search_finds_the_first_bad_member_in_log2_runs(count: int) -> None:
    for bad in {0, count // 2, count - 1}:
        runs = 0

        async def is_red(first: int, bad: int = bad) -> bool:
            nonlocal runs
            runs += 1
            return first > bad

        assert await first_bad(count, is_red) == bad
        assert runs <= math.ceil(math.log2(count))


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 24).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1)))))
def test_for_any_bad_members_all_the_good_land_and_all_the_bad_are_named(case: tuple[int, set[int]]) -> None:
    """Search, drop and search again, over trees that are only numbers: one is red when it holds a bad member."""
    count, bad = case

    async def main() -> tuple[list[int], list[int], int]:
        chain, named, runs = list(range(count)), [], 0
        while bad.intersection(chain):
            members = list(chain)

            async def is_red(first: int, members: list[int] = members) -> bool:
                nonlocal runs
                runs += 1
                return bool(bad.intersection(members[:first]))

            at = await first_bad(len(members), is_red)
            named.append(chain.pop(at))
        return chain, named, runs

    chain, named, runs = asyncio.run(main())
    assert chain == [member for member in range(count) if member not in bad]
    assert sorted(named) == sorted(bad)
    assert runs <= len(bad) * math.ceil(math.log2(count) if count > 1 else 0)


async def test_rows_that_were_added_beside_our_own_marks_do_not_diverge(yard: Open) -> None:
    here = await yard(1)
    await here.land(await here.cargo("T1", {"a": "x\n"}))
    board = here.sample.git("show", "HEAD:tasks/board.md") + "\n"
    added = board + "| T9 | a new row | [ ] | | `true` |\n"
    here.base = here.sample.commit("Plan more", {"tasks/board.md": added})
    train = here.train = here.new_train()
    await train.start()
    seen = here.sample.git("show", f"{train.tip}:tasks/board.md") + "\n"
    assert seen == added.replace("| T1 | Make 1 | [ ]", "| T1 | Make 1 | [x]")
    assert "[x]" in seen
    result = await here.land(await here.cargo("T9", {"b": "x\n"}))
    assert landed(result) == ["T9"]
    assert here.at_remote("tasks/board.md").count("[x]") == 2


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


async def test_what_another_run_has_landed_meanwhile_is_not_landed_twice(yard: Open, tmp_path: Path) -> None:
    """Two runs that know nothing of each other do the same task: the target tells the later one."""
    here = await yard(2)
    ours = await here.cargo("T1", {"one.txt": "ours\n"})
    other = here.new_train(run="r2", tree=tmp_path / "other" / "_train")
    await other.start()
    theirs = replace(await here.cargo("T1b", {"one.txt": "theirs\n"}), task_id="T1")
    assert landed(await other.land([theirs])) == ["T1"]
    two = await here.cargo("T2", {"two.txt": "2\n"})
    result = await here.land(ours, two)
    assert {item.task_id: item.commit for item in result.landed} == {"T1": theirs.commit, "T2": two.commit}
    assert result.returned == ()
    assert here.at_remote("one.txt") == "theirs"
    assert ours.commit not in here.sample.git("rev-list", TARGET, at=here.sample.remote)
    assert here.lands_of("T1") == 1
    # Done again on top of it, it is work of its own.
    again = await here.cargo("T1", {"one.txt": "again\n"})
    assert landed(await here.land(again)) == ["T1"]
    assert here.at_remote("one.txt") == "again"


async def test_another_board_with_the_same_ids_may_land_on_the_same_branch(
    yard: Open, tmp_path: Path
) -> None:
    here = await yard(1)
    ours = await here.cargo("T1", {"one.txt": "ours\n"})
    other = here.new_train(run="r2", board="docs/board.md", tree=tmp_path / "other" / "_train")
    await other.start()
    theirs = replace(await here.cargo("T1b", {"two.txt": "theirs\n"}), task_id="T1")
    assert landed(await other.land([theirs])) == ["T1"]
    result = await here.land(ours)
    assert [item.commit for item in result.landed] == [ours.commit]
    assert (here.at_remote("one.txt"), here.at_remote("two.txt")) == ("ours", "theirs")
