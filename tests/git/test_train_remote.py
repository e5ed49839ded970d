"""The train and the target: nothing is lost or done twice, whatever the remote says and others land meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.errors import PushRejectedError
from tests.git.trains import BOARD, TARGET, Yard, board, clone, landed, make_yard, old_git
from tests.sample_repository import SampleRepository

Open = Callable[..., Awaitable[Yard]]


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


async def test_a_push_whose_connection_broke_behind_the_landing_counts_once(yard: Open) -> None:
    here = await yard()
    hook = here.sample.remote / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\ntest "$1" != committed || kill -9 $PPID\n')
    hook.chmod(0o755)
    result = await here.land(await here.cargo("T1", {"a": "x\n"}))
    assert (landed(result), result.pushed, result.problem, here.waits) == (["T1"], True, "", [])
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
