"""Landing: many finished branches by one train, side by side with merging and pushing each by itself.

And worktrees: 200 one after the other, and a very large repository's with all of its folders and with one.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.board import combined, with_statuses
from engine.git.checkout import check_out
from engine.git.registry import add_detached
from engine.git.repository import Repository
from engine.git.train import Cargo, Checked, Train
from engine.git.upstream import Upstream
from engine.git.worktrees import Worktrees
from tests.bench import Row

TASKS = 50
LARGE = 60_000
BOARD = "board.md"
TARGET = "taskyard/board"
IDENTITY = {"GIT_AUTHOR_NAME": "B", "GIT_AUTHOR_EMAIL": "b@example.org"}
ENVIRON = {
    **os.environ,
    **IDENTITY,
    **{name.replace("AUTHOR", "COMMITTER"): value for name, value in IDENTITY.items()},
}


def rows() -> list[Row]:
    """Measure in repositories of two sizes, and 200 worktrees one after the other."""
    large, _, plain, pushes = _compare(files=5_000)
    small, queueing, _, small_pushes = _compare(files=500, plain=False)
    small += queueing
    left, seconds = _two_hundred()
    one_folder, whole = _large()
    return [
        Row(
            f"{TASKS} finished tasks, 5,000 files: one train",
            "1 push, ≥ 10 ×",
            large,
            "s",
            plain / large,
            pushes == 1 and plain / large >= 10,
        ),
        Row(
            f"{TASKS} finished branches, 500 files: queue to push",
            "≤ 2, 1 push",
            small,
            "s",
            None,
            small_pushes == 1 and small <= 2,
        ),
        Row("200 worktrees one after the other: left behind", "0", left, "things", None, left == 0),
        Row(
            "a worktree made, committed in and released",
            "≤ 500",
            seconds / 200 * 1e3,
            "ms",
            None,
            seconds <= 100,
        ),
        Row(
            f"a worktree of {LARGE:,} files: one folder of 1,200",
            "≥ 8 × as fast as all",
            one_folder,
            "s",
            whole / one_folder,
            whole / one_folder >= 8,
        ),
    ]


def _git(at: Path, *args: str, data: bytes | None = None) -> str:
    done = subprocess.run(
        ["git", "-C", str(at), *args], input=data, capture_output=True, check=True, env=ENVIRON
    )
    return done.stdout.decode().strip()


def _repository(folder: Path, files: int) -> Path:
    """Make a checkout with that many files and `TASKS` branches, each with a file of its own, and a bare remote."""
    path = folder / "checkout"
    path.mkdir()
    _git(path, "init", "--quiet", "--initial-branch=main")
    board = "| ID | Scope | Status | Branch | Verification |\n|---|---|---|---|---|\n" + "".join(
        f"| T{n} | Make {n} | [ ] | | `true` |\n" for n in range(TASKS)
    )
    stream = [
        "commit refs/heads/main\ncommitter B <b@example.org> 1700000000 +0000\ndata 5\nBegin\n"
        f"M 100644 inline {BOARD}\ndata {len(board)}\n{board}\n"
    ]
    stream += [f"M 100644 inline src/d{n % 50}/f{n}.txt\ndata 2\nx\n\n" for n in range(files)]
    for n in range(TASKS):
        stream.append(
            f"commit refs/heads/made/T{n}\ncommitter B <b@example.org> 1700000001 +0000\ndata 4\nWork\n"
            f"from refs/heads/main\nM 100644 inline src/d{n % 50}/new{n}.txt\ndata 2\ny\n\n"
        )
    _git(path, "fast-import", "--quiet", data="".join(stream).encode())
    _git(path, "reset", "--hard", "--quiet")
    remote = folder / "remote.git"
    _git(folder, "init", "--quiet", "--bare", "--initial-branch=main", str(remote))
    _git(remote, "config", "core.logAllRefUpdates", "always")
    _git(path, "remote", "add", "origin", str(remote))
    _git(path, "push", "--quiet", "origin", "main")
    return path


def _compare(*, files: int, plain: bool = True) -> tuple[float, float, float, int]:
    """Seconds of one train, of queueing for it, and of merging and pushing each branch; how often the train pushed.

    The train's lasting worktree is there, as for every train but a repository's first.
    """
    with tempfile.TemporaryDirectory(prefix="taskyard-bench-") as name:
        folder = Path(name)
        path = _repository(folder, files)
        pushed = folder / "remote.git" / "logs" / "refs" / "heads" / TARGET
        train, queueing = asyncio.run(_train(path, folder / "work"))
        pushes = len(pushed.read_text().splitlines())
        return train, queueing, _one_by_one(path) if plain else 0.0, pushes


async def _train(path: Path, work: Path) -> tuple[float, float]:
    repository = await Repository.open(path, environ=ENVIRON)
    base = _git(path, "rev-parse", "main")
    cargo = [
        Cargo(f"T{n}", f"Make {n}", _git(path, "rev-parse", f"made/T{n}"), "true", (f"src/d{n}/new{n}.txt",))
        for n in range(TASKS)
    ]
    train = _new_train(repository, base, work)
    await add_detached(repository, work / "_train", base)
    await check_out(repository, work / "_train", base, keep_ignored=True)
    await train.start()
    started = time.perf_counter()
    await asyncio.gather(*(train.queue(item.task_id, item.commit) for item in cargo))
    queued = time.perf_counter()
    result = await train.land(cargo)
    landed = time.perf_counter()
    assert len(result.landed) == TASKS, result
    return landed - queued, queued - started


def _new_train(repository: Repository, base: str, work: Path) -> Train:
    async def verify(tree: Path, commands: Sequence[str]) -> Checked:
        return Checked(True)

    return Train(
        repository,
        Upstream(repository, "origin", TARGET, timeout=60),
        base=base,
        run="bench",
        board=BOARD,
        tree=work / "_train",
        verify=verify,
        set_statuses=with_statuses,
        combine_boards=combined,
        check="true",
    )


def _one_by_one(path: Path) -> float:
    """The plain way, in the same repository: merge, mark the board, push; for each branch."""
    board = path / BOARD
    started = time.perf_counter()
    for n in range(TASKS):
        _git(path, "merge", "--quiet", "--no-ff", "-m", f"Land T{n}", f"made/T{n}")
        board.write_text(board.read_text().replace(f"| T{n} | Make {n} | [ ]", f"| T{n} | Make {n} | [x]"))
        _git(path, "commit", "--quiet", "--all", "-m", f"Mark T{n}")
        _git(path, "push", "--quiet", "origin", "main")
    return time.perf_counter() - started


def _two_hundred() -> tuple[int, float]:
    """Count what 200 worktrees leave behind (folders, refs, open files, processes), and the seconds they take."""
    with tempfile.TemporaryDirectory(prefix="taskyard-bench-") as name:
        path = _repository(Path(name), 100)
        return asyncio.run(_worktrees(path, Path(name) / "work"))


async def _worktrees(path: Path, root: Path) -> tuple[int, float]:
    repository = await Repository.open(path, environ=ENVIRON)
    base = _git(path, "rev-parse", "main")
    worktrees = Worktrees(repository, root, BOARD)

    async def one(number: int) -> None:
        made = await worktrees.create(f"T{number}", base)
        (made.path / "new.txt").write_text(f"{number}\n")
        change = await worktrees.commit(made, "Work", {"Taskyard-Task": f"T{number}"})
        assert change is not None
        assert await worktrees.release(f"T{number}", landed_in=change.commit)

    await one(0)
    before = _left(path, root)
    started = time.perf_counter()
    for number in range(1, 201):
        await one(number)
    return _left(path, root) - before, time.perf_counter() - started


def _large() -> tuple[float, float]:
    """Seconds that a worktree of one of 50 folders takes, and one of all."""
    with tempfile.TemporaryDirectory(prefix="taskyard-bench-") as name:
        path = _repository(Path(name), LARGE)
        return asyncio.run(_some_and_all(path, Path(name) / "work"))


async def _some_and_all(path: Path, root: Path) -> tuple[float, float]:
    repository = await Repository.open(path, environ=ENVIRON)
    base = _git(path, "rev-parse", "main")
    taken = []
    for number, folders in enumerate((["src/d7"], [])):
        worktrees = Worktrees(repository, root, BOARD, folders=folders)
        started = time.perf_counter()
        await worktrees.create(f"T{number}", base)
        taken.append(time.perf_counter() - started)
    return taken[0], taken[1]


def _left(path: Path, root: Path) -> int:
    counts: list[Callable[[], int]] = [
        lambda: len(list(root.iterdir())),
        lambda: len(_git(path, "worktree", "list").splitlines()),
        lambda: len(_git(path, "for-each-ref").splitlines()),
        lambda: len(os.listdir("/proc/self/fd")),
        lambda: len(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()),
    ]
    return sum(count() for count in counts[: 5 if Path("/proc/self/fd").exists() else 3])
