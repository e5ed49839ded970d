"""A board run again: after a refused push, a move of the repository, an edit of its rows."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

from engine.paths import StatePaths
from tests.cli.taskyard import taskyard
from tests.cli.test_run import project
from tests.sample_repository import SampleRepository
from tests.samples import record, short_run
from tui.source import Lookups, Runs

Repo = Callable[..., SampleRepository]
HEAD = "| ID | Scope | Status | Branch | Verification |\n|---|---|---|---|---|\n"


def rows(*names: str, scope: str = "Write", state: str = " ") -> str:
    return "".join(f"| {name} | {scope} {name} | [{state}] | | `test -f {name}.txt` |\n" for name in names)


def test_what_a_refused_push_left_leaves_together(repo: Repo) -> None:
    made = project(repo, HEAD + rows("T1", "T2", "T3", "T4"))
    hook = made.remote / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    patient = {"TASKYARD_GIT_MAX_AGE": "600s"}
    assert taskyard("run", "--headless", at=made.path, environ=patient).status == 1
    hook.unlink()
    said = taskyard("run", "--headless", at=made.path, environ=patient)
    assert said.status == 0, said
    assert made.pushes("taskyard/board") == 1
    assert "1 push for 4 tasks, 3 saved" in said.out


def test_a_reopened_row_is_done_again_and_its_mark_follows(repo: Repo) -> None:
    made = project(repo, HEAD + rows("T1", "T2"))
    assert taskyard("run", "--headless", at=made.path).status == 0
    made.git("pull", "--quiet", "--no-rebase", "--no-edit", "origin", "taskyard/board")
    board = HEAD + "| T1 | New | [ ] | | `test -f T1-new.txt` |\n" + rows("T2", state="x")
    made.commit("Reopen", {"tasks/board.md": board + rows("T3")})
    said = taskyard("run", "--headless", "--max-attempts", "1", at=made.path)
    assert said.status == 1, said
    assert "T1 landed on taskyard/board with another scope or verification" in said.out
    landed = made.git("show", "taskyard/board:tasks/board.md", at=made.remote)
    assert landed + "\n" == board.replace("[ ]", "[!]") + rows("T3", state="x")
    (made.path.parent / "agent.py").write_text(
        "import pathlib\npathlib.Path('T1-new.txt').write_text('new')\n"
    )
    said = taskyard("run", "--headless", at=made.path)
    assert said.status == 0, said
    landed = made.git("show", "taskyard/board:tasks/board.md", at=made.remote)
    assert landed + "\n" == board.replace("[ ]", "[x]") + rows("T3", state="x")
    assert made.git("show", "taskyard/board:T1-new.txt", at=made.remote) == "new"


def test_a_board_that_is_not_committed_is_worked_off_once(repo: Repo) -> None:
    made = project(repo, HEAD + rows("T1"))
    made.write({"untracked.md": HEAD + rows("T7", "T8")})
    assert taskyard("run", "untracked.md", "--headless", at=made.path).status == 0
    pushes = made.pushes("taskyard/untracked")
    again = taskyard("run", "untracked.md", "--headless", at=made.path)
    assert again.status == 0, again
    assert "2 tasks have landed on taskyard/untracked already" in again.out
    assert made.pushes("taskyard/untracked") == pushes >= 1


def test_a_row_committed_after_it_landed_is_marked_with_what_lands_next(repo: Repo) -> None:
    made = project(repo, HEAD + rows("T1"))
    made.write({"tasks/board.md": HEAD + rows("T1", "T2")})
    assert taskyard("run", "--headless", at=made.path).status == 0
    made.commit("Rows", {"tasks/board.md": HEAD + rows("T1", "T2", "T3")})
    said = taskyard("run", "--headless", at=made.path)
    assert said.status == 0, said
    assert "1 push for 1 task" in said.out
    landed = made.git("show", "taskyard/board:tasks/board.md", at=made.remote)
    assert landed + "\n" == HEAD + rows("T1", "T2", "T3", state="x")


def test_rows_kept_in_a_conflict_with_their_marks_are_marked_again(repo: Repo) -> None:
    made = project(repo, HEAD + rows("T1", "T2"))
    assert taskyard("run", "--headless", at=made.path).status == 0
    made.git("fetch", "--quiet", "origin")
    board = HEAD + rows("T1", "T2", "T3")
    made.commit("Another row", {"tasks/board.md": board})
    made.git("merge", "--quiet", "--no-commit", "--strategy=ours", "origin/taskyard/board")
    made.git("checkout", "origin/taskyard/board", "--", "T1.txt", "T2.txt")
    made.git("commit", "--quiet", "--message=Keep our rows")
    assert made.git("show", "HEAD:tasks/board.md") + "\n" == board
    said = taskyard("run", "--headless", at=made.path)
    assert said.status == 0, said
    assert "2 tasks have landed on taskyard/board already" in said.out
    landed = made.git("show", "taskyard/board:tasks/board.md", at=made.remote)
    assert landed + "\n" == HEAD + rows("T1", "T2", "T3", state="x")
    made.git("pull", "--quiet", "--no-rebase", "--no-edit", "origin", "taskyard/board")
    said = taskyard("run", "--headless", at=made.path)
    assert said.status == 0, said
    titles = made.git("log", "--format=%s", "--grep=Taskyard-Task:", "taskyard/board", at=made.remote)
    assert sum("T1" in title for title in titles.splitlines() if title.startswith("Land ")) == 1


def test_a_row_that_is_edited_and_not_committed_is_told_and_done_once(repo: Repo) -> None:
    made = project(repo, HEAD + rows("T1", "T2"))
    board = HEAD + rows("T1") + rows("T2", scope="Rewrite")
    made.write({"tasks/board.md": board})
    said = taskyard("run", "--headless", at=made.path)
    assert said.status == 0, said
    assert "the edits of T2 in tasks/board.md are not committed: they are worked on" in said.out
    made.commit("Edit", {"tasks/board.md": board})
    again = taskyard("run", "--headless", at=made.path)
    assert again.status == 0, again
    assert "not committed" not in again.out
    assert "another scope" not in again.out
    done = made.git(
        "log", "--no-merges", "--format=%(trailers:key=Taskyard-Task)", "taskyard/board", at=made.remote
    )
    assert done.count("T2") == 1


def test_an_agent_that_configures_git_does_so_for_nobody_else(repo: Repo) -> None:
    agent = """
