"""Where state lies: in the git folder, worktrees outside of it, all of it apart for every repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.paths import StatePaths

COMMON = Path("/home/me/shop/.git")


def test_state_is_in_the_git_folder_and_worktrees_are_not() -> None:
    paths = StatePaths.of(COMMON, {"HOME": "/home/me"})
    assert paths.state == COMMON / "taskyard"
    for path in (paths.state_db, paths.cache_db, paths.lessons, paths.lessons_index, paths.archive):
        assert paths.state in path.parents
    assert paths.logs("r1") == paths.state / "logs" / "r1"
    assert Path("/home/me/.local/state/taskyard") in paths.worktrees.parents
    assert paths.worktrees.parent.name.startswith("shop-")


def test_the_state_home_is_where_the_user_wants_it_unless_it_is_no_place() -> None:
    assert StatePaths.of(COMMON, {"XDG_STATE_HOME": "/data"}).worktrees.is_relative_to("/data/taskyard")
    relative = StatePaths.of(COMMON, {"XDG_STATE_HOME": "data", "HOME": "/home/me"})
    assert relative.worktrees.is_relative_to("/home/me/.local/state")


def test_each_folder_can_be_set() -> None:
    paths = StatePaths.of(
        COMMON,
        {},
        state_dir=Path("/s"),
        worktree_dir=Path("/w"),
        cache_dir=Path("/shared"),
    )
    assert (paths.state_db, paths.cache_db) == (Path("/s/state.db"), Path("/shared/cache.db"))
    assert paths.worktrees.is_relative_to("/w")


@pytest.mark.parametrize(
    ("common", "name"), [("/x/shop/.git", "shop"), ("/x/shop.git", "shop"), ("/x/bare", "bare")]
)
def test_worktrees_bear_the_repositorys_name(common: str, name: str) -> None:
    assert StatePaths.of(Path(common), {"HOME": "/h"}).worktrees.parent.name.rpartition("-")[0] == name


def test_two_repositories_of_one_name_do_not_meet() -> None:
    one = StatePaths.of(Path("/a/shop/.git"), {"HOME": "/h"})
    two = StatePaths.of(Path("/b/shop/.git"), {"HOME": "/h"})
    assert one.worktrees != two.worktrees


def test_a_linked_way_to_a_repository_leads_to_the_same_state(tmp_path: Path) -> None:
    (tmp_path / "real" / ".git").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    environ = {"HOME": "/h"}
    real = StatePaths.of(tmp_path / "real" / ".git", environ)
    assert StatePaths.of(tmp_path / "link" / ".git", environ) == real
