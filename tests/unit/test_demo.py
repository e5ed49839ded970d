"""The demo's project is real: its edits fit in any order, fail where they should, and end with passing tests."""

from __future__ import annotations

import itertools
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.board import read_board
from engine.demo import make_demo
from engine.demo.project import CART_TASKS, DemoProject
from engine.errors import PreflightError
from engine.llm.simulator import Answer, load_scenario
from engine.llm.simulator.script import Script
from engine.model import Lane, Task
from engine.settings import load_settings

Tree = dict[str, str]
ALL_TESTS = "python3 -B -m unittest discover -q -s tests -t . && python3 -B -m doctest README.md"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> DemoProject:
    return make_demo(tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def tasks(demo: DemoProject) -> dict[str, Task]:
    return {task.id: task for task in read_board(demo.board).tasks}


@pytest.fixture(scope="module")
def script(demo: DemoProject) -> Script:
    return Script(load_scenario(demo.scenario).answers)


@pytest.fixture(scope="module")
def start(demo: DemoProject) -> Tree:
    names = git(demo.root, "ls-files").split()
    return {name: (demo.root / name).read_text() for name in names}


def git(at: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(at), *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def implementation(script: Script, task: str, attempt: int, tree: Tree) -> Answer:
    """The answer of the implementer once it has read the files it asks for, as the tool loop shows them."""
    first = script.find(task, "implementer", attempt, "")
    assert first is not None
    shown = "\n".join(tree[edit.path] for edit in first.edits if edit.old)
    found = script.find(task, "implementer", attempt, shown)
    assert found is not None
    assert {e.path for e in found.edits if e.old} == {e.path for e in first.edits if e.old}
    return found


def applied(answer: Answer, tree: Tree) -> Tree:
    """The tree with the edits made, under the rule of the edit tools: what is replaced stands there exactly once."""
    tree = dict(tree)
    for edit in answer.edits:
        if edit.old:
            assert tree[edit.path].count(edit.old) == 1, (edit.path, edit.old)
            tree[edit.path] = tree[edit.path].replace(edit.old, edit.new)
        else:
            assert edit.new
            tree[edit.path] = edit.new
    return tree


def run(command: str, tree: Tree, at: Path) -> subprocess.CompletedProcess[str]:
    for name, text in tree.items():
        (at / name).parent.mkdir(parents=True, exist_ok=True)
        (at / name).write_text(text)
    return subprocess.run(command, shell=True, cwd=at, capture_output=True, text=True)


def last_attempt(script: Script, task: str, tree: Tree) -> Answer:
    """What finally lands: the third attempt falls back to the latest that is scripted."""
    return implementation(script, task, 3, tree)


def test_the_project_is_sound_as_it_is(start: Tree, tmp_path: Path) -> None:
    done = run(ALL_TESTS, start, tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_board_has_everything_a_demo_should_show(demo: DemoProject, tasks: dict[str, Task]) -> None:
    board = read_board(demo.board)
    assert board.diagnostics == ()
    assert len(board.runnable) == CART_TASKS == len(tasks)
    assert sum(task.lane is Lane.ECONOMY for task in tasks.values()) >= 3
    assert sum(bool(task.after) for task in tasks.values()) >= 3
    assert all(task.command for task in tasks.values())
    assert load_settings(demo.root, environ={}).verify.command in ALL_TESTS


def test_every_role_of_every_task_is_scripted(tasks: dict[str, Task], script: Script) -> None:
    for task in tasks:
        for role in ("planner", "implementer", "judge"):
            assert script.find(task, role, 1, "") is not None, (task, role)


def test_plans_name_the_files_that_are_edited(tasks: dict[str, Task], script: Script, start: Tree) -> None:
    for task in tasks:
        planned = script.find(task, "planner", 1, "")
        assert planned is not None
        assert planned.plan is not None
        first = script.find(task, "implementer", 1, "")
        assert first is not None
        assert {edit.path for edit in first.edits} <= set(planned.plan.files)


def test_each_task_passes_its_check_at_last_and_on_its_own(
    tasks: dict[str, Task], script: Script, start: Tree, tmp_path: Path
) -> None:
    for id, task in tasks.items():
        tree = start
        for needed in with_needed(tasks, id):
            tree = applied(last_attempt(script, needed, tree), tree)
        assert task.command is not None
        done = run(task.command, tree, tmp_path / id)
        assert done.returncode == 0, (id, done.stderr)


def with_needed(tasks: dict[str, Task], id: str) -> list[str]:
    return [*itertools.chain.from_iterable(with_needed(tasks, after) for after in tasks[id].after), id]


@pytest.mark.parametrize("attempt", [1, 2])
def test_rounding_fails_its_own_test_at_first(
    attempt: int, tasks: dict[str, Task], script: Script, start: Tree, tmp_path: Path
) -> None:
    tree = applied(implementation(script, "CART-3", attempt, start), start)
    done = run(tasks["CART-3"].command or "", tree, tmp_path)
    if attempt == 1:
        assert done.returncode == 1
        assert "test_half_a_cent_goes_up" in done.stderr
        assert "13" in done.stderr
    else:
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("attempt", [1, 2])
def test_discounts_pass_their_tests_and_are_refused_at_first(
    attempt: int, tasks: dict[str, Task], script: Script, start: Tree, tmp_path: Path
) -> None:
    tree = applied(implementation(script, "CART-4", attempt, start), start)
    assert run(tasks["CART-4"].command or "", tree, tmp_path).returncode == 0
    judged = script.find("CART-4", "judge", attempt, "")
    assert judged is not None
    assert judged.verdict is not None
    assert judged.verdict.approved is (attempt == 2)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_edits_fit_in_any_order_of_landing(
    data: st.DataObject,
    tasks: dict[str, Task],
    script: Script,
    start: Tree,
    tmp_path_factory: pytest.TempPathFactory,
    sound: set[tuple[tuple[str, str], ...]],
) -> None:
    wanted = data.draw(st.permutations(list(tasks)))
    order = list(dict.fromkeys(id for wish in wanted for id in with_needed(tasks, wish)))
    tree = start
    for id in order:
        tree = applied(last_attempt(script, id, tree), tree)
    assert set(order) == set(tasks)
    key = tuple(sorted(tree.items()))
    if key not in sound:
        done = run(ALL_TESTS, tree, tmp_path_factory.mktemp("landed"))
        assert done.returncode == 0, done.stderr
        sound.add(key)
    assert len(sound) <= 2  # the two orders of the two tasks that share a line


@pytest.fixture(scope="module")
def sound() -> set[tuple[tuple[str, str], ...]]:
    return set()


def test_only_the_two_that_share_a_line_conflict(
    demo: DemoProject, tasks: dict[str, Task], script: Script, start: Tree, tmp_path: Path
) -> None:
    at = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(demo.remote), str(at))
    git(at, "config", "user.name", "Tester")
    git(at, "config", "user.email", "tester@example.org")
    commits = {}
    for id, task in tasks.items():
        if task.after:
            continue
        git(at, "checkout", "--quiet", "-B", id, "origin/main")
        tree = applied(last_attempt(script, id, start), start)
        for name in tree.keys() - start.keys() | {name for name in start if tree[name] != start[name]}:
            (at / name).write_text(tree[name])
        git(at, "add", "--all")
        git(at, "commit", "--quiet", "--message", id)
        commits[id] = git(at, "rev-parse", "HEAD")
    assert len(commits) == 10
    conflicts = {
        (one, other)
        for one, other in itertools.combinations(commits, 2)
        if subprocess.run(
            ["git", "-C", str(at), "merge-tree", "--write-tree", commits[one], commits[other]],
            capture_output=True,
        ).returncode
        == 1
    }
    assert conflicts == {("CART-1", "CART-2")}


def test_the_same_call_makes_the_same_commits(demo: DemoProject, tmp_path: Path) -> None:
    again = make_demo(tmp_path / "again")
    assert git(again.root, "rev-parse", "HEAD") == git(demo.root, "rev-parse", "HEAD")
    assert git(again.remote, "rev-parse", "main") == git(demo.root, "rev-parse", "HEAD")
    assert git(again.root, "status", "--porcelain") == ""
    assert len((again.remote / "logs/refs/heads/main").read_text().splitlines()) == 1


def test_nobodys_configuration_gets_in_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = tmp_path / "gitconfig"
    hostile.write_text(
        "[commit]\n\tgpgsign = true\n[core]\n\thooksPath = /nowhere\n\tautocrlf = true\n[init]\n\tdefaultBranch = x\n"
    )
    before = hostile.read_bytes()
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(hostile))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    made = make_demo(tmp_path / "demo")
    monkeypatch.delenv("GIT_DIR")
    (made.root / "note.md").write_text("# Note\n")
    git(made.root, "add", "note.md")
    git(made.root, "commit", "--quiet", "--message", "An identity is there, and nothing is signed")
    assert git(made.root, "log", "-1", "--format=%an") == "Ada Cartwright"
    assert hostile.read_bytes() == before


@pytest.mark.parametrize("count", [1, 5, 13, 14, 15, 60])
def test_a_board_of_any_length_is_whole(count: int, tmp_path: Path) -> None:
    made = make_demo(tmp_path, tasks=count)
    board = read_board(made.board)
    assert board.diagnostics == ()
    assert len(board.runnable) == count


def test_generated_tasks_can_be_done(tmp_path: Path) -> None:
    made = make_demo(tmp_path, tasks=20)
    script = Script(load_scenario(made.scenario).answers)
    task = read_board(made.board).task("ZONE-0018")
    assert task is not None
    assert task.lane is Lane.ECONOMY
    tree: Tree = applied(implementation(script, task.id, 1, {}), {})
    done = run(task.command or "", tree, made.root)
    assert done.returncode == 0, done.stderr


def test_a_fast_demo_has_the_same_tasks_and_shorter_times(demo: DemoProject, tmp_path: Path) -> None:
    fast = make_demo(tmp_path, fast=True)
    assert fast.board.read_bytes() == demo.board.read_bytes()
    assert load_scenario(fast.scenario).pace < load_scenario(demo.scenario).pace
    slow_settings, fast_settings = (load_settings(made.root, environ={}) for made in (demo, fast))
    assert fast_settings.git.max_age < slow_settings.git.max_age
    assert fast_settings.llm.batch_age < slow_settings.llm.batch_age


def test_an_occupied_or_forbidden_directory_is_refused(demo: DemoProject, tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match="holds a demo already"):
        make_demo(demo.root.parent)
    (tmp_path / "file").write_text("")
    with pytest.raises(PreflightError, match="cannot write"):
        make_demo(tmp_path / "file")
    assert os.listdir(tmp_path) == ["file"]