import pathlib, subprocess
def git(*args): subprocess.run(["git", *args], check=True)
git("config", "user.name", "bot")
pathlib.Path("T1.txt").write_text("draft")
git("add", "T1.txt")
git("stash", "--quiet")
pathlib.Path("T1.txt").write_text("done")
"""
    made = project(repo, HEAD + rows("T1"), agent)
    said = taskyard("run", "--headless", at=made.path)
    assert said.status == 0, said
    assert ".git/config was changed while T1 was worked on, and is put back: user.name" in said.out
    assert "the agent left 1 stash among yours: see git stash list" in said.out
    assert made.git("config", "user.name") == "Test Person"
    authors = made.git("log", "--format=%an", "taskyard/board", at=made.remote).splitlines()
    assert set(authors) == {"Test Person"}


def test_an_agent_that_moves_the_users_branch_has_it_put_back_and_told(repo: Repo) -> None:
    agent = """
import pathlib, subprocess
def git(*args): subprocess.run(["git", *args], check=True)
pathlib.Path("T1.txt").write_text("done")
git("add", "T1.txt")
git("commit", "--quiet", "--message=mine")
git("branch", "other")
git("update-ref", "refs/heads/main", "HEAD")
"""
    made = project(repo, HEAD + rows("T1"), agent)
    before = made.git("rev-parse", "main")
    said = taskyard("run", "--headless", at=made.path)
    assert said.status == 0, said
    assert f"T1 changed the branch main (moved from {before[:10]} to " in said.out
    assert "T1 changed the branch other (made at " in said.out
    assert made.git("rev-parse", "main") == before
    assert made.git("branch", "--list", "other") == made.git("status", "--porcelain") == ""


def test_a_failed_task_that_made_nothing_leaves_no_worktree(repo: Repo) -> None:
    made = project(repo, HEAD + rows("T1"), "", "[run]\nmax_attempts = 2\n")
    assert taskyard("run", "--headless", at=made.path).status == 1
    assert taskyard("worktrees", at=made.path).out == "there are no worktrees\n"
    assert made.git("branch", "--list", "task/*") == ""


async def test_which_run_landed_a_task_is_known_as_long_as_it_can_be_replayed(repo: Repo) -> None:
    made = project(repo, HEAD + rows("T1", "T2"))
    assert taskyard("run", "--headless", at=made.path).status == 0
    paths = StatePaths.of(made.path / ".git", os.environ)
    lookups = Lookups(runs=Runs(paths.state_db, paths.archive))
    [run] = (await lookups.list_runs()).runs
    where = (str(made.path), "taskyard/board")
    assert [await lookups.landed_in(*where, task) for task in ("T1", "T2", "T3")] == [run.run, run.run, ""]
    assert await lookups.landed_in(str(made.path), "another/board", "T1") == ""
    assert await lookups.landed_in("/nowhere", "taskyard/board", "T1") == ""
    await lookups.close()
    shutil.rmtree(paths.state)
    paths = record(made.path, short_run())
    lookups = Lookups(runs=Runs(paths.state_db, paths.archive))
    assert await lookups.landed_in(*where, "T1") == ""
    await lookups.close()
