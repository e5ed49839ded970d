"""Worktrees: many at once, used again, mended after a crash, and never lost with work in them."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import GitError
from engine.git.changes import diff_of
from engine.git.keeping import KEPT
from engine.git.leftovers import leftovers
from engine.git.names import slug
from engine.git.ready import READY, folders_in, mark_ready, owner_lives
from engine.git.repository import Repository
from engine.git.worktrees import Worktrees
from tests.git.trains import allow_file_submodules
from tests.sample_repository import SampleRepository

Make = Callable[..., SampleRepository]
BOARD = "tasks/board.md"
TRAILERS = {"Taskyard-Task": "T1", "Taskyard-Run": "r1"}


class Place:
    """A sample repository with its worktrees, and the base that attempts begin from."""

    def __init__(self, sample: SampleRepository, repository: Repository, root: Path) -> None:
        self.sample = sample
        self.repository = repository
        self.root = root
        self.worktrees = Worktrees(repository, root, BOARD)
        self.base = sample.git("rev-parse", "HEAD")

    def refs(self, prefix: str) -> list[str]:
        return self.sample.git("for-each-ref", "--format=%(refname)", prefix).split()

    def registered(self) -> list[Path]:
        """The worktrees git knows besides the checkout itself."""
        lines = self.sample.git("worktree", "list", "--porcelain").splitlines()
        return [Path(line[9:]) for line in lines if line.startswith("worktree ")][1:]


async def place(sample: SampleRepository, root: Path) -> Place:
    return Place(sample, await Repository.open(sample.path, environ=os.environ), root)


@pytest.fixture
async def here(repo: Make, tmp_path: Path) -> Place:
    sample = repo({"a.txt": "one\ntwo\n", BOARD: "board\n", ".gitignore": "*.log\n"})
    return await place(sample, tmp_path / "state dir" / "wörk")


async def test_an_attempt_ends_in_one_commit_by_the_user_with_trailers(here: Place) -> None:
    made = await here.worktrees.create("T1", here.base)
    assert made.branch == "task/T1"
    (made.path / "a.txt").write_text("one\n2\n3\n")
    (made.path / "new ünï").mkdir()
    (made.path / "new ünï" / "b c.txt").write_text("b\n")
    (made.path / "pixels").write_bytes(b"\0\1\2")
    (made.path / "noise.log").write_text("ignored\n")
    change = await here.worktrees.commit(made, "T1: do it\n\nWell.", TRAILERS)
    assert change is not None
    assert (change.base, change.files, change.added, change.removed) == (here.base, 3, 3, 1)
    assert change.paths == ("a.txt", "new ünï/b c.txt", "pixels")
    git = here.sample.git
    assert git("rev-parse", "task/T1^") == here.base
    assert git("log", "-1", "--format=%an <%ae>|%s|%b", "task/T1") == (
        "Test Person <test@example.org>|T1: do it|Well.\n\nTaskyard-Task: T1\nTaskyard-Run: r1"
    )
    text = await diff_of(here.repository, change.base, change.commit)
    assert "+3" in text
    assert "Binary files" in text


async def test_what_an_agent_says_can_be_committed_whatever_it_holds(here: Place) -> None:
    made = await here.worktrees.create("T1", here.base)
    (made.path / "a.txt").write_text("1\n")
    change = await here.worktrees.commit(made, "T1: do it\n\nDone.\0\x1b[2J\tYes, 世界.\r\n", TRAILERS)
    assert change is not None
    assert here.sample.git("log", "-1", "--format=%B", "task/T1") == (
        "T1: do it\n\nDone.[2J\tYes, 世界.\n\nTaskyard-Task: T1\nTaskyard-Run: r1"
    )


async def test_an_attempt_that_changed_nothing_has_no_commit(here: Place) -> None:
    made = await here.worktrees.create("T1", here.base)
    assert await here.worktrees.commit(made, "T1", TRAILERS) is None
    (made.path / BOARD).write_text("I say that I am done\n")
    assert await here.worktrees.commit(made, "T1", TRAILERS) is None


async def test_the_board_of_the_base_stays_whatever_an_attempt_wrote_there(here: Place) -> None:
    made = await here.worktrees.create("T1", here.base)
    (made.path / BOARD).write_text("I say that I am done\n")
    (made.path / "a.txt").write_text("done\n")
    change = await here.worktrees.commit(made, "T1", TRAILERS)
    assert change is not None
    assert change.paths == ("a.txt",)
    assert here.sample.git("show", f"{change.commit}:{BOARD}") == "board"


async def test_what_an_agent_committed_itself_is_folded_into_the_one_commit(here: Place) -> None:
    made = await here.worktrees.create("T1", here.base)
    for number in range(3):
        (made.path / f"f{number}").write_text("x\n")
        here.sample.git("add", "--all", at=made.path)
        here.sample.git("commit", "--quiet", "-m", f"wip {number}", at=made.path)
    change = await here.worktrees.commit(made, "T1", TRAILERS)
    assert change is not None
    assert change.files == 3
    assert here.sample.git("rev-list", "--count", f"{here.base}..{change.commit}") == "1"


async def test_an_agent_that_removed_what_it_works_in_is_told_so(here: Place) -> None:
    made = await here.worktrees.create("T1", here.base)
    (made.path / ".git").unlink()
    with pytest.raises(GitError, match=r"removed or replaced the \.git file"):
        await here.worktrees.commit(made, "T1", TRAILERS)
    subprocess.run(["git", "init", "--quiet", "--initial-branch", "task/T1", str(made.path)], check=True)
    with pytest.raises(GitError, match=r"removed or replaced the \.git file"):
        await here.worktrees.commit(made, "T1", TRAILERS)
    subprocess.run(["rm", "-rf", str(made.path)], check=True)
    with pytest.raises(GitError, match="removed the folder it works in"):
        await here.worktrees.commit(made, "T1", TRAILERS)
    again = await here.worktrees.create("T1", here.base)
    assert (again.path / "a.txt").exists()


async def test_an_agent_that_left_its_branch_gets_no_commit(here: Place) -> None:
    made = await here.worktrees.create("T1", here.base)
    here.sample.git("switch", "--quiet", "-c", "elsewhere", at=made.path)
    (made.path / "a.txt").write_text("x\n")
    with pytest.raises(GitError, match="switched to another branch"):
        await here.worktrees.commit(made, "T1", TRAILERS)


async def test_the_users_hooks_judge_the_commit_but_do_not_disturb_making_worktrees(here: Place) -> None:
    hooks = here.sample.path / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("pre-commit", "post-checkout"):
        (hooks / name).write_text("#!/bin/sh\necho no tabs please >&2\nexit 1\n")
        (hooks / name).chmod(0o755)
    made = await here.worktrees.create("T1", here.base)
    (made.path / "a.txt").write_text("\tx\n")
    with pytest.raises(GitError, match="no tabs please"):
        await here.worktrees.commit(made, "T1", TRAILERS)


async def test_hooks_of_a_commit_see_no_keys(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks = here.sample.path / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "pre-commit").write_text('#!/bin/sh\necho "key:$ANTHROPIC_API_KEY"\nexit 1\n')
    (hooks / "pre-commit").chmod(0o755)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-nobody")
    keyed = await place(here.sample, here.root)
    made = await keyed.worktrees.create("T1", keyed.base)
    (made.path / "a.txt").write_text("x\n")
    with pytest.raises(GitError) as caught:
        await keyed.worktrees.commit(made, "T1", TRAILERS)
    assert "key:" in caught.value.stderr
    assert "sk-of-nobody" not in caught.value.stderr


async def test_without_an_identity_the_commit_says_so(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("EMAIL", "")
    here.sample.git("config", "user.useConfigOnly", "true")
    lonely = await place(here.sample, here.root)
    made = await lonely.worktrees.create("T1", lonely.base)
    (made.path / "a.txt").write_text("x\n")
    with pytest.raises(GitError, match="no email was given"):
        await lonely.worktrees.commit(made, "T1", TRAILERS)


async def test_32_asked_for_at_once_are_all_made(here: Place) -> None:
    made = await asyncio.gather(*(here.worktrees.create(f"T{n}", here.base) for n in range(32)))
    assert len({worktree.path for worktree in made}) == 32
    assert all((worktree.path / "a.txt").read_text() == "one\ntwo\n" for worktree in made)
    assert len(here.registered()) == 32
    assert here.sample.git("fsck", "--no-dangling") == ""


async def test_two_processes_may_make_worktrees_of_one_repository(here: Place) -> None:
    other = await place(here.sample, here.root)
    made = await asyncio.gather(
        *((here, other)[n % 2].worktrees.create(f"T{n}", here.base) for n in range(12))
    )
    assert all((worktree.path / "a.txt").exists() for worktree in made)


def test_a_worktree_is_its_makers_also_while_that_is_written_down_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark_ready(tmp_path)
    seen = []
    write_text = Path.write_text

    def in_two(path: Path, text: str, **options: str) -> int:
        write_text(path, "", **options)
        seen.append(owner_lives(tmp_path / READY))
        return write_text(path, text, **options)

    monkeypatch.setattr(Path, "write_text", in_two)
    mark_ready(tmp_path, ("src",))
    assert seen == [True]
    assert folders_in(tmp_path) == ("src",)


async def test_many_tasks_one_after_the_other_leave_nothing_behind(here: Place) -> None:
    async def one(number: int) -> None:
        made = await here.worktrees.create(f"T{number}", here.base)
        (made.path / "a.txt").write_text(f"{number}\n")
        change = await here.worktrees.commit(made, "x", TRAILERS)
        assert change is not None
        assert await here.worktrees.release(f"T{number}", landed_in=change.commit)

    await one(0)
    files = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    for number in range(1, 25):
        await one(number)
    if files:
        assert len(os.listdir("/proc/self/fd")) <= files
    assert here.registered() == []
    admin = here.sample.path / ".git" / "worktrees"
    assert not admin.exists() or list(admin.iterdir()) == []
    assert here.refs("refs/taskyard") == []
    assert here.refs("refs/heads") == ["refs/heads/main"]
    assert list(here.root.iterdir()) == []


async def test_the_next_attempt_stands_clean_on_its_base_and_the_last_is_kept(here: Place) -> None:
    made = await here.worktrees.create("T1", here.base)
    (made.path / "a.txt").write_text("first try\n")
    first = await here.worktrees.commit(made, "T1", TRAILERS)
    assert first is not None
    newer = here.sample.commit("Somebody else's", {"b.txt": "b\n"})
    (made.path / "debris.log").write_text("x\n")
    again = await here.worktrees.create("T1", newer)
    assert (again.path, again.branch) == (made.path, made.branch)
    assert (again.path / "a.txt").read_text() == "one\ntwo\n"
    assert (again.path / "b.txt").exists()
    assert not (again.path / "debris.log").exists()
    assert here.sample.git("rev-parse", "task/T1") == newer
    assert here.refs(KEPT) == [f"{KEPT}/T1/{first.commit[:12]}"]


async def test_files_of_an_interrupted_attempt_are_kept(here: Place) -> None:
    made = await here.worktrees.create("T1", here.base)
    (made.path / "a.txt").write_text("half a thought\n")
    (made.path / "untracked.txt").write_text("another\n")
    await here.worktrees.create("T1", here.base)
    (kept,) = here.refs(KEPT)
    assert here.sample.git("show", f"{kept}:a.txt") == "half a thought"
    assert here.sample.git("show", f"{kept}:untracked.txt") == "another"
    assert not (made.path / "untracked.txt").exists()


async def test_work_on_a_detached_head_is_kept(here: Place) -> None:
    made = await here.worktrees.create("T1", here.base)
    git = here.sample.git
    git("switch", "--quiet", "--detach", at=made.path)
    (made.path / "a.txt").write_text("32 commits\n")
    git("commit", "--quiet", "-am", "lost?", at=made.path)
    (made.path / "b.txt").write_text("and a file\n")
    again = await here.worktrees.create("T1", here.base)
    (kept,) = here.refs(KEPT)
    assert git("show", f"{kept}:a.txt") == "32 commits"
    assert git("show", f"{kept}:b.txt") == "and a file"
    assert git("symbolic-ref", "HEAD", at=again.path) == "refs/heads/task/T1"


async def test_a_branch_of_somebody_else_is_left_alone(here: Place) -> None:
    here.sample.git("branch", "task/T1")
    with pytest.raises(GitError, match="task/T1 exists and is not Taskyard's"):
        await here.worktrees.create("T1", here.base)
    assert here.registered() == []


async def test_a_branch_checked_out_elsewhere_names_the_place(here: Place, tmp_path: Path) -> None:
    await here.worktrees.create("T1", here.base)
    here.sample.git("worktree", "remove", "--force", str(here.root / "T1"))
    elsewhere = tmp_path / "users own"
    here.sample.git("worktree", "add", "--quiet", str(elsewhere), "task/T1")
    with pytest.raises(GitError, match=f"task/T1 is checked out in {elsewhere}"):
        await here.worktrees.create("T1", here.base)


async def test_the_users_checkout_stays_as_it_is_to_the_byte(here: Place) -> None:
    sample = here.sample
    sample.write({"a.txt": "dirty\n", "staged.txt": "s\n", "untracked.txt": "u\n"})
    sample.git("add", "staged.txt")
    (sample.path / ".git" / "index.lock").touch()  # Their editor's git is at work.
    before = state(sample.path)
    made = await here.worktrees.create("T1", here.base)
    (made.path / "a.txt").write_text("x\n")
    change = await here.worktrees.commit(made, "T1", TRAILERS)
    assert change is not None
    await here.worktrees.mend()
    await here.worktrees.release("T1", landed_in=change.commit)
    assert state(sample.path) == before


def state(checkout: Path) -> dict[str, tuple[bytes, int]]:
    """Every file of a checkout, its index and HEAD included, with its time."""
    files = [path for path in checkout.rglob("*") if path.is_file() and ".git" not in path.parts]
    files += [checkout / ".git" / "index", checkout / ".git" / "HEAD", checkout / ".git" / "index.lock"]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files if path.exists()}


async def test_only_landed_work_is_released(here: Place) -> None:
    made = await here.worktrees.create("T1", here.base)
    (made.path / "a.txt").write_text("work\n")
    change = await here.worktrees.commit(made, "T1", TRAILERS)
    assert change is not None
    assert not await here.worktrees.release("T1", landed_in=here.base)
    assert (made.path / "a.txt").read_text() == "work\n"
    (made.path / "a.txt").write_text("an edit by hand\n")
    assert not await here.worktrees.release("T1", landed_in=change.commit)
    (made.path / "a.txt").write_text("work\n")
    assert await here.worktrees.release("T1", landed_in=change.commit)
    assert not made.path.exists()


async def test_a_failed_task_without_work_gives_its_place_back(here: Place) -> None:
    made = await here.worktrees.create("T1", here.base)
    (made.path / "new.txt").write_text("untracked\n")
    assert not await here.worktrees.give_back("T1", landed_in=here.base)
    (made.path / "a.txt").write_text("work\n")
    change = await here.worktrees.commit(made, "T1", TRAILERS)
    assert change is not None
    assert not await here.worktrees.give_back("T1", landed_in=here.base)
    again = await here.worktrees.create("T1", here.base)
    (again.path / BOARD).write_text("I say that I am done\n")
    assert await here.worktrees.give_back("T1", landed_in=here.base)
    assert here.registered() == []
    assert here.refs("refs/heads/task") == []
    assert here.refs(KEPT) == [f"{KEPT}/T1/{change.commit[:12]}"]
    assert (await here.worktrees.create("T1", here.base)).path == made.path


async def test_a_board_that_an_attempt_wrote_to_keeps_no_landed_worktree(here: Place) -> None:
    made = await here.worktrees.create("T1", here.base)
    (made.path / "a.txt").write_text("work\n")
    change = await here.worktrees.commit(made, "T1", TRAILERS)
    assert change is not None
    (made.path / BOARD).write_text("I say that I am done\n")
    assert await here.worktrees.release("T1", landed_in=change.commit)
    assert here.registered() == []


async def test_unlanded_work_whose_folder_is_gone_keeps_its_branch(here: Place) -> None:
    made = await here.worktrees.create("T1", here.base)
    (made.path / "a.txt").write_text("work\n")
    await here.worktrees.commit(made, "T1", TRAILERS)
    here.sample.git("worktree", "remove", "--force", str(made.path))
    assert not await here.worktrees.release("T1", landed_in=here.base)
    assert here.refs("refs/heads/task") == ["refs/heads/task/T1"]


async def test_the_list_tells_what_has_not_landed(here: Place) -> None:
    one = await here.worktrees.create("T1", here.base)
    (one.path / "a.txt").write_text("work\n")
    await here.worktrees.commit(one, "T1", TRAILERS)
    (one.path / "b.txt").write_text("more\n")
    two = await here.worktrees.create("T 2: ünï", here.base)
    here.sample.git("switch", "--quiet", "--detach", at=two.path)
    found = {each.path: each for each in await leftovers(here.repository, here.root, landed_in=here.base)}
    assert (found[one.path].branch, found[one.path].dirty, found[one.path].unlanded) == ("task/T1", 1, 1)
    assert (found[two.path].branch, found[two.path].dirty, found[two.path].unlanded) == ("", 0, 0)
    await here.worktrees.create("T1", here.base)
    (again,) = [
        each
        for each in await leftovers(here.repository, here.root, landed_in=here.base)
        if each.path == one.path
    ]
    assert (again.unlanded, again.kept) == (0, 1)


# After a crash


async def test_a_registration_without_its_folder_is_removed_and_its_branch_stays(here: Place) -> None:
    made = await here.worktrees.create("T1", here.base)
    (made.path / "a.txt").write_text("work\n")
    change = await here.worktrees.commit(made, "T1", TRAILERS)
    assert change is not None
    subprocess.run(["rm", "-rf", str(made.path)], check=True)
    assert await here.worktrees.mend() == ()
    assert here.registered() == []
    assert here.sample.git("rev-parse", "task/T1") == change.commit
    again = await here.worktrees.create("T1", here.base)
    assert (again.path / "a.txt").read_text() == "one\ntwo\n"
    assert here.refs(KEPT) == [f"{KEPT}/T1/{change.commit[:12]}"]


async def test_a_users_own_worktree_on_a_disk_that_is_away_stays_registered(
    here: Place, tmp_path: Path
) -> None:
    theirs = tmp_path / "usb"
    here.sample.git("worktree", "add", "--quiet", "--detach", str(theirs))
    theirs.rename(tmp_path / "away")
    await here.worktrees.create("T1", here.base)
    await here.worktrees.mend()
    assert theirs in here.registered()


async def test_a_folder_that_git_no_longer_knows_is_set_aside_with_its_files(here: Place) -> None:
    made = await here.worktrees.create("T1", here.base)
    (made.path / "a.txt").write_text("precious\n")
    subprocess.run(["rm", "-rf", str(here.sample.path / ".git" / "worktrees")], check=True)
    (words,) = await here.worktrees.mend()
    aside = made.path.with_name("T1.lost-1")
    assert str(aside) in words
    assert (aside / "a.txt").read_text() == "precious\n"
    again = await here.worktrees.create("T1", here.base)
    assert (again.path / "a.txt").read_text() == "one\ntwo\n"
    assert await here.worktrees.mend() == ()


async def test_a_worktree_that_lost_its_git_file_is_set_aside_and_made_anew(here: Place) -> None:
    made = await here.worktrees.create("T1", here.base)
    (made.path / "a.txt").write_text("precious\n")
    (made.path / ".git").unlink()
    again = await here.worktrees.create("T1", here.base)
    assert (again.path / "a.txt").read_text() == "one\ntwo\n"
    assert (made.path.with_name("T1.lost-1") / "a.txt").read_text() == "precious\n"


async def test_a_half_made_worktree_is_made_anew(here: Place) -> None:
    path = here.root / "T1"
    here.root.mkdir(parents=True)
    git = here.sample.git
    git("update-ref", "refs/taskyard/branches/T1", here.base)
    git("worktree", "add", "--quiet", "--no-checkout", "-b", "task/T1", str(path), here.base)
    (path / "a.txt").write_text("half writ")
    made = await here.worktrees.create("T1", here.base)
    assert (made.path / "a.txt").read_text() == "one\ntwo\n"
    assert here.refs(KEPT) == []


async def test_the_lock_of_a_dead_git_does_not_stop_the_next_attempt(here: Place) -> None:
    made = await here.worktrees.create("T1", here.base)
    admin = Path(here.sample.git("rev-parse", "--absolute-git-dir", at=made.path))
    (admin / "index.lock").touch()
    again = await here.worktrees.create("T1", here.base)
    assert here.sample.git("status", "--porcelain", at=again.path) == ""


async def test_submodules_are_checked_out(
    repo: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow_file_submodules(tmp_path / "gitconfig", monkeypatch)
    library = repo({"lib.txt": "lib\n"}, name="library")
    sample = repo({"a.txt": "a\n"}, name="app")
    sample.git("submodule", "--quiet", "add", str(library.remote), "lib")
    sample.commit("With a library")
    app = await place(sample, tmp_path / "work")
    made = await app.worktrees.create("T1", app.base)
    assert (made.path / "lib" / "lib.txt").read_text() == "lib\n"
    assert await app.worktrees.release("T1", landed_in=app.base)
    assert not made.path.exists()


# Limits


async def dead(here: Place, *names: str) -> None:
    """Make the worktrees look as if a process that has ended had made them."""
    child = await asyncio.create_subprocess_exec("true")
    await child.wait()
    for name in names:
        ready = here.sample.path / ".git" / "worktrees" / name / "taskyard-ready"
        ready.write_text(ready.read_text().replace(str(os.getpid()), str(child.pid)))


@pytest.mark.parametrize("limit", [{"max_count": 2}, {"max_bytes": 150_000}])
async def test_beyond_the_limits_the_idle_go_oldest_first_and_their_work_stays(
    here: Place, limit: dict[str, int]
) -> None:
    for name in ("T1", "T2", "T3", "T4"):
        made = await here.worktrees.create(name, here.base)
        (made.path / "big").write_text("x" * 100_000)
        await here.worktrees.commit(made, name, TRAILERS)
        (made.path / "a.txt").write_text(f"not committed in {name}\n")
    tips = {name: here.sample.git("rev-parse", f"task/{name}") for name in ("T1", "T2", "T3", "T4")}
    await dead(here, "T1", "T2", "T4")
    strict = Worktrees(here.repository, here.root, BOARD, **limit)
    assert await strict.trim() == ("T1", "T2")
    assert sorted(path.name for path in here.root.iterdir()) == ["T3", "T4"]
    for name in ("T1", "T2"):
        assert here.sample.git("rev-parse", f"task/{name}") == tips[name]
        (kept,) = here.refs(f"{KEPT}/{name}")
        assert here.sample.git("show", f"{kept}:a.txt") == f"not committed in {name}"
    again = await strict.create("T1", here.base)
    assert (again.path / "a.txt").read_text() == "one\ntwo\n"
    assert tips["T1"] in here.sample.git("log", "--format=%H", *here.refs(f"{KEPT}/T1"))


async def test_what_living_processes_work_in_stays_whatever_the_limits(here: Place) -> None:
    for name in ("T1", "T2"):
        await here.worktrees.create(name, here.base)
    assert await Worktrees(here.repository, here.root, BOARD, max_count=0).mend() == ()
    assert len(here.registered()) == 2


async def test_commits_on_a_detached_head_outlive_their_idle_worktree(here: Place) -> None:
    made = await here.worktrees.create("T1", here.base)
    here.sample.git("switch", "--quiet", "--detach", at=made.path)
    here.sample.git("commit", "--quiet", "--allow-empty", "-m", "alone", at=made.path)
    alone = here.sample.git("rev-parse", "HEAD", at=made.path)
    await dead(here, "T1")
    (words,) = await Worktrees(here.repository, here.root, BOARD, max_count=0).mend()
    assert "removed 1 idle worktree to save space, all work kept: T1" in words
    assert here.refs(KEPT) == [f"{KEPT}/T1/{alone[:12]}"]


# Names


@pytest.mark.parametrize(
    "task_id",
    [
        "fix: a/b",
        "a..b",
        "x@{y",
        "a.lock",
        "x.",
        "a//b",
        "a~1",
        "A?b*",
        "",
        "-x",
        "@",
        "HEAD",
        "ünï",
        "x" * 300,
    ],
)
async def test_any_task_id_becomes_a_branch_and_a_folder(here: Place, task_id: str) -> None:
    made = await here.worktrees.create(task_id, here.base)
    here.sample.git("rev-parse", "--verify", f"refs/heads/{made.branch}")
    assert made.path.parent == here.root
    assert len(made.path.name) < 80


def test_plain_ids_keep_their_name_and_no_two_ids_share_one() -> None:
    assert [slug(name) for name in ("T2.1", "T1", "fix-7", "a_b")] == ["T2.1", "T1", "fix-7", "a_b"]
    ids = ["T1", "a/b", "a-b", "A-B", "a b", "é", "e\u0301"]
    assert len({slug(name).lower() for name in ids}) == len(ids)


async def test_a_hook_that_lies_in_the_tree_sees_no_keys(repo: Make, tmp_path: Path) -> None:
    made = repo({"hooks/pre-commit": '#!/bin/sh\nenv > "$SEEN"\n', BOARD: "board\n"})
    (made.path / "hooks" / "pre-commit").chmod(0o755)
    made.git("add", "--all")
    made.git("commit", "--quiet", "--amend", "--no-edit")
    made.git("config", "core.hooksPath", "hooks")
    seen = tmp_path / "seen"
    environ = {**os.environ, "SEEN": str(seen), "ANTHROPIC_API_KEY": "sk-hidden", "HARMLESS": "shown"}
    repository = await Repository.open(made.path, environ=environ)
    worktrees = Worktrees(repository, tmp_path / "worktrees", BOARD)
    worktree = await worktrees.create("T1", made.git("rev-parse", "HEAD"))
    (worktree.path / "new.txt").write_text("new")
    assert await worktrees.commit(worktree, "T1: new", {"Taskyard-Task": "T1"}) is not None
    assert "shown" in seen.read_text()
    assert "sk-hidden" not in seen.read_text()


async def test_a_repository_inside_the_change_is_refused_since_its_files_would_be_lost(here: Place) -> None:
    worktree = await here.worktrees.create("T1", here.base)
    inside = worktree.path / "vendored"
    inside.mkdir()
    for command in (["init", "--quiet"], ["commit", "--quiet", "--allow-empty", "--message", "x"]):
        subprocess.run(["git", "-C", str(inside), *command], check=True)
    (inside / "work.txt").write_text("the work")
    with pytest.raises(GitError, match=r"vendored is a git repository of its own.*remove the \.git folder"):
        await here.worktrees.commit(worktree, "T1: vendored", TRAILERS)
    assert (inside / "work.txt").read_text() == "the work"
